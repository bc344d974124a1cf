"""Permissions from the users' settings files, in Claude Code's format and places.

A repository must not give itself rights: what it commits can deny and ask, and make the mode stricter. Allow rules, further
folders and looser modes count from the user's own file, and from `settings.local.json` while that is the user's own too.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.modes import Mode, parse_mode, stricter
from cellwright.permissions.rules import Rule, grant_problem, parse_rule
from cellwright.tools.atomic_write import write_atomically

LOCAL = Path(".claude") / "settings.local.json"
PROJECT = Path(".claude") / "settings.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the settings files say about permissions, merged. `notices` name what could not be used, file by file."""

    project: Path
    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    default_mode: Mode = "default"
    additional_directories: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(slots=True)
class _Merged:
    notices: list[str] = field(default_factory=list)
    deny: list[Rule] = field(default_factory=list)
    ask: list[Rule] = field(default_factory=list)
    allow: list[Rule] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    own_mode: Mode | None = None
    strictest: Mode | None = None


def project_root(cwd: Path) -> Path:
    """The folder whose `.claude/` counts for `cwd`: the git working tree's top, else `cwd` itself."""
    cwd = cwd.absolute()
    return next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)


def user_folder(environ: Mapping[str, str]) -> Path:
    """The user's own `.claude` folder."""
    given = environ.get("CLAUDE_CONFIG_DIR")
    return Path(given).expanduser() if given else Path(environ.get("HOME") or Path.home()) / ".claude"


def load_settings(cwd: Path, environ: Mapping[str, str]) -> Settings:
    """Read the user's, the project's and the project's local settings file.

    A file that is not strict JSON is left out, and an entry that is not understood too; `notices` says which, and where.
    """
    project = project_root(cwd)
    user = user_folder(environ)
    merged = _Merged()
    _take(merged, user / "settings.json", root=user, own=True)
    _take(merged, project / PROJECT, root=project, own=False)
    _take(merged, project / LOCAL, root=project, own=_is_own(project, merged))
    mode = merged.own_mode or "default"
    return Settings(
        project=project,
        deny=tuple(merged.deny),
        ask=tuple(merged.ask),
        allow=tuple(merged.allow),
        default_mode=stricter(mode, merged.strictest) if merged.strictest else mode,
        additional_directories=tuple(dict.fromkeys(merged.folders)),
        notices=tuple(merged.notices),
    )


def _take(merged: _Merged, path: Path, *, root: Path, own: bool) -> None:
    permissions = _permissions(merged, path)
    for name, rules in (("deny", merged.deny), ("ask", merged.ask), ("allow", merged.allow)):
        entries = _strings(merged, path, permissions, name)
        if name == "allow" and entries and not own:
            merged.notices.append(f"{path}: `allow` is not used: a repository cannot give itself rights.")
            continue
        for entry in entries:
            rules += _rule(merged, path, name, entry, root)
    folders = _strings(merged, path, permissions, "additionalDirectories")
    if folders and not own:
        merged.notices.append(f"{path}: `additionalDirectories` is not used: a repository cannot give itself rights.")
    elif folders:
        merged.folders += [(root / Path(folder).expanduser()).absolute() for folder in folders]
    _take_mode(merged, path, permissions.get("defaultMode"), own)


def _take_mode(merged: _Merged, path: Path, name: Any, own: bool) -> None:
    if name is None:
        return
    try:
        mode, notice = parse_mode(str(name))
    except CellwrightError as error:
        merged.notices.append(f"{path}: {error.message}")
        return
    if notice:
        merged.notices.append(f"{path}: {notice}")
    if own:
        merged.own_mode = mode
    else:
        merged.strictest = mode


def _rule(merged: _Merged, path: Path, name: str, text: str, root: Path) -> list[Rule]:
    try:
        rule = parse_rule(text, source_root=str(root))
    except CellwrightError as error:
        if name != "allow":
            # a rule that was meant to forbid must not silently permit
            raise CellwrightError(
                ErrorCode.CONFIG_INVALID, f"{path}: {error.message}", details=error.details
            ) from error
        merged.notices.append(f"{path}: {error.message}")
        return []
    if name == "allow" and (problem := grant_problem(rule)):
        merged.notices.append(f"{path}: {problem}")
    return [rule]


def _permissions(merged: _Merged, path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        merged.notices.append(f"{path}, line {error.lineno}, column {error.colno}: {error.msg}. The file is not used.")
        return {}
    except (OSError, UnicodeDecodeError) as error:
        merged.notices.append(f"{path}: {error}. The file is not used.")
        return {}
    permissions = data.get("permissions", {}) if isinstance(data, dict) else None
    if not isinstance(permissions, dict):
        merged.notices.append(f"{path}: `permissions` is no object. The file is not used.")
        return {}
    return permissions


def _strings(merged: _Merged, path: Path, permissions: Mapping[str, Any], name: str) -> list[str]:
    value = permissions.get(name, [])
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return value
    merged.notices.append(f"{path}: `permissions.{name}` is no list of strings. It is not used.")
    return []


def _is_own(project: Path, merged: _Merged) -> bool:
    """Whether the project's local settings are the user's own: no link leads elsewhere, and git does not track them."""
    path = project / LOCAL
    if not path.exists():
        return True
    if path.is_symlink() or path.parent.is_symlink():
        return False
    return not _tracked(project, path)


def _tracked(project: Path, path: Path) -> bool:
    if not (project / ".git").exists():
        return False
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "--error-unmatch", "--", str(path.relative_to(project))]
    try:
        run = subprocess.run(command, cwd=project, env=environ, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True  # what cannot be checked is not trusted
    return run.returncode == 0


def save_allow_rule(project: Path, rule: str) -> Path:
    """Add an allow rule to the project's local settings and give the file's path; what else stands there is kept.

    Raises CellwrightError CONFIG_INVALID when the file is not strict JSON or not the user's own, or the rule is malformed.
    """
    parse_rule(rule)
    path = project / LOCAL
    if not _is_own(project, _Merged()):
        message = f"{path} belongs to the repository (git tracks it, or it is a link), so no rule is saved there."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    before = path.stat() if path.exists() else None
    text = path.read_text("utf-8-sig") if before else "{}"
    try:
        data = json.loads(text)
        allow = data.setdefault("permissions", {}).setdefault("allow", [])
        if rule in allow:
            return path
        allow.append(rule)
    except (json.JSONDecodeError, AttributeError) as error:
        message = (
            f"{path} is not a settings file that a rule can be added to ({error}). Repair it; nothing was changed."
        )
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message) from error
    new = json.dumps(data, indent=_indent(text), ensure_ascii=False) + "\n"
    write_atomically(path, new.encode(), replacing=before)
    return path


def _indent(text: str) -> int | str:
    for line in text.splitlines()[1:]:
        if line.strip():
            return line[: len(line) - len(line.lstrip())] or 2
    return 2
