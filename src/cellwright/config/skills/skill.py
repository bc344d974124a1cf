"""One skill or command: what it says of itself, and its text."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import field

from cellwright.config.front_matter import model_choice, read_front_matter, texts
from cellwright.config.front_matter import plain_text as _text
from cellwright.errors import CellwrightError
from cellwright.model.provider import ModelChoice
from cellwright.permissions.rules.rule import near_tool, own_spelling, parse_rule
from cellwright.text import lazy_pattern

SkillScope = Literal["managed", "user", "plugin", "project", "built-in"]

SKILL_FILE = "SKILL.md"
"""However its capital letters are written, it is taken; other programs pass over another case."""

MAX_BYTES = 1_000_000
"""A larger file is no skill."""

DESCRIPTION_CHARS = 1_536
"""The part of a description that is told, as in Claude Code."""

SHELL_COMMAND = lazy_pattern(
    r"(?:(?<=\s)|^)!`(?P<inline>[^`\n]+)`|^```!\s*\n(?P<block>.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE
)
"""A command in a skill's text, whose output takes its place when the skill is called."""

_TOOL_NAME = lazy_pattern(r"[A-Za-z_][\w-]*")
_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})


class Skill(ModelChoice, frozen=True, kw_only=True):
    """A skill, or a command, which is a skill in one file. `name` is what stands after the slash.

    `description` says when to use it; `argument_names` are `$name`s for its arguments; `allowed_tools` are rules that hold
    while it is at work. `by_user` and `by_claude` say who may call it; `paths` for which files it is offered at all.
    `hooks` are told from its call to the end of the run; `background`: the agent that does it works beside the conversation.
    `variables` stand for `${NAME}` in its text. `problems` tell what of its front matter was not understood;
    `unclear` are those of its rules, which the user is told with a run.
    """

    name: str
    title: str
    description: str
    body: str
    file: Path
    scope: SkillScope
    is_command: bool = False
    argument_hint: str = ""
    argument_names: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    agent: str | None = None
    forks: bool = False
    by_user: bool = True
    by_claude: bool = True
    paths: tuple[str, ...] = ()
    hooks: Mapping[str, Any] = field(default_factory=dict)
    background: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder with the files that belong to it."""
        return self.file.parent


class NoSkill(Exception):
    """The file defines no skill; the message says why."""


def load_skill(file: Path, name: str, scope: SkillScope, *, is_command: bool = False) -> Skill:
    """Read the skill in `file`. Raises NoSkill."""
    try:
        facts = file.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            raise NoSkill(f"it is not a file of at most {MAX_BYTES:,} bytes")
        text = file.read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise NoSkill(f"it cannot be read: {error}") from None
    front = read_front_matter(text)
    values = front.values
    problems = [front.problem] if front.problem else []
    if file.name != SKILL_FILE and file.name.casefold() == SKILL_FILE.casefold():
        problems.append(f"its file is called {file.name}; rename it to {SKILL_FILE}, which other programs look for")
    works_with = model_choice(values, problems)
    description = _text(values.get("description")) or _first_paragraph(front.body)
    when = _text(values.get("when_to_use"))
    unclear: list[str] = []
    return Skill(
        name=name,
        title=_text(values.get("name")) or name,
        description=" ".join(f"{description} {when or ''}".split())[:DESCRIPTION_CHARS],
        body=front.body.strip(),
        file=file,
        scope=scope,
        is_command=is_command,
        argument_hint=_hint(values.get("argument-hint")),
        argument_names=tuple(each for part in texts(values.get("arguments")) for each in part.split()),
        allowed_tools=_allowed(_tools(values.get("allowed-tools", values.get("allowed_tools"))), unclear),
        disallowed_tools=_denied(_tools(values.get("disallowed-tools")), unclear),
        agent=_text(values.get("agent")),
        forks=_text(values.get("context")) == "fork",
        by_user=_flag(values.get("user-invocable"), otherwise=True),
        by_claude=not _flag(values.get("disable-model-invocation"), otherwise=False),
        paths=texts(values.get("paths")),
        hooks=hooks_of(values, problems),
        background=_flag(values.get("background"), otherwise=False),
        values=values,
        problems=(*problems, *unclear),
        unclear=tuple(unclear),
        **works_with,
    )


def hooks_of(values: Mapping[str, Any], problems: list[str]) -> Mapping[str, Any]:
    """The `hooks` of front matter; what is no object of lists is left out and put to `problems`."""
    found = values.get("hooks")
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        problems.append("`hooks` is not an object of events")
        return {}
    problems += [f"`hooks`: {event} is not a list" for event, groups in found.items() if not isinstance(groups, list)]
    return {str(event): groups for event, groups in found.items() if isinstance(groups, list)}


def _flag(value: Any, *, otherwise: bool) -> bool:
    word = str(value).strip().lower()
    return word in _YES or (otherwise and word not in _NO)


def _hint(value: Any) -> str:
    # `[file] [n]` without quotes is a list for YAML
    return " ".join(f"[{each}]" for each in value) if isinstance(value, list) else str(value or "")


def _tools(value: Any) -> tuple[str, ...]:
    """Rules in a list, or in one text with commas or blanks between them: `Read Bash(git add *)`."""
    if isinstance(value, list):
        return texts(value)
    found = texts(value)
    return tuple(rule for part in found for rule in _at_blanks(part))


def _refused(rule: str, instead: str, problems: list[str]) -> bool:
    """Return whether `rule` is none, which is then a problem: one skill's slip must not end the runs it is used in."""
    try:
        parse_rule(rule)
    except CellwrightError as error:
        problems.append(f"{error.message.removesuffix('.')}; {instead}")
        return True
    return False


def _allowed(rules: Sequence[str], unclear: list[str]) -> tuple[str, ...]:
    for rule in (readable := [each for each in rules if not _refused(each, "it allows nothing", unclear)]):
        if near := near_tool(_tool_of(rule)):
            unclear.append(f"`allowed-tools`: no tool is called {_tool_of(rule)}, but one is called {near}")
    return tuple(readable)


def _denied(rules: Sequence[str], unclear: list[str]) -> tuple[str, ...]:
    """The rules; what cannot be read may restrict the tool that it begins with, or any, and a misspelt one its tool."""
    found: list[str] = []
    for rule in rules:
        tool = _tool_of(rule) or "*"
        found.append(tool if _refused(rule, "its tool is denied", unclear) else rule)
        if near := near_tool(tool):
            found.append(near)
            unclear.append(f"`disallowed-tools`: no tool is called {tool}, but one is called {near}; it is denied")
    return tuple(found)


def _tool_of(rule: str) -> str:
    found = _TOOL_NAME.match(rule)
    return "" if found is None else own_spelling(found[0])


def _at_blanks(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character.isspace() and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part]


def _first_paragraph(body: str) -> str:
    for paragraph in body.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line.strip() and not line.startswith("#")]
        if lines:
            return " ".join(lines)
    return ""
