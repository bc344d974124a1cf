"""Files of users that hold one JSON object: a broken one is named with its place, and harms nothing."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

MAX_BYTES = 1_000_000


class SettingsProblem(Exception):
    """Raised for a file that is no settings file: `file:line:column: what is wrong`."""


def read_settings_file(file: Path) -> dict[str, Any] | None:
    """Read a settings file; None where there is none. Raises SettingsProblem."""
    try:
        facts = file.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            # a link to /dev/zero, a pipe: reading it would never end
            raise SettingsProblem(f"{file}: is not a regular file of at most {MAX_BYTES:,} bytes")
        text = file.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsProblem(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsProblem(f"{file}: is not UTF-8 (byte {error.start})") from error
    return parse_settings(text, file)


def parse_settings(text: str, file: Path) -> dict[str, Any]:
    """The object that `text`, the content of `file`, says in strict JSON. Raises SettingsProblem."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise SettingsProblem(f"{file}:{error.lineno}:{error.colno}: is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsProblem(f"{file}: is not strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise SettingsProblem(f"{file}: is not a JSON object")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # of two `deny` lists in one object the first would be lost in silence
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice in one object")
        found[key] = value
    return found
