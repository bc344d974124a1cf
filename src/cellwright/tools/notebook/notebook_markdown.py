"""A notebook as one Markdown text, for programs that read it as a document (a resource of our MCP server)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.markdown.escaping import fenced
from cellwright.text import counted
from cellwright.tools.inputs import NotebookPath
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell
from cellwright.tools.paths import not_found, real_path, resolve_path, shown_path

OUTPUT_CHARS = 2_000
"""Of one output."""

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class NotebookMarkdownInput(ToolInput):
    """The notebook to show."""

    notebook_path: NotebookPath


def notebook_markdown_tool(cwd: Path) -> Tool:
    """A tool that gives a notebook file's cells and the text of their outputs as Markdown; relative paths start at `cwd`."""

    # rules, hooks and the log know it as what it is; the category has secrets looked for in all of the text, since
    # nobody edits cells by it
    @tool(
        name="NotebookRead",
        description="Show a notebook as Markdown.",
        access=ToolAccess("read", "notebook_path"),
        read_only=True,
        category="kernel",
    )
    async def notebook_markdown(given: NotebookMarkdownInput) -> ToolResult:
        path = real_path(resolve_path(cwd, given.notebook_path))
        shown = shown_path(cwd, path)
        if path.suffix.lower() != ".ipynb":
            raise ToolError(f"{shown} is not a notebook (.ipynb).", code=ErrorCode.FILE_PATH_INVALID)
        if not path.is_file():
            raise not_found(path, shown)
        return ToolResult(markdown_of(await FileNotebook(path).cells()))

    return notebook_markdown


def markdown_of(cells: Iterable[Cell]) -> str:
    """Cells as Markdown: text as it is, code and the text of outputs in blocks that nothing in them can end.

    >>> print(markdown_of([Cell(id="a", cell_type="code", source="1 + 1", position=0)]))
    ```python
    1 + 1
    ```
    """
    parts = [part for cell in cells for part in _parts(cell)]
    return "\n\n".join(parts) or "(a notebook without cells)"


def _parts(cell: Cell) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield fenced(cell.source, "python" if cell.cell_type == "code" else "text")
    for output in cell.outputs:
        if text := _output_text(output).strip():
            cut = len(text) - OUTPUT_CHARS
            yield fenced(f"{text[:OUTPUT_CHARS]}\n[… {cut:,} more characters]" if cut > 0 else text, "text")


def _output_text(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return _plain(output.get("text"))
        case "error":
            return f"{_plain(output.get('ename'))}: {_plain(output.get('evalue'))}"
        case _:
            data = output.get("data")
            data = data if isinstance(data, Mapping) else {}
            images = sum(str(kind).startswith("image/") for kind in data)
            note = f"\n[{counted(images, 'image')} not shown]" if images else ""
            return f"{_plain(data.get('text/plain'))}{note}"


def _plain(text: Any) -> str:
    joined = "".join(map(str, text)) if isinstance(text, list) else str(text or "")
    return _TERMINAL_CODES.sub("", joined)
