"""The tools for files: Read, and with it those that change what was read. What they may touch is decided before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Content, Tool, ToolContext, ToolLimits
from cellwright.tools.files.changes import in_thread
from cellwright.tools.files.edit import editing_tools
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebooks
from cellwright.tools.paths import file_errors, not_found, real_path, resolve_path, shown_path
from cellwright.tools.read_limits import MOST_CHARS, read_limits
from cellwright.tools.reading import LINE_CHARS, Wanted, is_small_text, read_file, read_live
from cellwright.tools.schema import FILE_PATH, object_schema

INLINE_BYTES = 256 * 1024
"""A smaller file is read on the event loop: it takes less time than the way to a thread and back."""

READ_DESCRIPTION = """\
Read a file. Text comes with line numbers (6 columns, a tab, then the line as it is in the file); images come as images, \
PDFs as pages, notebooks (.ipynb) as cells with their ids, sources and outputs (of one that is open: as the user sees it).
- One result holds about 25,000 tokens. When there is more it ends with [PARTIAL: …], which says how to go on. The end of \
a log of any size is read with a negative offset.
- Read a file before you change it with Edit, Write or NotebookEdit. Write needs all of it to have been read.
- For a directory use LS or Glob; to find something in many or large files use Grep. Read several files at once."""

READ_FIELDS: dict[str, Any] = {
    "file_path": FILE_PATH,
    "offset": {
        "type": "integer",
        "description": "The first line to read, counted from 1 (of a notebook: the first cell); negative: from the end, "
        "-100 for the last 100. Only for what is too large to read at once.",
    },
    "limit": {
        "type": "integer",
        "minimum": 1,
        "description": "How many lines (of a notebook: cells) to read. Leave it out to read all that fits.",
    },
    "pages": {
        "type": "string",
        "minLength": 1,
        "description": 'Of a PDF: the pages to read, "3" or "1-5"; at most 20 a call. Needed for more than 10 pages.',
    },
    "allow_large": {
        "type": "boolean",
        "default": False,
        "description": "Let one result hold about 100,000 tokens, and lines of any length. Only where all is needed.",
    },
}

READ_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"file_path": "src/app.py"},
    {"file_path": "server.log", "offset": -200},
    {"file_path": "paper.pdf", "pages": "3-7"},
)


def file_tools(state: FileState, cwd: Path, notebooks: OpenNotebooks | None = None) -> list[Tool]:
    """Read and what changes files. `state` is the session's memory of files; relative paths start at `cwd`.

    `notebooks` are those that are open; None: there are none.
    """
    return [_read_tool(state, cwd, notebooks or NothingOpen()), *editing_tools(state, cwd)]


def _read_tool(state: FileState, cwd: Path, notebooks: OpenNotebooks) -> Tool:
    async def read(tool_input: dict[str, Any], ctx: ToolContext) -> Content:
        path = resolve_path(cwd, tool_input["file_path"])
        shown = shown_path(cwd, path)
        limits = read_limits(os.environ, large=bool(tool_input.get("allow_large", False)))
        limit = int(tool_input["limit"]) if "limit" in tool_input else None
        wanted = Wanted(int(tool_input.get("offset", 1)), limit, tool_input.get("pages"), limits)
        if path.suffix.lower() == ".ipynb":
            await notebooks.settled()
            if (notebook := notebooks.at(real_path(path))) is not None:
                cells = await notebook.cells()
                return await in_thread(lambda _: read_live(notebook, cells, shown, wanted, state))
        with file_errors(shown):
            try:
                inline = is_small_text(path, shown, INLINE_BYTES)
            except FileNotFoundError:
                raise not_found(path, shown) from None
            if inline:
                return read_file(path, shown, wanted, state, lambda: False)
            return await in_thread(lambda stopped: read_file(path, shown, wanted, state, stopped))

    def title(tool_input: Mapping[str, Any]) -> str:
        return f"Read {_shown(cwd, tool_input)}{_range(tool_input)}"

    return Tool(
        name="Read",
        description=READ_DESCRIPTION,
        input_schema=object_schema(READ_FIELDS, required=["file_path"]),
        input_examples=READ_EXAMPLES,
        call=read,
        read_only=True,
        rule_key="file_path",
        category="files",
        # the tool keeps its own, narrower limit, which the environment and allow_large move
        limits=ToolLimits(seconds=30, result_chars=MOST_CHARS + LINE_CHARS),
        title=title,
    )


def _shown(cwd: Path, tool_input: Mapping[str, Any]) -> str:
    return shown_path(cwd, cwd / str(tool_input["file_path"]))


def _range(tool_input: Mapping[str, Any]) -> str:
    """`:first-last` as far as the input says."""
    if "pages" in tool_input:
        return f", pages {tool_input['pages']}"
    if "offset" not in tool_input and "limit" not in tool_input:
        return ""
    first = int(tool_input.get("offset", 1))
    if first < 0:
        return f", {min(-first, int(tool_input.get('limit', -first)))} of the last {-first} lines"
    first = max(first, 1)
    return f":{first}-{first + int(tool_input['limit']) - 1 if 'limit' in tool_input else ''}"
