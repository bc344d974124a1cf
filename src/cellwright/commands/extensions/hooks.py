"""`/hooks`: the hooks in force by event, where each comes from, and what keeps others from running."""

from __future__ import annotations

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.hooks.entries import CommandHook, Entries, HookEntry, HttpHook, McpToolHook
from cellwright.config.hooks.hooks import hook_problems, origin_of
from cellwright.config.settings.settings import HooksSource
from cellwright.config.settings.settings_in_force import SettingsInForce


def hooks_page(call: CommandCall) -> CommandPage:
    """Show each hook, what was not understood, and what waits for trust."""
    in_force = call.conversation.in_force
    settings = in_force.settings
    rows: list[Row] = [("event", "for", "what runs", "where from", "")]
    problems = hook_problems(settings.hooks)
    found: list[tuple[str, Row]] = []
    for source in settings.hooks:
        entries = Entries()
        entries.add(source.label, source.events, origin_of(source))
        state = _state(source, in_force)
        found += [
            (event, _row(event, entry, source, state)) for event, each in entries.by_event.items() for entry in each
        ]
    rows += [row for _, row in sorted(found, key=lambda pair: pair[0])]
    text = "Configure them in settings files, under `hooks`."
    if not found:
        text = f"There are none. {text}"
    sections = [Section("Hooks", rows, text)]
    waiting = [item.text for item in in_force.trust.waiting if item.text.startswith("hook ")]
    if waiting:
        held: list[Row] = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not in force yet", held))
    if problems:
        sections.append(Section("Not understood", [("",), *((problem,) for problem in problems)]))
    return CommandPage(sections)


def _state(source: HooksSource, in_force: SettingsInForce) -> str:
    """Tell what keeps the hooks of `source` from running; "" where nothing does."""
    settings, trust = in_force.settings, in_force.trust
    if source.scope == "managed":
        return ""
    if settings.disable_all_hooks:
        return "off: disableAllHooks"
    if settings.allow_managed_hooks_only:
        return "off: allowManagedHooksOnly"
    if not trust.trusted and any(item.gate == "trust" for item in trust.waiting):
        return "waits: the folder is not trusted"
    return "in force"


def _row(event: str, entry: HookEntry, source: HooksSource, state: str) -> Row:
    matched = " ".join(filter(None, (entry.matcher or "all", entry.condition and f"if {entry.condition}")))
    return event, matched, f"{_kind(entry)}: {entry.name}", source.label, state or "in force"


def _kind(entry: HookEntry) -> str:
    match entry:
        case CommandHook():
            return "command"
        case HttpHook():
            return "address"
        case McpToolHook():
            return "tool"
        case _:
            return "model"
