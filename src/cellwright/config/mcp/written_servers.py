"""Entries of MCP servers written into Claude Code's files, and taken out: from the terminal and by clicks.

Of an entry that is shown to be edited nothing secret leaves: `masked_entry` hides values, and `unmasked_entry` puts those
back that were left as they were shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from cellwright.config.mcp.servers import PROJECT_FILE, ServerOrigin, read_entries, user_file
from cellwright.config.settings.edit import set_value
from cellwright.config.trust.project_files import project_folder
from cellwright.config.user_files import SettingsProblem
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.redaction.redaction import Redaction
from cellwright.text import lazy_pattern

Scope = Literal["local", "user", "project"]
SCOPES: tuple[Scope, ...] = ("local", "user", "project")

MASK = "••••••"
"""Stands for a value that is not shown."""

_NO_VALUES = Redaction()
_ALWAYS_HIDDEN = ("env", "headers")
_REFERENCE = lazy_pattern(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_SECRET_OPTION = lazy_pattern(r"--?[\w-]*(?:token|key|secret|password|auth|header)[\w-]*", re.IGNORECASE)
_QUERY_VALUE = lazy_pattern(r"(?<==)[^&#]+")
_USER_IN_ADDRESS = lazy_pattern(r"(?<=://)[^/@?#]+(?=@)")


class ServerPlace(Struct, frozen=True):
    """A file with entries of servers, and where in it they are. `project`: below it no link is followed."""

    file: Path
    path: tuple[str, ...]
    project: Path | None = None


def server_place(scope: Scope, cwd: Path, environ: Mapping[str, str]) -> ServerPlace:
    """The place of a scope for a session in `cwd`."""
    project = project_folder(cwd)
    if scope == "project":
        return ServerPlace(project / PROJECT_FILE, ("mcpServers",), project)
    path = ("mcpServers",) if scope == "user" else ("projects", str(project), "mcpServers")
    return ServerPlace(user_file(environ), path)


def servers_at(place: ServerPlace) -> Mapping[str, Any]:
    """The servers at a place; none if it has none. Raises CellwrightError for a file that cannot be read."""
    try:
        value = json.loads(place.file.read_bytes()) if place.file.exists() else {}
    except (OSError, ValueError, RecursionError) as error:
        message = f"{place.file} cannot be read: {error}. Mend it first."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message) from None
    for name in place.path:
        value = value.get(name, {}) if isinstance(value, dict) else {}
    return value if isinstance(value, dict) else {}


def write_server(place: ServerPlace, name: str, entry: Any, cwd: Path, environ: Mapping[str, str]) -> None:
    """Write an entry that makes sense. Raises CellwrightError; then nothing was changed."""
    read = read_entries({name: entry}, ServerOrigin(scope="local", label="the entry", cwd=cwd), environ)
    if name not in read.entries:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{' '.join(read.notices)} Nothing was changed.")
    _set(place, name, entry)


def remove_server(place: ServerPlace, name: str) -> None:
    """Take an entry out. Raises CellwrightError."""
    _set(place, name, None)


def _set(place: ServerPlace, name: str, value: Any) -> None:
    try:
        set_value(place.file, [*place.path, name], value, project=place.project)
    except (SettingsProblem, OSError) as error:
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{place.file} was not changed: {error}.") from None


def masked_entry(entry: Mapping[str, Any], redaction: Redaction = _NO_VALUES) -> dict[str, Any]:
    """The entry as it may be shown: values of `env` and `headers`, and whatever else looks secret, are hidden.

    >>> masked_entry({"command": "npx", "args": ["--api-key", "abc"], "env": {"A": "1", "B": "${HOME}"}})
    {'command': 'npx', 'args': ['--api-key', '••••••'], 'env': {'A': '••••••', 'B': '${HOME}'}}
    """
    return {
        key: _masked(value, redaction, hidden=key in _ALWAYS_HIDDEN, is_address=key == "url")
        for key, value in entry.items()
    }


def _masked(value: Any, redaction: Redaction, *, hidden: bool, is_address: bool = False) -> Any:
    if isinstance(value, Mapping):
        return {key: _masked(each, redaction, hidden=hidden) for key, each in value.items()}
    if isinstance(value, list):
        return [_masked(each, redaction, hidden=hidden or _follows_option(value, at)) for at, each in enumerate(value)]
    if not isinstance(value, str):
        return value
    if hidden:
        return value if _REFERENCE.fullmatch(value) else MASK
    if is_address:
        return _USER_IN_ADDRESS.sub(MASK, _QUERY_VALUE.sub(MASK, value))
    name, sign, _ = value.partition("=")
    if sign and _SECRET_OPTION.fullmatch(name):
        return f"{name}={MASK}"
    return MASK if redaction.clean(value).text != value else value


def _follows_option(values: Sequence[Any], at: int) -> bool:
    before = values[at - 1] if at else None
    return isinstance(before, str) and _SECRET_OPTION.fullmatch(before) is not None


def unmasked_entry(entry: Any, before: Any, redaction: Redaction = _NO_VALUES) -> Any:
    """The edited `entry` with what is still as `masked_entry` showed it taken from `before`. Raises CellwrightError
    INVALID_PARAMETERS when a hidden value is left that cannot be told from others.

    >>> unmasked_entry({"env": {"A": MASK, "C": "3"}}, {"env": {"A": "1", "B": "2"}})
    {'env': {'A': '1', 'C': '3'}}
    """
    shown = masked_entry(before, redaction) if isinstance(before, Mapping) else {}
    found = _unmasked(entry, shown, before)
    if MASK in json.dumps(found, ensure_ascii=False):
        message = "A hidden value has another place now: enter it again. Nothing was changed."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return found


def _unmasked(value: Any, shown: Any, before: Any) -> Any:
    if isinstance(value, dict):
        old, kept = (shown, before) if isinstance(shown, dict) and isinstance(before, Mapping) else ({}, {})
        return {key: _unmasked(each, old.get(key), kept.get(key)) for key, each in value.items()}
    if isinstance(value, list):
        if value == shown:
            return before
        pairs = [*zip(shown, before, strict=True)] if isinstance(shown, list) and isinstance(before, list) else []
        pairs += [(None, None)] * (len(value) - len(pairs))
        return [_unmasked(each, *pair) for each, pair in zip(value, pairs, strict=False)]
    return before if isinstance(value, str) and MASK in value and value == shown else value
