"""What bounds a shell command, and the variables that users of Claude Code know for it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cellwright.tools.shell.output import SHOWN_CHARS

DEFAULT_MS = 120_000
MOST_MS = 600_000
BACKGROUND_MS = 1_800_000
MOST_BACKGROUND_MS = 7_200_000
MOST_SHOWN_CHARS = 150_000
SHARE_OF_MEMORY = 0.75
"""Of the machine's memory, or of what its container gives: what one process of a command may take by default."""

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)i?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """Times in milliseconds, `memory_mb` in MiB (None: no bound). `background`: whether commands may go on there."""

    default_ms: int = DEFAULT_MS
    most_ms: int = MOST_MS
    background_ms: int = BACKGROUND_MS
    most_background_ms: int = MOST_BACKGROUND_MS
    shown_chars: int = SHOWN_CHARS
    memory_mb: int | None = None
    background: bool = True

    def seconds(self, timeout_ms: int | None) -> float:
        """How long a command in the foreground may take."""
        return min(self.default_ms if timeout_ms is None else timeout_ms, self.most_ms) / 1000

    def background_seconds(self, timeout_ms: int | None) -> float:
        """How long a command in the background may take."""
        return min(self.background_ms if timeout_ms is None else timeout_ms, self.most_background_ms) / 1000


def read_shell_limits(
    environ: Mapping[str, str], shown_chars: int | None = None, seconds: float | None = None
) -> ShellLimits:
    """The limits as the environment sets them; what makes no sense there is left out.

    `shown_chars` and `seconds` (in the foreground, by default) are what the settings say; the environment goes before.

    >>> read_shell_limits({"BASH_DEFAULT_TIMEOUT_MS": "5000", "CLAUDE_CODE_TOOL_MEMORY_LIMIT": "2G"}).memory_mb
    2048
    """
    from_settings = int(seconds * 1000) if seconds else DEFAULT_MS
    default_ms = _positive(environ, "BASH_DEFAULT_TIMEOUT_MS") or from_settings
    shown = _positive(environ, "BASH_MAX_OUTPUT_LENGTH") or shown_chars or SHOWN_CHARS
    return ShellLimits(
        default_ms=default_ms,
        most_ms=max(default_ms, _positive(environ, "BASH_MAX_TIMEOUT_MS") or MOST_MS),
        shown_chars=min(shown, MOST_SHOWN_CHARS),
        memory_mb=_memory_mb(environ.get("CLAUDE_CODE_TOOL_MEMORY_LIMIT", "")),
        background=environ.get("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "") not in ("1", "true"),
    )


def _positive(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "")
    return int(value) if value.isdecimal() and int(value) > 0 else None


def _memory_mb(setting: str) -> int | None:
    """The limit that `setting` asks for ("2G", bytes; "0" and "off": none), else a share of what there is."""
    if setting.strip().lower() in ("0", "off", "none"):
        return None
    if found := _SIZE.fullmatch(setting.strip()):
        return max(1, int(float(found["number"]) * _UNITS[found["unit"].upper()]) // 2**20)
    there_is = _machine_bytes()
    return None if there_is is None else int(there_is * SHARE_OF_MEMORY) // 2**20


def _machine_bytes() -> int | None:
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):  # not on every system
        return None
    for file in _CGROUP_LIMITS:
        try:
            text = Path(file).read_text("ascii").strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return min(found)
