"""One definition of an agent: what it says of itself, and its system prompt."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from cellwright.config.front_matter import read_front_matter, texts
from cellwright.config.skills.skill import hooks_of
from cellwright.errors import CellwrightError
from cellwright.model.models import EFFORTS
from cellwright.permissions.modes import Mode, parse_mode

AgentMemory = Literal["user", "project", "local"]
AgentScope = Literal["managed", "project", "user", "plugin", "built-in"]

MAX_BYTES = 1_000_000
"""A larger file is no definition."""

DESCRIPTION_CHARS = 1_536
"""The part of a description that is told."""

_YES = frozenset({"true", "yes", "on", "1"})
_NOT_YET = ("mcpServers", "initialPrompt")


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """An agent that Claude can give work to. `body` is its system prompt, `description` says when to use it.

    `tools` are the only tools it gets, None for all; `disallowed_tools` are those it does not get. `mode` is a permission
    mode, which can only be stricter than the session's; `skills` are loaded as it begins; `background`: it always works
    beside the conversation. `instructions`: it is told the CLAUDE.md files. `hooks` are told while it works; `memory` says
    where it keeps notes of its own; `own_worktree`: it works in a checkout of its own. `problems` tell what was
    not understood.
    """

    name: str
    description: str
    body: str
    file: Path
    scope: AgentScope
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    model: str | None = None
    mode: Mode | None = None
    max_turns: int | None = None
    skills: tuple[str, ...] = ()
    effort: str | None = None
    background: bool = False
    instructions: bool = True
    color: str = ""
    hooks: Mapping[str, Any] = field(default_factory=dict)
    memory: AgentMemory | None = None
    own_worktree: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class NoAgent(Exception):
    """Raised for a file that defines no agent; says why."""


def read_definition(file: Path, scope: AgentScope) -> AgentDefinition:
    """Read the definition in `file`. Raises NoAgent."""
    front = read_front_matter(_text_of(file))
    values = front.values
    name, description = _text(values.get("name")), _text(values.get("description"))
    if not name or not description:
        missing = " and ".join(what for what, given in (("name", name), ("description", description)) if not given)
        raise NoAgent(f"its front matter has no {missing}")
    if any(character.isspace() or character in "(),<>\"'" for character in name):
        raise NoAgent(f"its name {name!r} is no single word")
    problems = [front.problem] if front.problem else []
    problems += [f"`{key}` counts for nothing here yet" for key in _NOT_YET if values.get(key)]
    model = _text(values.get("model"))
    return AgentDefinition(
        name=name,
        description=" ".join(description.split())[:DESCRIPTION_CHARS],
        body=front.body.strip(),
        file=file,
        scope=scope,
        tools=_tools(values.get("tools")),
        disallowed_tools=_tools(values.get("disallowedTools")) or (),
        model=None if model in (None, "inherit") else model,
        mode=_mode(values, problems),
        max_turns=_max_turns(values, problems),
        skills=texts(values.get("skills")),
        effort=_effort(values, problems),
        background=_flag(values.get("background")),
        instructions=not _flag(values.get("omitClaudeMd")),
        color=_text(values.get("color")),
        hooks=hooks_of(values, problems),
        memory=_memory(values, problems),
        own_worktree=_own_worktree(values, problems),
        values=values,
        problems=tuple(problems),
    )


def _text_of(file: Path) -> str:
    try:
        facts = file.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            raise NoAgent(f"it is no file of at most {MAX_BYTES:,} bytes")
        return file.read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise NoAgent(f"it cannot be read: {error}") from None


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, list | Mapping) else str(value).strip()


def _flag(value: Any) -> bool:
    return _text(value).lower() in _YES


def _tools(value: Any) -> tuple[str, ...] | None:
    """The names in a list of tools, which may be rules (`Bash(git *)`); None for all of them."""
    names = tuple(tool_name(each) for each in texts(value))
    return None if not names or "*" in names else names


def tool_name(rule: str) -> str:
    """The tool that a rule is about.

    >>> tool_name("Bash(git *)"), tool_name("Task")
    ('Bash', 'Agent')
    """
    name = rule.partition("(")[0].strip()
    return "Agent" if name == "Task" else name


def _mode(values: Mapping[str, Any], problems: list[str]) -> Mode | None:
    given = _text(values.get("permissionMode"))
    if not given:
        return None
    try:
        return parse_mode(given)[0]
    except CellwrightError as error:
        problems.append(f"{error.message} It works in plan mode, the strictest.")
        return "plan"


def _max_turns(values: Mapping[str, Any], problems: list[str]) -> int | None:
    given = values.get("maxTurns")
    if given is None:
        return None
    digits = str(given).strip()
    if digits.isdecimal() and int(digits[:9]) > 0:
        return int(digits[:9])
    problems.append(f"maxTurns is {given!r}, no whole number above 0")
    return None


def _memory(values: Mapping[str, Any], problems: list[str]) -> AgentMemory | None:
    match _text(values.get("memory")):
        case "user" | "project" | "local" as scope:
            return scope
        case "":
            return None
        case other:
            problems.append(f"memory is {other!r}, not one of user, project, local")
            return None


def _own_worktree(values: Mapping[str, Any], problems: list[str]) -> bool:
    given = _text(values.get("isolation"))
    if given not in ("", "worktree"):
        problems.append(f"isolation is {given!r}, not worktree")
    return given == "worktree"


def _effort(values: Mapping[str, Any], problems: list[str]) -> str | None:
    given = _text(values.get("effort"))
    if given and given not in EFFORTS:
        problems.append(f"effort is {given!r}, not one of {', '.join(EFFORTS)}")
        return None
    return given or None
