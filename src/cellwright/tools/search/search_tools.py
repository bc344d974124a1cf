"""Glob and Grep: the tools that find files. They only read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.paths import file_errors, not_found, resolve_path, shown_path
from cellwright.tools.schema import (
    globs_field,
    in_folder,
    object_schema,
    path_field,
    timed_limits,
    timeout_field,
    timeout_of,
)
from cellwright.tools.search.glob import glob_arguments, newest_first, relative_pattern
from cellwright.tools.search.grep import HEAD_LIMIT, Grep, checked
from cellwright.tools.search.grep_output import SearchRoot
from cellwright.tools.search.ls import file_tree_tool, ls_tool
from cellwright.tools.search.ripgrep import Output, run_ripgrep, search_program

SEARCH_SECONDS = 20.0
"""How long rg may take unless the call says otherwise; what it found until then is the result."""

GLOB_FILES = 100

GLOB_DESCRIPTION = """\
Find files by name, newest first. At most 100 are listed; hidden and git-ignored files count too.
- `**/*.py`: in all folders below; `src/**/*.{ts,tsx}`: below src; a pattern without a slash (`*.toml`) matches in \
all folders. Folders themselves are not found: use LS or FileTree to see them.
- To search what is in files use Grep."""

GREP_DESCRIPTION = """\
Search the content of files with ripgrep. Use this, not grep or rg in Bash.
- pattern is a regular expression in Rust's syntax; escape literal braces and parentheses: `interface\\{\\}`, `main\\(`.
- output_mode: "files_with_matches" (default) gives paths, "content" the lines, "count" the number of matching lines.
- Narrow the search with path, glob, type or ignore. Hidden files are searched, git-ignored and binary ones are not, \
unless path names the very file.
- For patterns that span lines set multiline."""


def search_tools(cwd: Path, environ: Mapping[str, str] = os.environ) -> list[Tool]:
    """Glob, Grep, LS and FileTree. Relative paths start at `cwd`, and so do the paths in results.

    `environ` has the switches of Glob (CLAUDE_CODE_GLOB_…).
    """
    return [_glob_tool(cwd, environ), _grep_tool(cwd), ls_tool(cwd), file_tree_tool(cwd)]


def _glob_tool(cwd: Path, environ: Mapping[str, str]) -> Tool:
    async def glob(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        place = _place(cwd, tool_input)
        if place.target != ".":
            raise ToolError(f"{tool_input['path']} is a file, not a folder.", code=ErrorCode.FILE_PATH_INVALID)
        pattern = relative_pattern(tool_input["pattern"], place.folder)
        seconds = timeout_of(tool_input, _glob_seconds(environ))
        with glob_arguments(pattern, tool_input.get("ignore", []), environ) as (arguments, wanted):
            output = await run_ripgrep(search_program(), arguments, cwd=place.folder, separator=b"\0", seconds=seconds)
        found = list(filter(wanted, checked(output, seconds).records))
        paths = await asyncio.to_thread(newest_first, place.folder, found, GLOB_FILES)
        names = [place.shown(path) for path in paths]
        notes = _glob_notes(output, len(names), len(found))
        missing = [] if names else [f"No file matches {tool_input['pattern']}{in_folder(cwd, tool_input)}."]
        facts = {
            "filenames": names,
            "numFiles": len(names),
            "totalMatches": len(found),
            "truncated": len(found) > len(names),
            "countIsComplete": output.whole,
            "timedOut": output.timed_out,
        }
        return ToolResult("\n".join([*names, *missing, *notes]), facts)

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
                "path": path_field("The folder to search below. Leave it out for the working directory."),
                "ignore": globs_field("Files and folders to leave out: `node_modules`, `*.min.js`."),
                "timeout_seconds": timeout_field(SEARCH_SECONDS),
            },
            required=["pattern"],
        ),
        call=glob,
        read_only=True,
        rule_key="path",
        category="search",
        limits=timed_limits(results=GLOB_FILES),
        input_examples=[{"pattern": "**/*.py"}, {"pattern": "*.{ts,tsx}", "path": "web", "ignore": ["dist"]}],
        title=lambda tool_input: f"Glob {tool_input['pattern']}{in_folder(cwd, tool_input)}",
    )


def _glob_notes(output: Output, shown: int, found: int) -> list[str]:
    if not output.whole:
        return [f"[Stopped early: there may be more than these {found:,} files. Narrow the search.]"]
    if found > shown:
        return [f"[The {shown} newest of {found:,} files. Narrow the pattern or path for others.]"]
    return []


def _glob_seconds(environ: Mapping[str, str]) -> float:
    """The user's own default time, CLAUDE_CODE_GLOB_TIMEOUT_SECONDS; what is no number counts as not given."""
    try:
        return max(float(environ["CLAUDE_CODE_GLOB_TIMEOUT_SECONDS"]), 1.0)
    except (KeyError, ValueError):
        return SEARCH_SECONDS


def _grep_tool(cwd: Path) -> Tool:
    async def grep(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        if any("\0" in str(value) for value in tool_input.values()):
            raise ToolError("The input holds a null byte.", code=ErrorCode.INVALID_PARAMETERS)
        seconds = timeout_of(tool_input, SEARCH_SECONDS)
        return await Grep(search_program(), _place(cwd, tool_input), tool_input, seconds).answer()

    return Tool(
        name="Grep",
        description=GREP_DESCRIPTION,
        input_schema=object_schema(GREP_FIELDS, required=["pattern"]),
        call=grep,
        read_only=True,
        rule_key="path",
        category="search",
        limits=timed_limits(results=HEAD_LIMIT),
        input_examples=[
            {"pattern": r"def \w+_page\(", "type": "py"},
            {"pattern": "TODO", "path": "src", "output_mode": "content", "-C": 2, "head_limit": 50},
        ],
        title=lambda tool_input: f'Grep "{tool_input["pattern"]}"{in_folder(cwd, tool_input)}',
    )


def _lines(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": description}


def _flag(description: str, *, default: bool = False) -> dict[str, Any]:
    return {"type": "boolean", "default": default, "description": description}


GREP_FIELDS: dict[str, Any] = {
    "pattern": {"type": "string", "minLength": 1, "description": "The regular expression to search for."},
    "path": path_field("A file, or a folder to search below. Leave it out for the working directory."),
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
    "ignore": globs_field("Files and folders to leave out: `node_modules`, `*.lock`."),
    "timeout_seconds": timeout_field(SEARCH_SECONDS),
    "multiline": _flag("Let the pattern span lines, and `.` match line ends."),
}


def _place(cwd: Path, tool_input: Mapping[str, Any]) -> SearchRoot:
    """Where rg runs, and on what."""
    path = resolve_path(cwd, tool_input.get("path", "."))
    shown = shown_path(cwd, path)
    with file_errors(shown):
        if not path.exists():
            raise not_found(path, shown)
        if path.is_dir():
            return SearchRoot(path, ".", "" if shown == "." else f"{shown.rstrip('/')}/")
    folder = shown_path(cwd, path.parent)
    return SearchRoot(path.parent, path.name, "" if folder == "." else f"{folder.rstrip('/')}/")
