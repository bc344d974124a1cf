"""LS and FileTree: what is in folders. They only read.

A folder as a tree: what FileTree shows. Ignored files are left out, what is too much is counted.

What LS shows of a folder.
"""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import visible
from cellwright.tools.paths import file_errors, not_found, resolve_path, shown_path
from cellwright.tools.schema import (
    counted,
    globs_field,
    object_schema,
    path_field,
    timed_limits,
    timeout_field,
    timeout_of,
)
from cellwright.tools.search.glob import NO_VERSION_CONTROL, ignore_arguments, relative_path
from cellwright.tools.search.grep import checked
from cellwright.tools.search.ripgrep import run_ripgrep, search_program

TREE_CHARS = 24_000
FILES_OF_A_FOLDER = 60
"""More files of one folder are counted, not named."""

SCANNED_NAMES = 5_000


@dataclass(slots=True)
class ListedFolder:
    """One folder's part of the tree; `total` counts the files in it and below."""

    folders: dict[str, ListedFolder] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    total: int = 0


def build_tree(paths: Iterable[str]) -> ListedFolder:
    """The tree that holds these files; paths are relative, with `/`."""
    root = ListedFolder()
    for path in paths:
        *parts, name = path.split("/")
        here = root
        here.total += 1
        for part in parts:
            here = here.folders.setdefault(part, ListedFolder())
            here.total += 1
        here.files.append(name)
    return root


def tree_lines(tree: ListedFolder, place: Path, depth: int, shown_name: str) -> Iterator[str]:
    """The tree's lines, folders before files; what lies deeper than `depth` is counted."""
    yield f"{shown_name.rstrip('/')}/ ({counted(tree.total, 'file')})"
    yield from _below(tree, place, depth, 1)


def _below(tree: ListedFolder, place: Path, depth: int, level: int) -> Iterator[str]:
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


def _unlisted_folders(place: Path, tree: ListedFolder) -> list[tuple[str, str]]:
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


TREE_SECONDS = 20.0
TREE_DEPTH = 3
MAX_DEPTH = 20

LS_DESCRIPTION = """\
List a folder: mode, size, time of change and name of each entry, folders first. Use Glob to find files by name, in \
subfolders too."""

TREE_DESCRIPTION = """\
Show a folder as a tree, with the number of files in each folder. Git-ignored files are left out, hidden ones are shown. \
Use it once to get to know a project, Glob and Grep to find things."""


def ls_tool(cwd: Path) -> Tool:
    """LS. Relative paths start at `cwd`."""

    async def ls(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        folder, shown = _folder(cwd, tool_input)
        ignore = tool_input.get("ignore", [])
        offset, limit = int(tool_input.get("offset", 0)), int(tool_input.get("limit", PAGE_ENTRIES))
        with file_errors(shown):
            return await asyncio.to_thread(list_folder, folder, shown, ignore, offset, limit)

    return Tool(
        name="LS",
        description=LS_DESCRIPTION,
        input_schema=object_schema(
            {
                "path": path_field("The folder. Leave it out for the working directory."),
                "ignore": globs_field("Names to leave out, as globs: `*.pyc`, `node_modules`."),
                "offset": {"type": "integer", "minimum": 0, "description": "Entries to skip."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": PAGE_ENTRIES,
                    "description": f"Entries to list, {PAGE_ENTRIES} by default.",
                },
            },
            required=[],
        ),
        call=ls,
        read_only=True,
        rule_key="path",
        category="search",
        input_examples=[{}, {"path": "src", "ignore": ["__pycache__"], "limit": 100}],
        title=lambda tool_input: f"List {shown_path(cwd, cwd / str(tool_input.get('path', '.')))}",
    )


def file_tree_tool(cwd: Path) -> Tool:
    """FileTree, of the files that rg lists."""

    async def file_tree(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        folder, shown = _folder(cwd, tool_input)
        if not folder.is_dir():
            raise ToolError(f"{shown} is a file, not a folder.", code=ErrorCode.FILE_PATH_INVALID)
        seconds = timeout_of(tool_input, TREE_SECONDS)
        without = [*NO_VERSION_CONTROL, *ignore_arguments(tool_input.get("ignore", []))]
        arguments = ["--files", "--hidden", "--null", *without, "--", "."]
        output = await run_ripgrep(search_program(), arguments, cwd=folder, separator=b"\0", seconds=seconds)
        found = checked(output, seconds).records
        depth, offset = int(tool_input.get("depth", TREE_DEPTH)), int(tool_input.get("offset", 0))
        lines = await asyncio.to_thread(_lines, found, folder, depth, shown)
        text, rest = tree_page(lines, offset)
        notes = [] if output.whole else ["[Not all files were listed: there are too many. Give a folder in path.]"]
        if offset >= len(lines):
            notes.append(f"[offset={offset} is past the last of {len(lines):,} lines.]")
        elif rest is not None:
            way = f"Go on with offset={rest}, or give a smaller depth or a folder in path."
            notes.append(f"[lines {offset + 1}-{rest} of {len(lines):,}. {way}]")
        facts = {"numFiles": len(found), "numLines": len(lines), "truncated": rest is not None or not output.whole}
        return ToolResult("\n".join([text, *notes] if text else notes), facts)

    return Tool(
        name="FileTree",
        description=TREE_DESCRIPTION,
        input_schema=object_schema(
            {
                "path": path_field("The folder. Leave it out for the working directory."),
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_DEPTH,
                    "description": f"How many levels are shown, {TREE_DEPTH} by default; what is deeper is counted.",
                },
                "ignore": globs_field("Files and folders to leave out: `tests`, `*.lock`."),
                "offset": {"type": "integer", "minimum": 0, "description": "Lines to skip."},
                "timeout_seconds": timeout_field(TREE_SECONDS),
            },
            required=[],
        ),
        call=file_tree,
        read_only=True,
        rule_key="path",
        category="search",
        limits=timed_limits(),
        input_examples=[{}, {"path": "src", "depth": 2, "ignore": ["static"]}],
        title=lambda tool_input: f"Tree of {shown_path(cwd, cwd / str(tool_input.get('path', '.')))}",
    )


def _lines(found: list[bytes], folder: Path, depth: int, shown: str) -> list[str]:
    return list(tree_lines(build_tree(map(relative_path, found)), folder, depth, shown))


def _folder(cwd: Path, tool_input: dict[str, Any]) -> tuple[Path, str]:
    """The folder that is meant, and how it is shown."""
    folder = resolve_path(cwd, tool_input.get("path", "."))
    shown = shown_path(cwd, folder)
    with file_errors(shown):
        if not folder.exists():
            raise not_found(folder, shown)
    return folder, shown
