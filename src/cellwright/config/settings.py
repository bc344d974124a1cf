"""What users settled in Claude Code's files, as far as permissions go: `load_settings`.

    ~/.claude/settings.json  ($CLAUDE_CONFIG_DIR)     the user's own: believed
    <project>/.claude/settings.local.json             the user's own for this project: believed unless it came with it
    <project>/.claude/settings.json                   the project's: it may forbid and make stricter, never allow

Lists are joined. What cannot be understood and might have forbidden something forbids or asks.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cellwright.agent.tool import ToolError
from cellwright.config.repository import is_tracked, project_folder
from cellwright.config.settings_edit import add_allow_rules
from cellwright.config.settings_file import SettingsProblem, read_settings_file
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.modes import Mode, parse_mode, stricter
from cellwright.permissions.rules import Rule, grant_problem, parse_rule

_TOOL_NAME = re.compile(r"[A-Za-z_][\w-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the settings files say together. `notices` are for the user: what is broken, and what was not believed."""

    project: Path
    default_mode: Mode = "default"
    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    additional_directories: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


def local_settings_file(project: Path) -> Path:
    """The user's own settings file of a project, shared with Claude Code."""
    return project / ".claude" / "settings.local.json"


def came_with_project(project: Path, file: Path, environ: Mapping[str, str]) -> bool:
    """Whether `file` may have been put there by the project itself: tracked by git, or behind a symlink."""
    return file.is_symlink() or file.parent.is_symlink() or is_tracked(project, file, environ)


def load_settings(cwd: Path, environ: Mapping[str, str]) -> Settings:
    """Read the files for a session that starts in `cwd`. Never raises: problems are in `notices`."""
    cwd = cwd.absolute()
    project = project_folder(cwd)
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    users = Path(environ["CLAUDE_CONFIG_DIR"]) if environ.get("CLAUDE_CONFIG_DIR") else home / ".claude"
    local, shared = local_settings_file(project), project / ".claude" / "settings.json"
    found = _Found()
    found.read(_Source(users / "settings.json", root=users, folder=home, believed=lambda: True))
    if not _same_file(shared, users / "settings.json"):
        found.read(_Source(shared, root=project, folder=project, believed=lambda: False))
    own = functools.cache(lambda: not came_with_project(project, local, environ))
    found.read(_Source(local, root=cwd, folder=project, believed=own))
    return Settings(
        project=project,
        default_mode=stricter(found.mode, "default") if found.broken else found.mode,
        deny=tuple(found.deny),
        ask=tuple(found.ask),
        allow=tuple(found.allow),
        additional_directories=tuple(dict.fromkeys(found.directories)),
        notices=tuple(found.notices),
    )


def save_allow_rules(project: Path, rules: Sequence[str], environ: Mapping[str, str] = os.environ) -> Path:
    """Add allow rules to the project's settings.local.json, as far as they are not there; gives the file.

    Raises CellwrightError, and leaves the file as it was: CONFIG_INVALID for a rule that allows nothing and a file that
    is not the user's own, CONFIG_PARSE_ERROR for one that is not valid, FILE_ACCESS_ERROR.
    """
    for rule in rules:
        if useless := grant_problem(parse_rule(rule)):
            raise CellwrightError(ErrorCode.CONFIG_INVALID, useless)
    shown = ", ".join(f"`{rule}`" for rule in rules)
    file = local_settings_file(project)
    if came_with_project(project, file, environ):
        message = (
            f"{file} is tracked by git (or git cannot tell) or behind a symlink, so {shown} is not saved there: "
            "it would be everybody's. Untrack the file (git rm --cached), or add the rule to ~/.claude/settings.json."
        )
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    try:
        add_allow_rules(file, rules)
    except SettingsProblem as problem:
        message = f"{problem}. {shown} is not saved; mend the file and allow it again."
        raise CellwrightError(ErrorCode.CONFIG_PARSE_ERROR, message) from problem
    except (OSError, ToolError) as error:
        message = f"{shown} could not be saved in {file}: {error}"
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error
    return file


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


@dataclass(frozen=True, slots=True)
class _Source:
    """A file to read. `root`: what `/x` in its rules starts from; `folder`: what its relative directories start from."""

    file: Path
    root: Path
    folder: Path
    believed: Callable[[], bool]


@dataclass(slots=True)
class _Found:
    """What was read so far."""

    mode: Mode = "default"
    deny: list[Rule] = field(default_factory=list)
    ask: list[Rule] = field(default_factory=list)
    allow: list[Rule] = field(default_factory=list)
    directories: list[Path] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    broken: bool = False

    def read(self, source: _Source) -> None:
        try:
            permissions = (read_settings_file(source.file) or {}).get("permissions", {})
            if not isinstance(permissions, dict):
                raise SettingsProblem(f"{source.file}: `permissions` is not an object")
        except SettingsProblem as problem:
            self.broken = True
            self.notices.append(
                f"{problem}. The file is left out until it is mended; no edit is allowed unasked meanwhile."
            )
            return
        self._restrictions(source, permissions, "deny")
        self._restrictions(source, permissions, "ask")
        self._grants(source, permissions)
        self._directories(source, permissions)
        self._mode(source, permissions)

    def _listed(self, source: _Source, permissions: Mapping[str, Any], key: str) -> list[Any]:
        value = permissions.get(key, [])
        if isinstance(value, list):
            return value
        self.notices.append(f"{source.file}: `permissions.{key}` is not a list.")
        return [value]

    def _restrictions(self, source: _Source, permissions: Mapping[str, Any], key: Literal["deny", "ask"]) -> None:
        for entry in self._listed(source, permissions, key):
            try:
                rule, kept = parse_rule(_text(entry), str(source.root)), key
            except (CellwrightError, TypeError) as error:
                # something was to be restricted: the whole tool is, or everything asks
                name = _TOOL_NAME.match(entry) if isinstance(entry, str) else None
                rule, kept = parse_rule(name[0] if name else "*"), key if name else "ask"
                what = "denied" if kept == "deny" else "asked for"
                self.notices.append(f"{source.file}: {_message(error)} Until it is mended, `{rule}` is {what}.")
            (self.deny if kept == "deny" else self.ask).append(rule)

    def _grants(self, source: _Source, permissions: Mapping[str, Any]) -> None:
        entries = self._listed(source, permissions, "allow")
        if entries and not source.believed():
            self._not_believed(source, "allow rules")
            return
        for entry in entries:
            try:
                rule = parse_rule(_text(entry), str(source.root))
            except (CellwrightError, TypeError) as error:
                self.notices.append(f"{source.file}: {_message(error)} It allows nothing.")
                continue
            if problem := grant_problem(rule):
                self.notices.append(f"{source.file}: {problem}")
            self.allow.append(rule)

    def _directories(self, source: _Source, permissions: Mapping[str, Any]) -> None:
        entries = self._listed(source, permissions, "additionalDirectories")
        if entries and not source.believed():
            self._not_believed(source, "additional directories")
            return
        for entry in entries:
            if isinstance(entry, str) and entry and "\0" not in entry:
                self.directories.append(source.folder / Path(entry).expanduser())
            else:
                self.notices.append(f"{source.file}: the additional directory {entry!r} is not a path.")

    def _mode(self, source: _Source, permissions: Mapping[str, Any]) -> None:
        if "defaultMode" not in permissions:
            return
        try:
            mode, notice = parse_mode(_text(permissions["defaultMode"]))
        except (CellwrightError, TypeError) as error:
            self.notices.append(f"{source.file}: {_message(error)}")
            return
        if notice:
            self.notices.append(f"{source.file}: {notice}")
        if stricter(mode, self.mode) == mode or source.believed():
            self.mode = mode
        else:
            self._not_believed(source, f"mode `{mode}`, which is looser than `{self.mode}`,")

    def _not_believed(self, source: _Source, what: str) -> None:
        self.notices.append(
            f"{source.file}: its {what} count for nothing: the file came with the project, or git cannot tell. "
            "Put them into ~/.claude/settings.json, or into .claude/settings.local.json without committing it."
        )


def _text(entry: Any) -> str:
    if not isinstance(entry, str):
        raise TypeError(f"{entry!r} is not a text.")
    return entry


def _message(error: CellwrightError | TypeError) -> str:
    return error.message if isinstance(error, CellwrightError) else str(error)
