"""`/config` and `/permissions`: what holds here, and where each part of it comes from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.settings.known_settings import is_known, near_key
from cellwright.config.settings.layers import Layer, SettingsEntry
from cellwright.config.settings.option_table import BY_NAME
from cellwright.config.settings.settings import Settings
from cellwright.conversation.resolve_options import CHOSEN_IN_FORCE, mode_of
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.features.conversation import Conversation
from cellwright.permissions.modes import mode_name
from cellwright.redaction.redaction import is_secret
from cellwright.tools.paths import home_path

_LONGEST_VALUE = 400


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
    facts: list[Row] = [
        ("", ""),
        ("mode", f"{mode} · from {'options' if options.mode else came_to}"),
        ("folder", f"{home_path(trust.folder)}: {_describe_trust(conversation)}"),
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
        rules = _rules(settings.merged.entries.get(("permissions", behavior), ()))
        rules += [(rule, "options") for rule in getattr(options, behavior, ())]
        if behavior == "allow":
            rules += [(rule, "allowed in this session") for rule in conversation.sessions.current.granted]
        if rules:
            sections.append(Section(behavior.capitalize(), [("rule", "from"), *rules], remark))
    return CommandPage([*sections, *_quarantined(conversation), *_problems(settings)])


def _rules(entries: Sequence[SettingsEntry]) -> list[Row]:
    return [(_shown(entry.path, entry.value), layer_label(entry.layer)) for entry in entries if entry.element]


def _describe_trust(conversation: Conversation) -> str:
    trust = conversation.in_force.trust
    if trust.waiting:
        return f"{'trusted, except for new or changed parts' if trust.trusted else 'not trusted'} (a new session asks)"
    return "trusted" if trust.trusted else "brings nothing along that would need trust"
