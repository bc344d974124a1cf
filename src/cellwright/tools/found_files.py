"""Finding files by name: what Glob does."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode

NO_VERSION_CONTROL = ("--glob=!.git", "--glob=!.hg", "--glob=!.svn", "--glob=!.jj")
"""rg's arguments that leave out the version control's own files; .gitignore and .github stay."""


def relative_pattern(pattern: str, folder: Path) -> str:
    """`pattern` as it is matched below `folder`. It cannot lead out of it."""
    if "\0" in pattern:
        raise ToolError("The pattern holds a null byte.", code=ErrorCode.INVALID_PARAMETERS)
    inside = f"{folder.as_posix().rstrip('/')}/"
    pattern = pattern.removeprefix(inside).removeprefix("./")
    if pattern.startswith(("/", "!")) or Path(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts:
        raise ToolError(
            f"The pattern {pattern!r} must be relative to the folder that is searched, and may hold no `..` and no "
            "leading `!`. Give the folder in `path`.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    return pattern


def glob_arguments(pattern: str) -> list[str]:
    """rg's arguments that list the files which match `pattern`, hidden and ignored ones included."""
    version_control = any(part.startswith((".git", ".hg", ".svn", ".jj")) for part in pattern.split("/"))
    without = () if version_control else NO_VERSION_CONTROL
    return ["--files", "--hidden", "--no-ignore", "--null", f"--glob={pattern}", *without, "--", "."]


def newest_first(folder: Path, paths: Iterable[bytes], limit: int | None) -> list[bytes]:
    """Paths below `folder` by time of change, the newest first, those of one time by name. At most `limit`."""
    keyed = ((-_mtime(folder, path), path) for path in paths)
    return [path for _, path in (sorted(keyed) if limit is None else heapq.nsmallest(limit, keyed))]


def _mtime(folder: Path, path: bytes) -> int:
    try:
        return os.stat(os.path.join(os.fsencode(folder), path)).st_mtime_ns  # noqa: PTH116, PTH118  bytes, 100,000 times
    except OSError:
        return 0  # gone meanwhile, or a link that leads nowhere
