"""Cells of a shared document of jupyter-collaboration: whoever has the notebook open sees each change at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from cellwright.server.notebooks.cells import Json
from cellwright.tools.notebook.notebook_source import joined


class SharedCells:
    """`Cells` of a `jupyter_ydoc.YNotebook`: the document itself, not a copy. Used inside of one of its transactions."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def names(self) -> list[str]:
        return [str(cell["id"]) for cell in self._document.ycells]

    def get(self, position: int) -> Mapping[str, Any]:
        cell: Json = self._document.get_cell(position)
        # a document of an old format names no ids where it is read, yet holds some
        return {**cell, "id": str(self._document.ycells[position]["id"])}

    def is_running(self, position: int) -> bool:
        return bool(self._document.ycells[position].get("execution_state") == "running")

    def insert(self, position: int, cell: Json) -> None:
        self._document.ycells.insert(position, self._document.create_ycell(copy.deepcopy(cell)))

    def delete(self, position: int) -> None:
        del self._document.ycells[position]

    def set_source(self, position: int, source: str) -> None:
        text = self._document.ycells[position]["source"]
        start, end, new = difference(str(text), source)
        # positions in a pycrdt.Text count bytes of UTF-8
        old = str(text).encode()
        first, last = len(str(text)[:start].encode()), len(old) - len(str(text)[end:].encode())
        if last > first:
            del text[first:last]
        if new:
            text.insert(first, new)

    def set_outputs(self, position: int, outputs: list[Json], execution_count: int | None, *, running: bool) -> None:
        from pycrdt import Array  # there where there are shared documents

        cell = self._document.ycells[position]
        shared = [_shared_output(output) for output in outputs]
        if isinstance(there := cell.get("outputs"), Array):
            there.clear()
            there.extend(shared)
        else:
            cell["outputs"] = Array(shared)
        cell["execution_count"] = execution_count
        cell["execution_state"] = "running" if running else "idle"

    def set_attachments(self, position: int, attachments: Json) -> None:
        self._document.ycells[position]["attachments"] = attachments


def _shared_output(output: Json) -> Any:
    """An output as `jupyter_ydoc` keeps it: text that streams can grow in its place."""
    from pycrdt import Map, Text

    made = copy.deepcopy(output)
    if made.get("output_type") == "stream":
        made["text"] = Text(joined(made.get("text", "")))
    return Map(made)


def difference(old: str, new: str) -> tuple[int, int, str]:
    """From where to where `old` differs from `new`, and what stands there then: the rest is left to who types in it.

    >>> difference("x = 1  # one", "x = 2  # one")
    (4, 5, '2')
    """
    least = min(len(old), len(new))
    start = next((at for at in range(least) if old[at] != new[at]), least)
    tail = 0
    while tail < least - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, len(old) - tail, new[start : len(new) - tail]
