"""Symbolic links below a searched folder, which rg passes over: those to files are listed, those to folders are named."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field

ENTRIES_LOOKED_AT = 10_000
SECONDS = 0.1
"""Looking for links ends then: in a large tree they are not worth more."""

NAMED = 3
NOT_ENTERED = frozenset({"node_modules", "site-packages", "__pycache__"})
"""Folders that programs fill; those that are hidden are not looked through either, unless the glob names them."""


class FoundLinks(Struct):
    """Links to files, by their paths below the searched folder, and those to folders outside of it, with their targets."""

    files: list[bytes] = field(default_factory=list)
    folders: list[tuple[str, str]] = field(default_factory=list)

    def note(self, prefix: str = "") -> list[str]:
        """A line that names the folders which were not searched; none if there are none."""
        if not self.folders:
            return []
        named = ", ".join(f"{prefix}{name} -> {target}" for name, target in sorted(self.folders)[:NAMED])
        more = f" and {len(self.folders) - NAMED} more" if len(self.folders) > NAMED else ""
        return [f"[Symbolic links are not followed: {named}{more}. Give such a folder in path to search it.]"]


def find_links(folder: Path, globs: Sequence[str], wanted: Callable[[str], bool]) -> FoundLinks:
    """Look for links where one of `globs` could match; of those to files the ones that are `wanted`. Bounded in time."""
    found = FoundLinks()
    root = os.path.realpath(folder)
    starts = {_before_link(folder, _start(glob)) for glob in globs}
    depth = max((_depth(glob) for glob in globs), default=0)
    # the nearest first
    waiting = deque(start for start in starts if os.path.isdir(os.path.join(folder, start)))  # noqa: PTH112, PTH118
    deadline = time.monotonic() + SECONDS
    count = 0
    while waiting and count < ENTRIES_LOOKED_AT and time.monotonic() < deadline:
        here = waiting.popleft()
        try:
            with os.scandir(os.path.join(folder, here)) as scan:  # noqa: PTH118
                for entry in scan:
                    count += 1
                    path = f"{here}{entry.name}"
                    if entry.is_symlink():
                        _take(entry, path, root, wanted, found)
                    elif path.count("/") < depth and not _is_skipped(entry.name) and entry.is_dir():
                        waiting.append(f"{path}/")
        except OSError:
            continue  # not readable: rg says so
    return found


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name in NOT_ENTERED


def _take(entry: os.DirEntry[str], path: str, root: str, wanted: Callable[[str], bool], found: FoundLinks) -> None:
    try:
        if entry.is_dir():
            target = os.path.realpath(entry.path)
            # what is inside is found by its own name
            if not f"{target}/".startswith(f"{root}/"):
                found.folders.append((path, os.readlink(entry.path)))  # noqa: PTH115
        elif entry.is_file() and wanted(path):
            found.files.append(os.fsencode(path))
    except OSError:
        return  # it leads nowhere


def _before_link(folder: Path, start: str) -> str:
    """`start`, or the part of it that is before a link: what is behind that is not searched."""
    path = ""
    for part in start.rstrip("/").split("/"):
        if part and os.path.islink(os.path.join(folder, path, part)):  # noqa: PTH114, PTH118
            return path
        path += f"{part}/" if part else ""
    return path


def _start(glob: str) -> str:
    """The folder that an anchored glob names plainly, with a slash at its end; "" for others."""
    if "/" not in glob.rstrip("/"):
        return ""
    plain = []
    for part in glob.removeprefix("/").split("/")[:-1]:
        if any(sign in part.replace("\\[", "").replace("\\{", "") for sign in "*?[{"):
            break
        plain.append(part.replace("\\", ""))
    return "".join(f"{part}/" for part in plain)


def _depth(glob: str) -> int:
    """The number of folders that a path which matches may have above it."""
    return 64 if "**" in glob or "/" not in glob.rstrip("/") or "{" in glob else glob.removeprefix("/").count("/")
