"""`/config`, `/permissions` and `/sandbox`: what holds here, what commands are confined by, and which setting says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.tool import Tool
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.settings.known_settings import KEYS, is_known, near_key
from cellwright.config.settings.layers import Layer
from cellwright.config.settings.option_table import BY_NAME
from cellwright.config.settings.settings import Settings
from cellwright.conversation.resolve_options import CHOSEN_IN_FORCE, mode_of, policy_of
from cellwright.conversation.runs.in_force import SandboxFound
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.features.conversation import Conversation
from cellwright.permissions.modes import MODE_LABELS, mode_name
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.redaction.redaction import is_secret
from cellwright.sandbox.mechanisms import advice_on
from cellwright.tools.paths import home_path

_LONGEST_VALUE = 400

MAX_PATHS = 40

_READS = "awk 1"
_WRITES = "touch x"
_RUNS = "make"
"""Commands that stand for their kind: what the policy says of them is what the page shows."""

_LEAVES_OPEN = {
    "Landlock": "which files there are, with sizes and dates",
    "bubblewrap": "nothing of the file system",
}


def config_page(call: CommandCall) -> CommandPage:
    """Each setting with its value and where it comes from."""
    conversation, options = call.conversation, call.options
    settings = conversation.in_force.settings
    in_force = [("setting", "value", "from"), *_in_force(conversation, options)]
    # /permissions shows the rules
    rules = ("permissions.allow", "permissions.ask", "permissions.deny")
    rows = [*in_force, *(row for row in setting_rows(settings) if row[0] not in rules)]
    sections = [Section("Settings", rows, "The topmost place that sets a value wins; lists are joined.")]
    return CommandPage([*sections, *unknown_settings(settings), *_quarantined(conversation), *_problems(settings)])


def setting_rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Each setting that has an effect: its key, its value, and where that is from."""
    rows: list[tuple[str, str, str]] = []
    for path, entries in sorted(settings.merged.entries.items()):
        if not is_known(path):
            continue
        for entry in entries if entries[-1].element else entries[-1:]:
            rows.append((".".join(path), _shown(path, entry.value), layer_label(entry.layer)))
    return rows


def unknown_settings(settings: Settings) -> list[Section]:
    """Name, once, the keys in the files that change nothing here, with what may have been meant."""
    names = [".".join(path) for path in sorted(settings.merged.entries) if not is_known(path)]
    shown = [f"{name} (did you mean {near}?)" if (near := near_key(name)) else name for name in names]
    return [Section("Not known here, without effect", [], ", ".join(shown))] if names else []


def _in_force(conversation: Conversation, options: RunOptions) -> list[Row]:
    """List what a run would be given now, where an option or nothing but the default says it."""
    settings, environment = conversation.in_force.settings, conversation.in_force.environment
    rows: list[Row] = []
    for name, in_force in CHOSEN_IN_FORCE.items():
        key = BY_NAME[name].setting
        value = or_problem(partial(in_force, options, settings, environment))
        if getattr(options, name) is not None:
            rows.append((f"{key} of this run", value, "options"))
        elif settings.origin(key) is None:
            rows.append((key, value, "default"))
    return rows


def or_problem(value: Callable[[], str]) -> str:
    """Return what `value` gives, or say why there is none."""
    try:
        return value()
    except CellwrightError as error:
        return f"refused: {error.message}"


def _shown(path: tuple[str, ...], value: Any) -> str:
    if path[0] == "env" and is_secret(path[-1], str(value)):
        return "(secret)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def layer_label(layer: Layer) -> str:
    """The place of a layer as people write it."""
    return layer.label if layer.file is None else home_path(layer.file)


def _quarantined(conversation: Conversation) -> list[Section]:
    trust = conversation.in_force.trust
    held: list[Row] = [
        (item.text, "the folder is not trusted" if item.gate == "trust" and not trust.trusted else "not confirmed yet")
        for item in trust.waiting
    ]
    held += [(text, "changed while Claude was working") for text in conversation.in_force.quarantined]
    return [Section("Configured, but not in effect", [("what", "because"), *held])] if held else []


def _problems(settings: Settings) -> list[Section]:
    return [Section("Problems", [("",), *((notice,) for notice in settings.notices)])] if settings.notices else []


def permissions_page(call: CommandCall) -> CommandPage:
    """The mode, each rule with where it comes from, trust and folders."""
    conversation, options = call.conversation, call.options
    settings = conversation.in_force.settings
    chosen = conversation.sessions.current.mode
    mode = or_problem(lambda: mode_name(chosen or mode_of(options, settings, conversation.in_force.environment)))
    origin = settings.origin("permissions.defaultMode")
    came_to = "this session" if chosen else "the defaults" if origin is None else origin.label
    trust = conversation.in_force.trust
    if trust.waiting:
        trusted = (
            f"{'trusted, except for new or changed parts' if trust.trusted else 'not trusted'} (a new session asks)"
        )
    else:
        trusted = "trusted" if trust.trusted else "brings nothing along that would need trust"
    facts: list[Row] = [
        ("", ""),
        ("mode", f"{mode} · from {'options' if options.mode else came_to}"),
        ("folder", f"{home_path(trust.folder)}: {trusted}"),
        (
            "working folders",
            ", ".join(home_path(folder) for folder in (conversation.cwd, *settings.additional_directories)),
        ),
    ]
    for name, blocked in (("reads", settings.block_reads_outside), ("writes", settings.block_writes_outside)):
        if blocked:
            facts.append((name, "only in the working folders"))
    sections = [Section("Permissions", facts)]
    for behavior, remark in (
        ("deny", "Never runs, in any mode."),
        ("ask", "Always asks, in any mode."),
        ("allow", "Runs without asking."),
    ):
        entries = settings.merged.entries.get(("permissions", behavior), ())
        rules = [(_shown(each.path, each.value), layer_label(each.layer)) for each in entries if each.element]
        rules += [(rule, "options") for rule in getattr(options, behavior, ())]
        if behavior == "allow":
            rules += [(rule, "allowed in this session") for rule in conversation.sessions.current.granted]
        if rules:
            sections.append(Section(behavior.capitalize(), [("rule", "from"), *rules], remark))
    return CommandPage([*sections, *_quarantined(conversation), *_problems(settings)])


async def sandbox_page(call: CommandCall) -> CommandPage:
    """Show what confines commands here, and why."""
    found = await asyncio.to_thread(call.conversation.sandbox.found)
    return await asyncio.to_thread(_page, call, found)


def _page(call: CommandCall, found: SandboxFound) -> CommandPage:
    conversation, options = call.conversation, call.options
    settings = conversation.in_force.settings
    # what a sandbox that is required and not there says of itself is said here anyway
    lenient = structs.replace(settings, sandbox=structs.replace(settings.sandbox, required=False))
    environ = conversation.in_force.environ
    policy = policy_of(options, lenient, conversation.cwd, environ, found.abilities)
    sections = [Section("Sandbox", [("", ""), *_facts(found, settings, str(conversation.cwd))])]
    bash = next((tool for tool in conversation.tools.of(options) if tool.access.kind == "shell"), None)
    if found.abilities is not None and bash is not None:
        sections += _what_commands_may(policy, bash, environ, conversation.cwd)
        sections.append(Section("Not restricted", [("", ""), *_open_ends(found)]))
    sections += _settings(settings, policy.sandbox)
    return CommandPage(sections)


def _facts(found: SandboxFound, settings: Settings, cwd: str) -> list[Row]:
    name = "none: commands are judged by reading them alone" if found.abilities is None else found.abilities.name
    rows: list[Row] = [("means", name)]
    for means, reason in found.missing.items():
        rows.append((f"not {means}", " → ".join(filter(None, (reason, advice_on(means))))))
    if (container := settings.sandbox.container.container) is not None:
        network = "every host" if container.network else "no network"
        text = f"Bash, RunTests and fresh kernels run in {container.name}, with {network}; the rest is about other programs"
        rows.append(("container", text))
    if found.abilities is not None and not found.abilities.protects:
        rows.append(
            ("so", "commands that would change files ask, also where mode Accept edits would let them confined")
        )
    if found.abilities is not None and not found.abilities.hosts:
        rows.append(("so", "the network can be closed to a command, and not bounded to named hosts"))
    if found.abilities is not None and found.abilities.protects:
        rows.append(("edits", _of_staging(found.abilities, cwd)))
    origin = settings.origin("sandbox.enabled")
    if not settings.sandbox.rules.enabled:
        way = '`"sandbox": {"enabled": true}` in ~/.claude/settings.json switches it on for every command'
        rows.append(("confined", f"what runs unasked; what you allow runs with your rights. {way}"))
    else:
        unasked = "they then need no question" if settings.sandbox.rules.auto_allow else "they ask as without it"
        where = origin.label if origin is not None else "a folder that is not trusted yet"
        rows.append(("confined", f"every command, and {unasked} (from {where})"))
    if settings.sandbox.required:
        rows.append(("required", "where nothing confines commands, nothing is sent (`sandbox.failIfUnavailable`)"))
    return rows


def _of_staging(abilities: SandboxAbilities, cwd: str) -> str:
    kind = "commands whose files show only when they run (`tar x`, `patch`, a loop)"
    every = "so does each that may write, with the sandbox on for every command"
    why = "" if abilities.protects_patterns else "it cannot stage changes"
    if not why and abilities.why_not is not None:
        why = abilities.why_not(Confinement(read=(cwd,), write=(cwd,), protects=lambda _path: False))
    mode = MODE_LABELS["acceptEdits"][0]
    if why:
        return f"in mode {mode}, {kind} ask: {why}; {every}"
    return f"in mode {mode}, {kind} change a copy, which is looked at before anything of it is made here; {every}"


def _what_commands_may(policy: PermissionPolicy, bash: Tool, environ: Mapping[str, str], cwd: Path) -> list[Section]:
    kinds = [("What runs unasked, confined to reading", policy.in_mode("default"), _READS)]
    if policy.sandbox.enabled:
        kinds.append(("Any other command", policy.in_mode("default"), _RUNS))
    else:
        unasked = f"What runs unasked in mode {MODE_LABELS['acceptEdits'][0]}"
        kinds.append((unasked, policy.in_mode("acceptEdits"), _WRITES))
    sections = []
    for title, judging, command in kinds:
        called = {"command": command}
        decision = judging.decide(bash, {**called, **(bash.facts(called) if bash.facts is not None else {})})
        if decision.confinement is not None:
            rows = may_rows(decision.confinement, environ, str(cwd))
            sections.append(Section(title, [("may", "what"), *rows]))
        elif decision.behavior == "allow":
            sections.append(Section(title, text="It is not confined: it is known to do nothing else."))
        else:
            sections.append(Section(title, text=f"Nothing: it asks. {decision.reason}"))
    return sections


def may_rows(confinement: Confinement, environ: Mapping[str, str], cwd: str) -> list[Row]:
    """List what a command within `confinement` may do on this machine, in rows."""
    from cellwright.sandbox.resolved_bounds import ConfinementError, bounds_of  # what confines is needed for few pages

    try:
        bounds = bounds_of(confinement, environ, cwd)
    except ConfinementError as error:
        return [("nothing", f"it is not started: {error}")]
    patterns = " and what deny rules with patterns name" if confinement.hides is not None else ""
    protected = " and what is protected by its name" if confinement.protects is not None else ""
    rows = [
        ("read and run", _listed(path for path in bounds.read if Path(path).exists())),
        ("read", _listed(path for path in bounds.data if Path(path).exists())),
        ("not read", _listed(bounds.hidden) + patterns),
        ("write", _listed((*bounds.write, "a temporary folder of its own"))),
    ]
    if bounds.write:
        rows.append(("not write", _listed(bounds.protected) + protected))
    return [*rows, ("reach", _network(confinement))]


def _network(confinement: Confinement) -> str:
    if confinement.any_host:
        return "every host"
    if confinement.hosts is None:
        return "nothing: no network"
    asked = "you are asked about others" if confinement.asks_hosts else "no others"
    denied = f"; never {', '.join(confinement.denied_hosts)}" if confinement.denied_hosts else ""
    always = f"; {', '.join(confinement.asked_hosts)} never unasked" if confinement.asked_hosts else ""
    return f"{', '.join((*confinement.hosts, asked))}{always}{denied}"


def _listed(paths: Iterable[str]) -> str:
    home = str(Path.home())
    shown = [f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path for path in paths]
    more = f" and {len(shown) - MAX_PATHS} more" if len(shown) > MAX_PATHS else ""
    return (", ".join(shown[:MAX_PATHS]) or "nothing") + more


def _open_ends(found: SandboxFound) -> list[Row]:
    name = "" if found.abilities is None else found.abilities.name
    rows: list[Row] = [(means, text) for means, text in _LEAVES_OPEN.items() if means in name]
    if name == "Landlock":
        rows.append((name, "other processes and their command lines (`ps`); bubblewrap would hide them"))
    return [
        *rows,
        ("Python", "Claude's Python runs in your own process, which nothing confines: it asks"),
        ("an allowed host", "what a command may read it can send there"),
    ]


def _settings(settings: Settings, rules: SandboxRules) -> list[Section]:
    rows: list[Row] = [("setting", "value", "from")]
    for path, entries in sorted(settings.merged.entries.items()):
        if path[0] == "sandbox":
            remark = "" if path in KEYS else " (not used here)"
            for entry in entries if entries[-1].element else entries[-1:]:
                value = entry.value if isinstance(entry.value, str) else json.dumps(entry.value)
                rows.append((".".join(path), value, f"{layer_label(entry.layer)}{remark}"))
    rows += _of_rules(settings, rules)
    if len(rows) == 1:
        return [Section("Settings", text="None of `sandbox` is set: the defaults hold.")]
    return [Section("Settings", rows)]


def _of_rules(settings: Settings, rules: SandboxRules) -> list[Row]:
    said: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
        ("filesystem.allowWrite", rules.allow_write, settings.sandbox.rules.allow_write),
        ("filesystem.denyWrite", rules.deny_write, settings.sandbox.rules.deny_write),
        ("filesystem.denyRead", rules.deny_read, settings.sandbox.rules.deny_read),
        ("network.allowedDomains", rules.allowed_hosts, settings.sandbox.rules.allowed_hosts),
        ("network.deniedDomains", rules.denied_hosts, settings.sandbox.rules.denied_hosts),
    )
    return [
        (f"sandbox.{name}", value, "a rule (`/permissions` says where)")
        for name, listed, own in said
        for value in listed
        if value not in own
    ]
