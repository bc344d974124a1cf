"""What LS shows of a folder."""

from __future__ import annotations

import fnmatch
import itertools
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cellwright.agent.tool import ToolResult
from cellwright.text import visible

PAGE_ENTRIES = 500
SCANNED_ENTRIES = 100_000

_TYPES = {
    stat.S_IFDIR: "folder",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def list_folder(folder: Path, shown: str, ignore: Sequence[str], offset: int, limit: int) -> ToolResult:
    """The entries of a folder: folders first, then by name; mode, size in bytes, time of change (local), name."""
    with os.scandir(folder) as scan:
        entries = list(itertools.islice(scan, SCANNED_ENTRIES + 1))
    truncated = len(entries) > SCANNED_ENTRIES
    entries = [entry for entry in entries[:SCANNED_ENTRIES] if not _ignored(entry, ignore)]
    entries.sort(key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name.lower(), entry.name))
    page = entries[offset : offset + limit]
    facts = [_facts(entry) for entry in page]
    lines = [f"{shown}: {'more than ' if truncated else ''}{_entries(len(entries))}", *map(_line, facts)]
    if not page and entries:
        lines.append(f"[offset={offset} is past the last entry.]")
    elif offset + len(page) < len(entries):
        lines.append(f"[entries {offset + 1}-{offset + len(page)}. Go on with offset={offset + len(page)}.]")
    about = {"entries": facts, "total": len(entries), "truncated": truncated, "appliedOffset": offset}
    return ToolResult("\n".join(lines), about)


def _entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number:,} entries"


def _ignored(entry: os.DirEntry[str], ignore: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(entry.name, pattern.rstrip("/").removeprefix("**/")) for pattern in ignore)


def _facts(entry: os.DirEntry[str]) -> dict[str, Any]:
    """What is known of an entry; `error` where the system does not tell."""
    name = entry.name if entry.name.isprintable() else visible(_decoded(entry.name)).replace("\n", "⏎")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return {"name": name, "error": error.strerror}
    facts: dict[str, Any] = {
        "name": name,
        "type": _TYPES.get(stat.S_IFMT(status.st_mode), "other"),
        "size": status.st_size,
        "mode": stat.filemode(status.st_mode),
        "modified": status.st_mtime,
        "accessed": status.st_atime,
    }
    if facts["type"] == "link":
        # the text of the link, as it is
        facts["target"] = visible(_decoded(os.readlink(entry.path)))  # noqa: PTH115
    return facts


def _decoded(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def _line(facts: dict[str, Any]) -> str:
    if "error" in facts:
        return f"?{'':41}{facts['name']} ({facts['error']})"
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts["modified"]))
    end = {"folder": "/", "link": f" -> {facts.get('target')}"}.get(facts["type"], "")
    return f"{facts['mode']} {facts['size']:>13,} {changed}  {facts['name']}{end}"
