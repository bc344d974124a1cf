"""Skills and commands: one with its text and its arguments, and those of a session by their names.

Of two with one name the higher counts, from the highest: the administrator's, the user's, those of plugins, the project's
(the nearest folder first), ours. A skill goes before a command. A project's wait for the user's trust in the folder.

Arguments in a text are `$ARGUMENTS`, `$0` or `$ARGUMENTS[0]`, `$name`, and `${CLAUDE_…}`. Numbers begin with 0, as in
Claude Code; what was not given stays as it is written; `\\$1` is no argument, nor is an amount as `$1.50` or `$1,000`.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.config.plugins.plugin import Plugin
from cellwright.config.user_files import crowded, files_in, model_choice, places_below, read_front_matter, texts
from cellwright.config.user_files import plain_text as _text
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

BUILT_IN = Path(__file__).parent / "built_in" / "skills"
MAX_SKILLS = 500
"""Of one folder; nobody has more by intent."""

_PLACE = lazy_pattern(
    r"""(?P<escaped>\\\$(?=\w|\{))
    | \$ARGUMENTS\[(?P<index>\d{1,3})\]
    | \$(?P<all>ARGUMENTS)\b
    | \$(?P<number>\d{1,3})\b(?![.,]\d)
    | \$\{(?P<variable>CLAUDE_\w+)\}
    | \$(?P<name>[A-Za-z_][\w-]*)""",
    re.VERBOSE,
)


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
    given = values.get("argument-hint")
    # `[file] [n]` without quotes is a list for YAML
    hint = " ".join(f"[{each}]" for each in given) if isinstance(given, list) else str(given or "")
    return Skill(
        name=name,
        title=_text(values.get("name")) or name,
        description=" ".join(f"{description} {when or ''}".split())[:DESCRIPTION_CHARS],
        body=front.body.strip(),
        file=file,
        scope=scope,
        is_command=is_command,
        argument_hint=hint,
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


class SkillPlace(Struct, frozen=True, kw_only=True):
    """The places of a session's skills and agents. `users` is `~/.claude`; `trusted`: the project's count.

    `plugins` are those that count.
    """

    cwd: Path
    project: Path
    users: Path
    managed: Path
    trusted: bool = False
    built_in: bool = True
    plugins: tuple[Plugin, ...] = ()


class FoundSkills(Struct, frozen=True):
    """The skills and commands by their names, and the files that define none, with the reason."""

    skills: dict[str, Skill]
    skipped: tuple[tuple[Path, str], ...] = ()


def find_skills(place: SkillPlace) -> dict[str, Skill]:
    """All skills and commands, by what stands after the slash. Never raises."""
    return search_skills(place).skills


def search_skills(place: SkillPlace) -> FoundSkills:
    """The same, with the files that define none. Never raises."""
    found: dict[str, Skill] = {}
    skipped: list[tuple[Path, str]] = []
    for file, name, scope, is_command, variables in _files(place):
        try:
            skill = load_skill(file, name, scope, is_command=is_command)
        except NoSkill as problem:
            skipped.append((file, str(problem)))
        else:
            found.setdefault(name, replace(skill, variables=variables) if variables is not None else skill)
    if place.built_in:
        for skill in _built_in():
            found.setdefault(skill.name, skill)
    return FoundSkills(found, tuple(skipped))


def skill_places(place: SkillPlace) -> Iterator[str]:
    """The files and folders whose change can change what `find_skills` gives."""
    folders = [str(place.managed), str(place.users)]
    if place.trusted:
        folders += [f"{folder}/.claude" for folder in project_folders(place.cwd, place.project)]
    for folder in folders:
        yield from places_of_skills(f"{folder}/skills")
        yield from places_below(f"{folder}/commands")
    for plugin in place.plugins:
        for folder in map(str, plugin.skills):
            yield from places_of_skills(folder)
        for folder in map(str, plugin.commands):
            yield from places_below(folder)


def places_of_skills(folder: str) -> Iterator[str]:
    """The places of a search for the skills in `folder`: a skill may hold whole libraries beside its SKILL.md."""
    yield folder
    yield f"{folder}/{SKILL_FILE}"
    try:
        names = os.listdir(folder)  # noqa: PTH208  paths are dear to make
    except OSError:  # there is none
        return
    for name in names:
        yield f"{folder}/{name}/{SKILL_FILE}"
        yield f"{folder}/{name}/{SKILL_FILE.lower()}"


def project_skill_files(cwd: Path, project: Path) -> list[Path]:
    """The files of skills and commands that the project brings along."""
    found: list[Path] = []
    for folder in project_folders(cwd, project):
        found += [file for _, file in _skill_files(folder / ".claude" / "skills")]
        found += [file for _, file in _command_files(folder / ".claude" / "commands")]
    return found


_File = tuple[Path, str, SkillScope, bool, Mapping[str, str] | None]
"""A file, the name after the slash, whose it is, whether it is a command, and a plugin's variables."""


def _files(place: SkillPlace) -> Iterator[_File]:
    project = list(project_folders(place.cwd, place.project)) if place.trusted else []
    above: list[tuple[Path, SkillScope]] = [(place.managed, "managed"), (place.users, "user")]
    below: list[tuple[Path, SkillScope]] = [(folder / ".claude", "project") for folder in project]
    yield from _skills_in(above)
    yield from _of_plugins(place.plugins)
    yield from _skills_in(below)
    for folder, scope in (*above, *below):
        yield from ((file, name, scope, True, None) for name, file in _command_files(folder / "commands"))


@functools.cache  # every prompt looks for the skills, and ours do not change while the process lives
def _built_in() -> tuple[Skill, ...]:
    return tuple(load_skill(file, name, "built-in") for name, file in _skill_files(BUILT_IN))


def _skills_in(places: Sequence[tuple[Path, SkillScope]]) -> Iterator[_File]:
    for folder, scope in places:
        yield from ((file, name, scope, False, None) for name, file in _skill_files(folder / "skills"))


def _of_plugins(plugins: Sequence[Plugin]) -> Iterator[_File]:
    for plugin in plugins:
        files = [(each, False) for folder in plugin.skills for each in _skill_files(folder)]
        files += [(each, True) for folder in plugin.commands for each in _command_files(folder)]
        for (name, file), is_command in files:
            yield file, f"{plugin.name}:{name}", "plugin", is_command, plugin.variables


def project_folders(cwd: Path, project: Path) -> Iterator[Path]:
    """The folders from `cwd` up to the project's."""
    for folder in (cwd, *cwd.parents):
        yield folder
        if folder == project:
            return


def _skill_file(folder: Path) -> Path | None:
    """The file of the skill in `folder`, however its name is written: on some systems that makes no difference."""
    if (file := folder / SKILL_FILE).is_file():
        return file
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  paths are dear to make
    except OSError:  # a file, or a folder of somebody else's
        return None
    named = (folder / each for each in names if each.casefold() == SKILL_FILE.casefold())
    return next((each for each in named if each.is_file()), None)


def _skill_files(folder: Path) -> list[tuple[str, Path]]:
    return _all_skill_files(folder)[:MAX_SKILLS]


def crowded_skills(place: SkillPlace) -> list[str]:
    """Say of which folders not all skills and commands are taken."""
    folders = [place.managed, place.users]
    folders += [each / ".claude" for each in project_folders(place.cwd, place.project)] if place.trusted else []
    skills = [folder / "skills" for folder in folders] + [each for plugin in place.plugins for each in plugin.skills]
    commands = [folder / "commands" for folder in folders]
    commands += [each for plugin in place.plugins for each in plugin.commands]
    notices: list[str] = []
    for folder in skills:
        notices += crowded(folder, len(_all_skill_files(folder)), MAX_SKILLS, "skills")
    for folder in commands:
        notices += crowded(folder, len(files_in(folder, "**/*.md")), MAX_SKILLS, "commands")
    return notices


def _all_skill_files(folder: Path) -> list[tuple[str, Path]]:
    try:
        if (file := _skill_file(folder)) is not None:  # a plugin may name a skill's own folder
            return [(folder.name, file)]
        found = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
        files = ((each.name, _skill_file(each)) for each in found)
        return [(name, file) for name, file in files if file is not None]
    except OSError:  # there is none
        return []


def _command_files(folder: Path) -> list[tuple[str, Path]]:
    """Commands by name; one in a folder has that folder's name before its own where another has its own already."""
    found: dict[str, Path] = {}
    if folder.suffix == ".md" and folder.is_file():  # a plugin may name files
        return [(folder.stem, folder)]
    files = sorted(files_in(folder, "**/*.md"), key=lambda file: len(file.parts))
    for file in files[:MAX_SKILLS]:
        spaced = ":".join(file.relative_to(folder).with_suffix("").parts)
        found.setdefault(file.stem, file)
        found.setdefault(spaced, file)
    return list(found.items())


class Arguments:
    """The arguments of a skill, to be put into the parts of its text one after another.

    `names` are the skill's own names for its arguments, `variables` the values of `${CLAUDE_…}`.
    """

    def __init__(self, given: str, names: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> None:
        self._given = given
        self._words = words(given)
        self._names = names
        self._variables = variables or {}
        self._left = set(range(len(self._words)))

    def fill(self, text: str) -> str:
        """`text` with what was given in its places.

        >>> Arguments('"the bug" app.py').fill("Fix $0 in $1, not in $2.")
        'Fix the bug in app.py, not in $2.'
        """
        return _PLACE.sub(self._value, text)

    def appended(self, text: str) -> str:
        """`text` with what was given after it, where no part of it had a place for some of that.

        So nothing is lost in a text whose author began to count with 1, as many do.

        >>> Arguments("quickly").appended("Review it.")
        'Review it.\\n\\nARGUMENTS: quickly'
        >>> text = Arguments("quickly")
        >>> text.appended(text.fill("Below $50 or $1.50 it is cheap."))
        'Below $50 or $1.50 it is cheap.\\n\\nARGUMENTS: quickly'
        """
        return text if not self._left else f"{text}\n\nARGUMENTS: {self._given}"

    def _value(self, match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        if match["variable"]:
            return self._variables.get(match["variable"], match[0])
        if match["name"] and match["name"] not in self._names:
            return match[0]
        if match["all"]:
            self._left.clear()
            return self._given
        at = self._names.index(match["name"]) if match["name"] else int(match["index"] or match["number"])
        self._left.discard(at)
        return self._words[at] if at < len(self._words) else match[0]


def words(arguments: str) -> list[str]:
    """The single arguments, read as a shell reads words; quotes that do not close are letters."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
