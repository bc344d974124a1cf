"""Cells of a notebook's JSON, as the contents manager gives and takes it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from cellwright.server.notebooks.cells import Json

FIRST_MINOR_WITH_IDS = 5


class PlainCells:
    """`Cells` in `content`, a notebook of nbformat 4, which is changed in place."""

    def __init__(self, content: Json) -> None:
        self._cells: list[Json] = content["cells"]
        self._has_ids = content.get("nbformat_minor", 0) >= FIRST_MINOR_WITH_IDS

    def names(self) -> list[str]:
        names = [str(cell.get("id", "")) if self._has_ids else "" for cell in self._cells]
        return [name or f"cell-{position}" for position, name in enumerate(names)]

    def get(self, position: int) -> Mapping[str, Any]:
        return self._cells[position]

    def is_running(self, position: int) -> bool:
        return False  # nobody runs what is in a file

    def insert(self, position: int, cell: Json) -> None:
        made = copy.deepcopy(cell)
        if not self._has_ids:
            made.pop("id", None)
        self._cells.insert(position, made)

    def delete(self, position: int) -> None:
        del self._cells[position]

    def set_source(self, position: int, source: str) -> None:
        self._cells[position]["source"] = source

    def set_outputs(self, position: int, outputs: list[Json], execution_count: int | None, *, running: bool) -> None:
        self._cells[position].update(outputs=copy.deepcopy(outputs), execution_count=execution_count)

    def set_attachments(self, position: int, attachments: Json) -> None:
        self._cells[position]["attachments"] = attachments
