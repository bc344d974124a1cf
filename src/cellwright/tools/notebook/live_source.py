"""A live notebook as the tools that read files take it: the bytes that its file would have."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from cellwright.agent.tool import Content
from cellwright.tools.notebook.notebook_source import NotebookSource, open_notebook
from cellwright.tools.notebook.open_notebook import Cell, OpenNotebook


def live_source(cells: Sequence[Cell]) -> NotebookSource:
    """The cells, to be shown as those of a file are."""
    data = notebook_bytes(cells, outputs=True)
    return open_notebook(io.BytesIO(data), len(data), lambda: False)


def live_note(notebook: OpenNotebook) -> str:
    """Tell the model what it has to know of a notebook that is not read from a file here."""
    if not notebook.live:
        return f"[This is what {notebook.where} holds. Nobody has it open.]"
    return f"[Open in {notebook.where}: this is what the user sees there, unsaved changes included.]"


def with_note(content: Content, note: str) -> Content:
    """`content` and, behind it, `note`."""
    return f"{content}\n{note}" if isinstance(content, str) else [*content, {"type": "text", "text": note}]


def notebook_bytes(cells: Sequence[Cell], *, outputs: bool) -> bytes:
    """The cells as a notebook file would hold them."""
    content = {
        "cells": [_cell_json(cell, outputs=outputs) for cell in cells],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _cell_json(cell: Cell, *, outputs: bool) -> dict[str, Any]:
    value = {"id": cell.id, "cell_type": cell.cell_type, "metadata": dict(cell.metadata), "source": cell.source}
    if cell.cell_type == "code":
        shown = [dict(output) for output in cell.outputs] if outputs else []
        return {**value, "execution_count": cell.execution_count, "outputs": shown}
    return {**value, "attachments": dict(cell.attachments)} if cell.attachments else value
