"""Glob, Grep and LS: the tools that find files. They only read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.found_files import glob_arguments, newest_first, relative_pattern
from cellwright.tools.grep import HEAD_LIMIT, Place, checked, grep
from cellwright.tools.listing import PAGE_ENTRIES, list_folder
from cellwright.tools.paths import file_errors, not_found, resolve_path, shown_path
from cellwright.tools.ripgrep import run_ripgrep
from cellwright.tools.schemas import object_schema

SEARCH_SECONDS = 20.0
"""How long rg may take; what it found until then is the result. Below the tools' own limit of 30 s."""

GLOB_FILES = 100

GLOB_DESCRIPTION = """\
Find files by name, newest first. At most 100 are listed; hidden and git-ignored files count too.
- `**/*.py`: in all folders below; `src/**/*.{ts,tsx}`: below src; a pattern without a slash (`*.toml`) matches in \
all folders. Folders themselves are not found: use LS to see them.
- To search what is in files use Grep."""

GREP_DESCRIPTION = """\
Search the content of files with ripgrep. Use this, not grep or rg in Bash.
- pattern is a regular expression in Rust's syntax; escape literal braces and parentheses: `interface\\{\\}`, `main\\(`.
- output_mode: "files_with_matches" (default) gives paths, "content" the lines, "count" the number of matching lines.
- Narrow the search with path, glob or type. Hidden files are searched, git-ignored and binary ones are not, unless \
path names the very file.
- For patterns that span lines set multiline."""

LS_DESCRIPTION = """\
List a folder: mode, size, time of change and name of each entry, folders first. Use Glob to find files by name, in \
subfolders too."""


def search_tools(cwd: Path) -> list[Tool]:
    """Glob, Grep and LS. Relative paths start at `cwd`, and so do the paths in results."""
    return [_glob_tool(cwd), _grep_tool(cwd), _ls_tool(cwd)]


def _glob_tool(cwd: Path) -> Tool:
    async def glob(tool_input: dict[str, Any], ctx: ToolContext) -> str:
        place = _place(cwd, tool_input)
        if place.target != ".":
            raise ToolError(f"{tool_input['path']} is a file, not a folder.", code=ErrorCode.FILE_PATH_INVALID)
        pattern = relative_pattern(tool_input["pattern"], place.folder)
        arguments = glob_arguments(pattern)
        output = await run_ripgrep(arguments, cwd=place.folder, separator=b"\0", seconds=SEARCH_SECONDS)
        found = checked(output, SEARCH_SECONDS).records
        paths = await asyncio.to_thread(newest_first, place.folder, found, GLOB_FILES)
        lines = [place.shown(path) for path in paths]
        if not output.whole:
            lines.append(f"[Stopped early: there may be more than these {len(found):,} files. Narrow the search.]")
        elif len(found) > len(paths):
            lines.append(f"[The {len(paths)} newest of {len(found):,} files. Narrow the pattern or path for others.]")
        return "\n".join(lines) or f"No file matches {tool_input['pattern']}{_in(cwd, tool_input)}."

    return Tool(
        name="Glob",
        description=GLOB_DESCRIPTION,
        input_schema=object_schema(
            {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The glob: `*`, `?`, `**`, `[a-z]`, `{a,b}`; relative to path.",
                },
                "path": _path("The folder to search below. Leave it out for the working directory."),
            },
            required=["pattern"],
        ),
        call=glob,
        read_only=True,
        rule_key="path",
        title=lambda tool_input: f"Glob {tool_input['pattern']}{_in(cwd, tool_input)}",
    )


def _grep_tool(cwd: Path) -> Tool:
    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> str:
        if any("\0" in str(value) for value in tool_input.values()):
            raise ToolError("The input holds a null byte.", code=ErrorCode.INVALID_PARAMETERS)
        return await grep(_place(cwd, tool_input), tool_input, SEARCH_SECONDS)

    return Tool(
        name="Grep",
        description=GREP_DESCRIPTION,
        input_schema=object_schema(GREP_FIELDS, required=["pattern"]),
        call=call,
        read_only=True,
        rule_key="path",
        title=lambda tool_input: f'Grep "{tool_input["pattern"]}"{_in(cwd, tool_input)}',
    )


def _ls_tool(cwd: Path) -> Tool:
    async def ls(tool_input: dict[str, Any], ctx: ToolContext) -> str:
        folder = resolve_path(cwd, tool_input.get("path", "."))
        shown = shown_path(cwd, folder)
        ignore = tool_input.get("ignore", [])
        offset, limit = int(tool_input.get("offset", 0)), int(tool_input.get("limit", PAGE_ENTRIES))
        with file_errors(shown):
            if not folder.exists():
                raise not_found(folder, shown)
            return await asyncio.to_thread(list_folder, folder, shown, ignore, offset, limit)

    return Tool(
        name="LS",
        description=LS_DESCRIPTION,
        input_schema=object_schema(
            {
                "path": _path("The folder. Leave it out for the working directory."),
                "ignore": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Names to leave out, as globs: `*.pyc`, `node_modules`.",
                },
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
        title=lambda tool_input: f"List {shown_path(cwd, cwd / str(tool_input.get('path', '.')))}",
    )


def _path(description: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "description": description}


def _lines(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": description}


def _flag(description: str, *, default: bool = False) -> dict[str, Any]:
    return {"type": "boolean", "default": default, "description": description}


GREP_FIELDS: dict[str, Any] = {
    "pattern": {"type": "string", "minLength": 1, "description": "The regular expression to search for."},
    "path": _path("A file, or a folder to search below. Leave it out for the working directory."),
    "glob": {
        "type": "string",
        "minLength": 1,
        "description": "Only files that match, e.g. `*.py`, `*.{ts,tsx}`, `tests/**`, `!*.min.js`; relative to path.",
    },
    "type": {
        "type": "string",
        "pattern": r"^\w+$",
        "description": "Only files of this type, by ripgrep's name for it: py, js, ts, rust, go, java, md and so on.",
    },
    "output_mode": {
        "type": "string",
        "enum": ["files_with_matches", "content", "count"],
        "default": "files_with_matches",
        "description": "What to give back: paths, matching lines, or the number of matching lines per file.",
    },
    "-A": _lines("Lines to show after each match (content only)."),
    "-B": _lines("Lines to show before each match (content only)."),
    "-C": _lines("Lines to show before and after each match (content only)."),
    "context": _lines("The same as -C."),
    "-n": _flag("Show line numbers (content only).", default=True),
    "-i": _flag("Ignore upper and lower case."),
    "-o": _flag("Show only what matches, not the whole line (content only)."),
    "head_limit": {
        "type": "integer",
        "minimum": 0,
        "default": HEAD_LIMIT,
        "description": f"How many lines or files to give back at most, {HEAD_LIMIT} by default; 0 for as many as fit.",
    },
    "offset": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "Lines or files to skip, to go on where the last result ended.",
    },
    "multiline": _flag("Let the pattern span lines, and `.` match line ends."),
}


def _place(cwd: Path, tool_input: Mapping[str, Any]) -> Place:
    """Where rg runs, and on what."""
    path = resolve_path(cwd, tool_input.get("path", "."))
    shown = shown_path(cwd, path)
    with file_errors(shown):
        if not path.exists():
            raise not_found(path, shown)
        if path.is_dir():
            return Place(path, ".", "" if shown == "." else f"{shown.rstrip('/')}/")
    folder = shown_path(cwd, path.parent)
    return Place(path.parent, path.name, "" if folder == "." else f"{folder.rstrip('/')}/")


def _in(cwd: Path, tool_input: Mapping[str, Any]) -> str:
    return f" in {shown_path(cwd, cwd / str(tool_input['path']))}" if "path" in tool_input else ""
