"""Slash commands that look and tell: `/help`, `/config`, `/permissions`, `/status`. Nothing is sent, nothing is kept.

The same in a cell, at the line magic and in the terminal: a command makes a page, a face shows it.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.agent.credentials import source_of_credential
from cellwright.agent.tool import Tool
from cellwright.config.settings import Settings
from cellwright.config.settings_keys import KEYS
from cellwright.config.settings_layers import Entry, Layer
from cellwright.conversation import Conversation
from cellwright.conversation_settings import effort_of, mode_of, model_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.run_options import RunOptions
from cellwright.tools.child_environment import is_secret
from cellwright.version import VERSION
from cellwright.visible_text import visible_line

Row = tuple[str, ...]

_COMMAND = re.compile(r"\s*/(?P<name>[A-Za-z][\w-]*)(?P<rest>(?:\s.*)?)", re.DOTALL)
_LONGEST_VALUE = 400
_LONGEST_LINE = 1_000


@dataclass(frozen=True)
class Section:
    """A table under a title, the first row its head; `text` stands above it."""

    title: str
    rows: Sequence[Row] = ()
    text: str = ""


@dataclass(frozen=True)
class Page:
    """What a command tells."""

    sections: Sequence[Section]

    def markdown(self) -> str:
        parts: list[str] = []
        for section in self.sections:
            parts += [f"**{_escaped(section.title)}**", _escaped(section.text)]
            if len(section.rows) > 1:
                head, *body = section.rows
                lines = [head, tuple("---" for _ in head), *body]
                parts.append("\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines))
        return "\n\n".join(part for part in parts if part)

    def plain(self) -> str:
        parts: list[str] = []
        for section in self.sections:
            lines = [section.title, *([f"  {section.text}"] if section.text else [])]
            body = [tuple(visible_line(cell, _LONGEST_LINE) for cell in row) for row in section.rows[1:]]
            widths = [max(len(row[column]) for row in body) for column in range(len(body[0]) - 1)] if body else []
            for row in body:
                padded = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
                lines.append("  " + "  ".join([*padded, row[-1]]).rstrip())
            parts.append("\n".join(lines))
        return "\n\n".join(parts)


def _cell(text: str) -> str:
    return _escaped(visible_line(text, _LONGEST_LINE)) if text != "---" else text


def _escaped(text: str) -> str:
    # what settings hold is data: it draws no links, no pictures and no HTML
    return re.sub(r"([\\`*_{}\[\]<>#|!$~])", r"\\\1", text)


def command_name(prompt: str) -> str | None:
    """The command that `prompt` is, without its slash; None for what is a prompt (`/etc/hosts: what is it?`)."""
    found = _COMMAND.fullmatch(prompt)
    return found["name"] if found else None


def answer(prompt: str, conversation: Conversation, options: RunOptions) -> Page:
    """Do the command that `prompt` is; `options` are those a run would have.

    Raises CellwrightError INVALID_PARAMETERS for a command that there is not.
    """
    found = _COMMAND.fullmatch(prompt)
    assert found is not None
    name, rest = found["name"], found["rest"].strip()
    command = COMMANDS.get(name)
    if command is None:
        known = ", ".join(f"/{each}" for each in COMMANDS)
        message = f"There is no command /{name}. The commands are {known}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if rest:
        message = f"/{name} takes nothing after it. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    conversation.in_force.refresh(session_has_begun=bool(conversation.session.encoded))
    return command.page(conversation, options)


def _help(_conversation: Conversation, _options: RunOptions) -> Page:
    rows = [("command", "what it does"), *((f"/{name}", command.help) for name, command in COMMANDS.items())]
    text = "They are answered here: nothing is sent to the model, and nothing is put into the conversation."
    return Page([Section("Commands", rows, text)])


def _config(conversation: Conversation, options: RunOptions) -> Page:
    settings = conversation.settings
    rows: list[Row] = [("setting", "value", "from"), *_in_force(conversation, options)]
    for path, entries in sorted(settings.merged.entries.items()):
        known = path in KEYS or path[:-1] in KEYS
        if path[0] == "permissions" and path[1:] and path[1] in ("allow", "ask", "deny"):
            continue  # /permissions shows them
        for entry in entries if entries[-1].element else entries[-1:]:
            remark = "" if known else " (not used here)"
            rows.append((".".join(path), _shown(path, entry.value), f"{_place(entry.layer)}{remark}"))
    sections = [Section("Settings", rows, "The highest place that says a value counts; lists are joined.")]
    return Page([*sections, *_held_back(conversation), *_problems(settings)])


def _in_force(conversation: Conversation, options: RunOptions) -> list[Row]:
    """What a run would be given now, where an option or nothing but the default says it."""
    settings, environment = conversation.settings, conversation.environment
    rows: list[Row] = []
    for key, asked, value in (
        ("model", options.model, _or_problem(lambda: model_of(options, settings, environment))),
        ("effortLevel", options.effort, effort_of(options, settings) or "the model's own"),
        ("permissions.defaultMode", options.mode, _or_problem(lambda: mode_of(options, settings, environment))),
    ):
        origin = settings.origin(key)
        if asked is not None:
            rows.append((f"{key} of this run", str(value), "options"))
        elif origin is None:
            rows.append((key, str(value), "default"))
    return rows


def _or_problem(value: Callable[[], str]) -> str:
    try:
        return value()
    except CellwrightError as error:
        return f"refused: {error.message}"


def _shown(path: tuple[str, ...], value: Any) -> str:
    if path[0] == "env" and is_secret(path[-1], str(value)):
        return "(secret)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _place(layer: Layer) -> str:
    if layer.file is None:
        return layer.label
    try:
        return str(Path("~") / layer.file.relative_to(Path.home()))
    except ValueError:
        return str(layer.file)


def _held_back(conversation: Conversation) -> list[Section]:
    trust = conversation.in_force.trust
    held: list[Row] = [
        (item.text, "the folder is not trusted" if item.gate == "trust" and not trust.trusted else "not confirmed yet")
        for item in trust.waiting
    ]
    held += [(text, "changed while Claude was at work") for text in conversation.in_force.held_back]
    return [Section("Configured, but not counting", [("what", "because"), *held])] if held else []


def _problems(settings: Settings) -> list[Section]:
    return [Section("Problems", [("",), *((notice,) for notice in settings.notices)])] if settings.notices else []


def _permissions(conversation: Conversation, options: RunOptions) -> Page:
    settings = conversation.settings
    mode = conversation.session.mode or _or_problem(lambda: mode_of(options, settings, conversation.environment))
    origin = settings.origin("permissions.defaultMode")
    came_to = "this session" if conversation.session.mode else "default" if origin is None else origin.label
    trust = conversation.in_force.trust
    facts: list[Row] = [
        ("", ""),
        ("mode", f"{mode} (from {'options' if options.mode else came_to})"),
        ("folder", f"{trust.folder}: {_trust_in_words(conversation)}"),
        ("working folders", ", ".join(str(folder) for folder in (conversation.cwd, *settings.additional_directories))),
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
            rules += [(rule, "allowed in this session") for rule in conversation.session.granted]
        if rules:
            sections.append(Section(behavior.capitalize(), [("rule", "from"), *rules], remark))
    return Page([*sections, *_held_back(conversation), *_problems(settings)])


def _rules(entries: Sequence[Entry]) -> list[Row]:
    return [(_shown(entry.path, entry.value), _place(entry.layer)) for entry in entries if entry.element]


def _trust_in_words(conversation: Conversation) -> str:
    trust = conversation.in_force.trust
    if trust.waiting:
        return f"{'trusted, but what is new in it is not' if trust.trusted else 'not trusted'} (a new session asks)"
    return "trusted" if trust.trusted else "brings nothing along that would need trust"


def _status(conversation: Conversation, options: RunOptions) -> Page:
    settings, session, environment = conversation.settings, conversation.session, conversation.environment
    rows: list[Row] = [
        ("", ""),
        ("Cellwright", VERSION),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.release()}"),
        ("folder", str(conversation.cwd)),
        ("session", f"{session.id} ({len(session.encoded)} messages, {session.context_tokens:,} tokens)"),
        ("kept in", "memory only" if session.path is None else str(session.path)),
        ("model", _or_problem(lambda: model_of(options, settings, environment))),
        ("key", _key_source(settings, environment)),
        ("sent to", environment.get("ANTHROPIC_BASE_URL") or "the API's own address"),
        ("running", "yes" if conversation.is_running else "no"),
    ]
    tools = Section("Tools", [("category", "tools"), *_by_category(conversation, options)])
    return Page([Section("Status", rows), tools, *_calls(conversation)])


def _calls(conversation: Conversation) -> list[Section]:
    """What the tools did so far in this process."""
    sums = conversation.tool_log.sums
    if not sums:
        return []
    head = ("tool", "calls", "time", "results")
    rows = [
        (
            name,
            f"{tool.calls} ({tool.failed} failed, {tool.denied} denied)",
            f"{tool.total_ms / tool.calls:,.0f} ms each, {tool.longest_ms:,.0f} ms at most",
            f"{tool.result_chars:,} characters",
        )
        for name, tool in sorted(sums.items(), key=lambda item: -item[1].calls)
    ]
    log = conversation.tool_log.path
    return [Section("Calls of tools", [head, *rows], f"logged in {log}" if log is not None else "")]


def _key_source(settings: Settings, environment: Mapping[str, str]) -> str:
    """Where the key comes from; never a part of the key."""
    if settings.api_key_helper is not None and source_of_credential(environment) is None:
        origin = settings.origin("apiKeyHelper")
        return f"apiKeyHelper ({origin.label})" if origin else "apiKeyHelper"
    source = source_of_credential(environment)
    if source is None:
        return "none: `cellwright --help` says how to give one"
    origin = settings.origin(f"env.{source}")
    return f"{source} ({origin.label})" if origin else source


def _by_category(conversation: Conversation, options: RunOptions) -> list[Row]:
    by_category: dict[str, list[Tool]] = {}
    for tool in conversation.tools(options):
        by_category.setdefault(tool.category, []).append(tool)
    return [(category, ", ".join(tool.name for tool in tools)) for category, tools in sorted(by_category.items())]


@dataclass(frozen=True)
class Command:
    page: Callable[[Conversation, RunOptions], Page]
    help: str


COMMANDS: dict[str, Command] = {
    "help": Command(_help, "this list"),
    "config": Command(_config, "each setting with its value and where it comes from"),
    "permissions": Command(_permissions, "the mode, each rule with where it comes from, trust and folders"),
    "status": Command(_status, "session, model, where the key comes from, tools, versions"),
}
