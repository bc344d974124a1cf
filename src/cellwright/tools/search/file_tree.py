"""FileTree: a folder and what is below it. It only reads; ignored files are marked, what is too much is counted."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import counted
from cellwright.tools.inputs import HERE, MAX_GLOBS, Globs, timed_limits, timeout_meta
from cellwright.tools.paths import existing_path, shown_path
from cellwright.tools.search.globs import any_matcher
from cellwright.tools.search.grep_output import checked
from cellwright.tools.search.ripgrep import (
    NO_VERSION_CONTROL,
    TEMPORARY_FILES,
    ignore_arguments,
    relative_path,
    run_ripgrep,
    search_program,
)

TREE_SECONDS = 20.0
TREE_DEPTH = 3
MAX_DEPTH = 20
FILES_OF_A_FOLDER = 60
"""More files of one folder are counted, not named."""

IGNORED_OF_A_FOLDER = 10

DESCRIPTION = """\
Show a folder as a tree, with the number of files in each folder. Git-ignored files and folders are marked and not counted, \
hidden ones are shown. Use it once to get to know a project, Glob and Grep to find things."""


class FileTreeInput(ToolInput):
    """The input of FileTree."""

    path: Annotated[str, Meta(min_length=1, description="The folder. Leave it out for the working directory.")] = HERE
    depth: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_DEPTH,
            description=f"How many levels are shown, {TREE_DEPTH} by default; deeper levels are counted.",
        ),
    ] = TREE_DEPTH
    ignore: Annotated[
        Globs, Meta(max_length=MAX_GLOBS, description="Files and folders to leave out: `tests`, `*.lock`.")
    ] = ()
    offset: Annotated[int, Meta(ge=0, description="Lines to skip.")] = 0
    timeout_seconds: Annotated[int, timeout_meta(TREE_SECONDS)] = int(TREE_SECONDS)


class FileTreeOutput(ToolOutput):
    """The size of the tree: its files, and its lines of which the result shows those from `offset` that fit."""

    path: str
    num_files: int = field(name="numFiles")
    num_lines: int = field(name="numLines")
    offset: int
    truncated: bool


def file_tree_tool(cwd: Path) -> Tool:
    """FileTree. Relative paths start at `cwd`; rg lists the files."""

    @tool(
        name="FileTree",
        other_names=["directory_tree", "project_structure", "list_dir", "list_directory", "list_files"],
        rarely_used=True,
        output=FileTreeOutput,
        description=DESCRIPTION,
        access=ToolAccess("list", "path"),
        read_only=True,
        category="search",
        best_for="a project's outline",
        limits=timed_limits(),
        examples=[{}, {"path": "src", "depth": 2, "ignore": ["static"]}],
        title=lambda input: f"List the tree of {shown_path(cwd, cwd / input.path)}",
    )
    async def file_tree(input: FileTreeInput) -> ToolResult:
        folder, display_path = existing_path(cwd, input.path)
        if not folder.is_dir():
            raise ToolError(f"{display_path} is a file, not a folder.", code=ErrorCode.FILE_PATH_INVALID)
        offset, seconds = input.offset, input.timeout_seconds
        without = [*NO_VERSION_CONTROL, *ignore_arguments(input.ignore)]
        arguments = ["--files", "--hidden", "--null", *without, "--", "."]
        output = await run_ripgrep(search_program(), arguments, cwd=folder, separator=b"\0", seconds=seconds)
        found = checked(output, seconds).records
        lines = await asyncio.to_thread(
            _lines, found, folder, input.depth, display_path, input.ignore, whole=output.whole
        )
        text, rest = tree_page(lines, offset)
        notes = [] if output.whole else ["[Not all files were listed: there are too many. Give a folder in path.]"]
        if offset >= len(lines):
            notes.append(f"[offset={offset} is past the last of {len(lines):,} lines.]")
        elif rest is not None:
            way = f"Go on with offset={rest}, or give a smaller depth or a folder in path."
            notes.append(f"[lines {offset + 1}-{rest} of {len(lines):,}. {way}]")
        structured = FileTreeOutput(
            path=folder.as_posix(),
            num_files=len(found),
            num_lines=len(lines),
            offset=offset,
            truncated=rest is not None or not output.whole,
        )
        return ToolResult("\n".join([text, *notes] if text else notes), structured=structured)

    return file_tree


class _Unlisted(Struct, frozen=True):
    """The means to find what rg does not list: `wanted` of a path says whether it was not left out by the call."""

    root: Path
    wanted: Callable[[str], bool]


def _lines(
    found: list[bytes], folder: Path, depth: int, display_path: str, ignore: Sequence[str], *, whole: bool
) -> list[str]:
    left_out = any_matcher([*(glob.removesuffix("/**").removesuffix("/") for glob in ignore), TEMPORARY_FILES, ".git"])
    # where not all were listed, nobody knows what is ignored
    unlisted = _Unlisted(folder, lambda path: whole and not left_out(path))
    return list(tree_lines(build_tree(map(relative_path, found)), unlisted, depth, display_path))


class ListedFolder(Struct):
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


def tree_lines(tree: ListedFolder, unlisted: _Unlisted, depth: int, shown_name: str) -> Iterator[str]:
    """The tree's lines, folders before files; what lies deeper than `depth` is counted."""
    yield f"{shown_name.rstrip('/')}/ ({counted(tree.total, 'file')})"
    yield from _below(tree, unlisted, "", depth, 1)


def _below(tree: ListedFolder, unlisted: _Unlisted, path: str, depth: int, level: int) -> Iterator[str]:
    indent = "  " * level
    for name in sorted(tree.folders, key=str.lower):
        below = tree.folders[name]
        yield f"{indent}{_plain(name)}/ ({counted(below.total, 'file')})"
        if level < depth:
            yield from _below(below, unlisted, f"{path}{name}/", depth, level + 1)
    folders, others = _not_listed(unlisted, path, tree)
    yield from (f"{indent}{each}" for each in folders)
    files = sorted(tree.files, key=str.lower)
    for name in files[:FILES_OF_A_FOLDER]:
        yield f"{indent}{_plain(name)}"
    if len(files) > FILES_OF_A_FOLDER:
        yield f"{indent}[and {len(files) - FILES_OF_A_FOLDER:,} more files: list them with LS or Glob]"
    yield from (f"{indent}{each}" for each in others[:IGNORED_OF_A_FOLDER])
    if len(others) > IGNORED_OF_A_FOLDER:
        yield f"{indent}[and {len(others) - IGNORED_OF_A_FOLDER:,} more ignored files: list them with LS or Glob]"


def _not_listed(unlisted: _Unlisted, path: str, tree: ListedFolder) -> tuple[list[str], list[str]]:
    """The folders of which nothing is listed, and why; the ignored files, and the links, of which rg lists none."""
    folders: list[str] = []
    others: list[str] = []
    listed = set(tree.files)
    folder = unlisted.root / path
    try:
        with os.scandir(folder) as scan:
            entries = sorted(itertools.islice(scan, 5_000), key=lambda entry: entry.name)
    except OSError:
        return [], []  # gone or not readable: its files, if any, are listed all the same
    for entry in entries:
        name = entry.name
        if name in listed or name in tree.folders:
            continue
        if entry.is_symlink():
            target = f" -> {_plain(os.readlink(entry.path))}"  # noqa: PTH115
            others += [f"{_plain(name)}{target}"] if unlisted.wanted(path + name) else []
        elif entry.is_dir(follow_symlinks=False):
            folders += [] if name == ".git" else [f"{_plain(name)}/ ({_state(folder / name)})"]
        elif entry.is_file(follow_symlinks=False) and unlisted.wanted(path + name):
            others.append(f"{_plain(name)} (ignored)")
    return folders, others


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
    while end < len(lines) and (end == offset or chars + len(lines[end]) < 24_000):
        chars += len(lines[end]) + 1
        end += 1
    return "\n".join(lines[offset:end]), end if end < len(lines) else None
