"""LS: what is in one folder, and when a file was created, as far as the system tells. It only reads."""

from __future__ import annotations

import asyncio
import ctypes
import fnmatch
import functools
import itertools
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.text import visible
from cellwright.tools.inputs import HERE, MAX_GLOBS, Globs
from cellwright.tools.paths import existing_path, file_errors, shown_name, shown_path
from cellwright.tools.search.ripgrep import TEMPORARY_FILES

_AT_FDCWD, _NOFOLLOW, _BIRTH_TIME = -100, 0x100, 0x800
_BYTES, _MASK, _TIME = 256, (0, "=I"), (80, "=qI")
"""The size of Linux's `struct statx`; where in it are what is known, and the time of creation."""

DESCRIPTION = """\
List a folder: mode, size, time of change and name of each entry, folders first. Use Glob to find files by name, in \
subfolders too."""

PAGE_ENTRIES = 500
SCANNED_ENTRIES = 100_000


def created_time(path: str, status: os.stat_result) -> float | None:
    """The time of creation in seconds since the epoch, of a link itself; None if nobody knows it."""
    if (known := getattr(status, "st_birthtime", None)) is not None:
        return float(known)
    if (statx := _statx()) is None:
        return None
    found = ctypes.create_string_buffer(_BYTES)
    if statx(_AT_FDCWD, os.fsencode(path), _NOFOLLOW, _BIRTH_TIME, found) != 0:
        return None
    [mask] = struct.unpack_from(_MASK[1], found, _MASK[0])
    seconds, nanoseconds = struct.unpack_from(_TIME[1], found, _TIME[0])
    return float(seconds + nanoseconds / 1e9) if mask & _BIRTH_TIME else None


@functools.cache
def _statx() -> Callable[..., int] | None:
    """Linux's own call: Python's `os.stat` leaves the time of creation out there."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).statx
    except (OSError, AttributeError):  # an older C library
        return None


class LSInput(ToolInput):
    """The input of LS."""

    path: Annotated[str, Meta(min_length=1, description="The folder. Leave it out for the working directory.")] = HERE
    ignore: Annotated[
        Globs, Meta(max_length=MAX_GLOBS, description="Names to leave out, as globs: `*.pyc`, `node_modules`.")
    ] = ()
    offset: Annotated[int, Meta(ge=0, description="Entries to skip.")] = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE_ENTRIES, description=f"Entries to list, {PAGE_ENTRIES} by default.")] = (
        PAGE_ENTRIES
    )


class FolderEntry(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """An entry of a folder; `error` where the system does not tell of it. `target` is the text of a link."""

    name: str
    type: str = ""
    size: int | None = None
    mode: str = ""
    modified: float | None = None
    accessed: float | None = None
    created_time: float | None = None
    target: str = ""
    error: str = ""


class LSOutput(ToolOutput):
    """The entries listed, and how many there are in all; `truncated`: there are more than were counted."""

    path: str
    entries: tuple[FolderEntry, ...]
    total: int
    truncated: bool
    offset: int


def ls_tool(cwd: Path) -> Tool:
    """LS. Relative paths start at `cwd`."""

    @tool(
        name="LS",
        other_names=(
            "list_files",
            "list_dir",
            "list_directory",
        ),
        output=LSOutput,
        description=DESCRIPTION,
        access=ToolAccess("list", "path"),
        read_only=True,
        limits=ToolLimits(results=PAGE_ENTRIES),
        category="search",
        everyday=True,
        best_for="a folder",
        examples=[{}, {"path": "src", "ignore": ["__pycache__"], "limit": 100}],
        title=lambda input: f"List {shown_path(cwd, cwd / input.path)}",
    )
    async def ls(input: LSInput) -> ToolResult:
        folder, display_path = existing_path(cwd, input.path)
        with file_errors(display_path):
            return await asyncio.to_thread(list_folder, folder, display_path, input.ignore, input.offset, input.limit)

    return ls


_TYPES = {
    stat.S_IFDIR: "folder",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def list_folder(folder: Path, display_path: str, ignore: Sequence[str], offset: int, limit: int) -> ToolResult:
    """The entries of a folder: folders first, then by name; mode, size in bytes, time of change (local), name."""
    with os.scandir(folder) as scan:
        entries = list(itertools.islice(scan, SCANNED_ENTRIES + 1))
    truncated = len(entries) > SCANNED_ENTRIES
    patterns = [pattern.rstrip("/").removeprefix("**/") for pattern in (*ignore, TEMPORARY_FILES)]
    entries = [
        entry
        for entry in entries[:SCANNED_ENTRIES]
        if not any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns)
    ]
    entries.sort(key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name.lower(), entry.name))
    page = entries[offset : offset + limit]
    facts = [_facts(entry) for entry in page]
    number = "1 entry" if len(entries) == 1 else f"{len(entries):,} entries"
    lines = [f"{display_path}: {'more than ' if truncated else ''}{number}", *map(_line, facts)]
    if not page and entries:
        lines.append(f"[offset={offset} is past the last entry.]")
    elif offset + len(page) < len(entries):
        lines.append(f"[entries {offset + 1}-{offset + len(page)}. Go on with offset={offset + len(page)}.]")
    output = LSOutput(
        path=folder.as_posix(), entries=tuple(facts), total=len(entries), truncated=truncated, offset=offset
    )
    return ToolResult("\n".join(lines), structured=output)


def _facts(entry: os.DirEntry[str]) -> FolderEntry:
    name = shown_name(entry.name)
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return FolderEntry(name=name, error=error.strerror or type(error).__name__)
    kind = _TYPES.get(stat.S_IFMT(status.st_mode), "other")
    return FolderEntry(
        name=name,
        type=kind,
        size=status.st_size,
        mode=stat.filemode(status.st_mode),
        modified=status.st_mtime,
        accessed=status.st_atime,
        created_time=created_time(entry.path, status),
        # the text of the link, as it is
        target=visible(os.fsencode(os.readlink(entry.path)).decode("utf-8", "replace")) if kind == "link" else "",  # noqa: PTH115
    )


def _line(entry: FolderEntry) -> str:
    if entry.error:
        return f"?{'':41}{entry.name} ({entry.error})"
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.modified))
    end = {"folder": "/", "link": f" -> {entry.target}"}.get(entry.type, "")
    return f"{entry.mode} {entry.size or 0:>13,} {changed}  {entry.name}{end}"
