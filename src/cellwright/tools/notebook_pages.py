"""A notebook as Read shows it: cells with their ids, sources and outputs, a part of it at a time."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cellwright.tools.images import MAX_SIDE_OF_MANY, UnusableImage, image_block
from cellwright.tools.notebook_json import cell_name, joined

OUTPUT_CHARS = 3_000
"""What is shown of one output; two thirds from its beginning, the rest from its end."""

IMAGES = 20
"""How many images one Read shows."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TEXT_TYPES = ("text/plain", "text/markdown", "text/latex")
TERMINAL_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

Block = dict[str, Any]


@dataclass(slots=True)
class NotebookPage:
    """Some cells as content blocks. `complete` says that nothing of cells `first` to `last` was left out."""

    total: int
    first: int
    last: int = 0
    complete: bool = True
    chars: int = 0
    images: int = 0
    blocks: list[Block] = field(default_factory=list)

    def add_text(self, text: str) -> None:
        """Text that follows text goes into the same block."""
        self.chars += len(text)
        if self.blocks and self.blocks[-1]["type"] == "text":
            self.blocks[-1]["text"] += text
        else:
            self.blocks.append({"type": "text", "text": text})

    def add_image(self, data: str, kind: str) -> None:
        """An image, or why it is not shown."""
        try:
            if self.images >= IMAGES:
                raise UnusableImage(f"only {IMAGES} images are shown at a time")
            block, _ = image_block(base64.b64decode(data), MAX_SIDE_OF_MANY)
        except (UnusableImage, binascii.Error) as error:
            self.complete = False
            self.add_text(f"[{kind} not shown: {error}]\n")
            return
        self.images += 1
        self.blocks.append(block)

    def bounded(self, text: str, limit: int = OUTPUT_CHARS) -> str:
        """`text` without its middle when it is longer than `limit`."""
        if len(text) <= limit:
            return text
        self.complete = False
        head, tail = limit * 2 // 3, limit // 3
        return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"


def notebook_page(cells: list[Mapping[str, Any]], first: int, limit: int | None, max_chars: int) -> NotebookPage:
    """Cells from number `first` (from 1) on: at most `limit`, and as many as `max_chars` hold."""
    page = NotebookPage(len(cells), first, last=first - 1)
    stop = len(cells) if limit is None else min(len(cells), first - 1 + limit)
    for number in range(first, stop + 1):
        cell = cells[number - 1]
        if page.last >= first and page.chars + len(joined(cell["source"])) > max_chars:
            break
        _add_cell(page, cell, number, max_chars)
        page.last = number
        if page.chars > max_chars:
            break
    return page


def _add_cell(page: NotebookPage, cell: Mapping[str, Any], number: int, max_chars: int) -> None:
    count = cell.get("execution_count")
    executed = f' execution_count="{count}"' if isinstance(count, int) else ""
    name = cell_name(cell, number - 1)
    page.add_text(f'<cell id="{name}" number="{number}" type="{cell["cell_type"]}"{executed}>\n')
    page.add_text(page.bounded(joined(cell["source"]), max_chars) + "\n</cell>\n")
    attachments = cell.get("attachments")
    if isinstance(attachments, dict) and attachments:
        page.add_text(f"[attachments of cell {name}: {', '.join(map(str, attachments))}]\n")
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict):
            _add_output(page, output)


def _add_output(page: NotebookPage, output: Mapping[str, Any]) -> None:
    kind = str(output.get("output_type"))
    name = f' name="{output.get("name")}"' if kind == "stream" else ""
    page.add_text(f'<output type="{kind}"{name}>\n')
    if kind == "stream":
        page.add_text(_ended(page.bounded(plain(joined(output.get("text"))))))
    elif kind == "error":
        traceback = plain("\n".join(map(str, output.get("traceback") or [])))
        page.add_text(_ended(page.bounded(traceback or f"{output.get('ename')}: {output.get('evalue')}")))
    else:
        data = output.get("data")
        _add_data(page, data if isinstance(data, dict) else {})
    page.add_text("</output>\n")


def _add_data(page: NotebookPage, data: Mapping[str, Any]) -> None:
    """The richest form that the model can read; the others are named."""
    image = next((kind for kind in IMAGE_TYPES if kind in data), None)
    text = next((kind for kind in TEXT_TYPES if joined(data.get(kind)).strip()), None)
    if image is not None:
        page.add_image(joined(data[image]), image)
    if text is not None:
        page.add_text(_ended(page.bounded(plain(joined(data[text])))))
    others = list(_others(data, {image, text}))
    if others:
        page.add_text(f"[also there: {', '.join(others)}]\n")


def _others(data: Mapping[str, Any], shown: set[str | None]) -> Iterator[str]:
    for kind, value in data.items():
        if kind not in shown:
            yield f"{kind} ({len(joined(value)):,} characters)" if joined(value) else kind


def plain(text: str) -> str:
    """`text` without the codes that colour it in a terminal."""
    return TERMINAL_CODES.sub("", text)


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"
