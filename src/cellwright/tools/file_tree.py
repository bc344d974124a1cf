"""A folder as a tree: what FileTree shows. Ignored files are left out, what is too much is counted."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.tools.schema import counted

TREE_CHARS = 24_000
FILES_OF_A_FOLDER = 60
"""More files of one folder are counted, not named."""

SCANNED_NAMES = 5_000


@dataclass(slots=True)
class Folder:
    """One folder's part of the tree; `total` counts the files in it and below."""

    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    total: int = 0


def build_tree(paths: Iterable[str]) -> Folder:
    """The tree that holds these files; paths are relative, with `/`."""
    root = Folder()
    for path in paths:
        *parts, name = path.split("/")
        here = root
        here.total += 1
        for part in parts:
            here = here.folders.setdefault(part, Folder())
            here.total += 1
        here.files.append(name)
    return root


def tree_lines(tree: Folder, place: Path, depth: int, shown_name: str) -> Iterator[str]:
    """The tree's lines, folders before files; what lies deeper than `depth` is counted."""
    yield f"{shown_name.rstrip('/')}/ ({counted(tree.total, 'file')})"
    yield from _below(tree, place, depth, 1)


def _below(tree: Folder, place: Path, depth: int, level: int) -> Iterator[str]:
    indent = "  " * level
    for name in sorted(tree.folders, key=str.lower):
        below = tree.folders[name]
        yield f"{indent}{_plain(name)}/ ({counted(below.total, 'file')})"
        if level < depth:
            yield from _below(below, place / name, depth, level + 1)
    for name, state in _unlisted_folders(place, tree):
        yield f"{indent}{_plain(name)}/ ({state})"
    files = sorted(tree.files, key=str.lower)
    for name in files[:FILES_OF_A_FOLDER]:
        yield f"{indent}{_plain(name)}"
    if len(files) > FILES_OF_A_FOLDER:
        yield f"{indent}[and {len(files) - FILES_OF_A_FOLDER:,} more files: list them with LS or Glob]"


def _unlisted_folders(place: Path, tree: Folder) -> list[tuple[str, str]]:
    """The folders of which nothing is listed, and why."""
    try:
        with os.scandir(place) as scan:
            names = [
                entry.name for entry in itertools.islice(scan, SCANNED_NAMES) if entry.is_dir(follow_symlinks=False)
            ]
        return [(name, _state(place / name)) for name in sorted(names) if name not in tree.folders and name != ".git"]
    except OSError:
        return []  # gone or not readable: its files, if any, are listed all the same


def _state(folder: Path) -> str:
    try:
        with os.scandir(folder) as scan:
            return "empty" if next(scan, None) is None else "ignored"
    except OSError:
        return "not readable"


def _plain(name: str) -> str:
    return name if name.isprintable() else ascii(name)[1:-1]


def tree_page(lines: list[str], offset: int) -> tuple[str, int | None]:
    """The lines from `offset` that fit into one result, and where to go on; None: that was all."""
    chars, end = 0, offset
    while end < len(lines) and (end == offset or chars + len(lines[end]) < TREE_CHARS):
        chars += len(lines[end]) + 1
        end += 1
    return "\n".join(lines[offset:end]), end if end < len(lines) else None
