"""A notebook as one Markdown text and its pictures, for programs that read it as a document (resources of an MCP server)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.markdown.escaping import fenced
from cellwright.text import counted, lazy_pattern
from cellwright.tools.inputs import NotebookPath
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell
from cellwright.tools.paths import not_found, real_path, resolve_path, shown_path

OUTPUT_CHARS = 2_000
"""Of one output."""

MAX_IMAGES = 20
IMAGE_CHARS = 7_000_000
"""Of one picture in base64; larger ones are not shown."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_TERMINAL_CODES = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]")


Content = dict[str, Any]


class NotebookMarkdownInput(ToolInput):
    """The notebook to show."""

    notebook_path: NotebookPath


def notebook_markdown_tool(cwd: Path) -> Tool:
    """A tool that gives a notebook file's cells and the text of their outputs as Markdown, then the pictures that the text
    names by their numbers; relative paths start at `cwd`.
    """

    # rules, hooks and the log know it as what it is; the category has secrets looked for in all of the text, since
    # nobody edits cells by it
    @tool(
        name="NotebookRead",
        description="Show a notebook as Markdown.",
        access=ToolAccess("read", "notebook_path"),
        read_only=True,
        category="kernel",
    )
    async def notebook_markdown(input: NotebookMarkdownInput) -> ToolResult:
        path = real_path(resolve_path(cwd, input.notebook_path))
        display_path = shown_path(cwd, path)
        if path.suffix.lower() != ".ipynb":
            raise ToolError(f"{display_path} is not a notebook (.ipynb).", code=ErrorCode.FILE_PATH_INVALID)
        if not path.is_file():
            raise not_found(path, display_path)
        images: list[Content] = []
        text = markdown_of(await FileNotebook(path).cells(), images)
        return ToolResult([{"type": "text", "text": text}, *images] if images else text)

    return notebook_markdown


def markdown_of(cells: Iterable[Cell], images: list[Content] | None = None) -> str:
    """Cells as Markdown: text as it is, code and the text of outputs in blocks that nothing in them can end.

    Pictures are added to `images`, as blocks of the Messages API; the text says which are there, and how many are not.

    >>> print(markdown_of([Cell(id="a", cell_type="code", source="1 + 1", position=0)]))
    ```python
    1 + 1
    ```
    """
    parts = [part for cell in cells for part in _parts(cell, [] if images is None else images)]
    return "\n\n".join(parts) or "(a notebook without cells)"


def _parts(cell: Cell, images: list[Content]) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield fenced(cell.source, "python" if cell.cell_type == "code" else "text")
    for output in cell.outputs:
        if text := _output_text(output, images).strip():
            cut = len(text) - OUTPUT_CHARS
            yield fenced(f"{text[:OUTPUT_CHARS]}\n[… {cut:,} more characters]" if cut > 0 else text, "text")


def _output_text(output: Mapping[str, Any], images: list[Content]) -> str:
    match output.get("output_type"):
        case "stream":
            return _plain(output.get("text"))
        case "error":
            return f"{_plain(output.get('ename'))}: {_plain(output.get('evalue'))}"
        case _:
            data = output.get("data")
            data = data if isinstance(data, Mapping) else {}
            notes = "".join(f"\n{note}" for note in _image_notes(data, images))
            return f"{_plain(data.get('text/plain'))}{notes}"


def _image_notes(data: Mapping[str, Any], images: list[Content]) -> Iterator[str]:
    """Say which pictures an output has; those that can be shown are added to `images`."""
    left_out = 0
    for kind in (str(kind) for kind in data if str(kind).startswith("image/")):
        image = "".join(_joined(data[kind]).split())
        if kind in IMAGE_TYPES and len(images) < MAX_IMAGES and len(image) <= IMAGE_CHARS and _is_base64(image):
            images.append({"type": "image", "source": {"type": "base64", "media_type": kind, "data": image}})
            yield f"[image {len(images)}]"
        else:
            left_out += 1
    if left_out:
        yield f"[{counted(left_out, 'image')} not shown]"


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _plain(text: Any) -> str:
    return _TERMINAL_CODES.sub("", _joined(text))


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")
