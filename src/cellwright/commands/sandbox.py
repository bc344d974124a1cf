"""`/sandbox`: what commands are confined by here, what they may then read, write and reach, and which setting says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.tool import Tool
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.commands.settings_pages import layer_label
from cellwright.config.settings.known_settings import KEYS
from cellwright.config.settings.settings import Settings
from cellwright.conversation.resolve_options import policy_of
from cellwright.conversation.runs.sandbox_lookup import SandboxFound
from cellwright.permissions.modes import MODE_LABELS
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.sandbox.mechanisms import advice_on

MAX_PATHS = 40

_READS = "awk 1"
_WRITES = "touch x"
_RUNS = "make"
"""Commands that stand for their kind: what the policy says of them is what the page shows."""

_LEAVES_OPEN = {
    "Landlock": "which files there are, with sizes and dates",
    "bubblewrap": "nothing of the file system",
}


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
