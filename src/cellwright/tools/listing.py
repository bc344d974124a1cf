"""What LS shows of a folder."""

from __future__ import annotations

import fnmatch
import itertools
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

PAGE_ENTRIES = 500
SCANNED_ENTRIES = 100_000


def list_folder(folder: Path, shown: str, ignore: Sequence[str], offset: int, limit: int) -> str:
    """The entries of a folder: folders first, then by name; mode, size in bytes, time of change (local), name."""
    with os.scandir(folder) as scan:
        entries = list(itertools.islice(scan, SCANNED_ENTRIES + 1))
    truncated = len(entries) > SCANNED_ENTRIES
    entries = [entry for entry in entries[:SCANNED_ENTRIES] if not _ignored(entry, ignore)]
    entries.sort(key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name.lower(), entry.name))
    page = entries[offset : offset + limit]
    lines = [f"{shown}: {'more than ' if truncated else ''}{_entries(len(entries))}", *map(_line, page)]
    if not page and entries:
        lines.append(f"[offset={offset} is past the last entry.]")
    elif offset + len(page) < len(entries):
        lines.append(f"[entries {offset + 1}-{offset + len(page)}. Go on with offset={offset + len(page)}.]")
    return "\n".join(lines)


def _entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number:,} entries"


def _ignored(entry: os.DirEntry[str], ignore: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(entry.name, pattern.rstrip("/").removeprefix("**/")) for pattern in ignore)


def _line(entry: os.DirEntry[str]) -> str:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return f"?{'':41}{entry.name} ({error.strerror})"
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(status.st_mtime))
    name = entry.name
    if stat.S_ISDIR(status.st_mode):
        name += "/"
    elif stat.S_ISLNK(status.st_mode):
        name += f" -> {os.readlink(entry.path)}"  # noqa: PTH115  the text of the link, as it is
    return f"{stat.filemode(status.st_mode)} {status.st_size:>13,} {changed}  {name}"
