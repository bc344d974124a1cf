"""LS and FileTree: what is in folders. They only read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolError, ToolResult
from cellwright.errors import ErrorCode
from cellwright.tools.file_tree import build_tree, tree_lines, tree_page
from cellwright.tools.listing import PAGE_ENTRIES, list_folder
from cellwright.tools.paths import file_errors, not_found, resolve_path, shown_path
from cellwright.tools.schema import globs_field, object_schema, path_field
from cellwright.tools.search.glob import NO_VERSION_CONTROL, ignore_arguments, relative_path
from cellwright.tools.search.grep import checked
from cellwright.tools.search.ripgrep import SearchProgram, run_ripgrep
from cellwright.tools.timeouts import timed_limits, timeout_field, timeout_of

TREE_SECONDS = 20.0
TREE_DEPTH = 3
MOST_DEPTH = 20

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


def file_tree_tool(cwd: Path, program: Callable[[], SearchProgram]) -> Tool:
    """FileTree; `program` lists the files."""

    async def file_tree(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        folder, shown = _folder(cwd, tool_input)
        if not folder.is_dir():
            raise ToolError(f"{shown} is a file, not a folder.", code=ErrorCode.FILE_PATH_INVALID)
        seconds = timeout_of(tool_input, TREE_SECONDS)
        without = [*NO_VERSION_CONTROL, *ignore_arguments(tool_input.get("ignore", []))]
        arguments = ["--files", "--hidden", "--null", *without, "--", "."]
        output = await run_ripgrep(program(), arguments, cwd=folder, separator=b"\0", seconds=seconds)
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
        if notice := program().notice:
            notes.append(notice)
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
                    "maximum": MOST_DEPTH,
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
