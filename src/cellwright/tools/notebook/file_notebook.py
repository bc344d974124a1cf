"""A notebook that nobody has open: read and changed in its file, every byte outside the changed cells kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.atomic_write import write_atomically
from cellwright.tools.files.changes import in_thread
from cellwright.tools.files.encodings import Encoding, NotText
from cellwright.tools.files.file_state import keep_original, sha256
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.files.text import read_bytes
from cellwright.tools.notebook.notebook_json import InsertIndex, Notebook, as_utf_8, on_disk_bytes, parse_notebook
from cellwright.tools.notebook.notebook_source import NotANotebook, added_outputs, joined_output, written_outputs
from cellwright.tools.notebook.open_notebook import (
    Cell,
    CellChange,
    CellConflict,
    ChangedCell,
    Conflict,
    Delete,
    DrawnOutput,
    Insert,
    Move,
    Output,
    OutputPlace,
    Replace,
)
from cellwright.tools.notebook.open_notebook import CellPosition as Where
from cellwright.tools.paths import file_errors, real_path

NOTEBOOK_BYTES = 160 * 2**20


class FileNotebook:
    """An `OpenNotebook` on disk."""

    live = False
    where = "the file"

    def __init__(self, path: Path) -> None:
        self._path = real_path(path)

    @property
    def path(self) -> Path:
        return self._path

    async def cells(self, *, outputs: bool = True) -> list[Cell]:
        def work(_: Callable[[], bool]) -> list[Cell]:
            notebook = self._read()[0]
            return [_cell(notebook, position, outputs=outputs) for position in range(len(notebook.heads))]

        return await in_thread(work)

    async def change(self, changes: Sequence[CellChange]) -> list[ChangedCell]:
        return await in_thread(lambda stopped: self._change(changes, stopped))

    async def pictures(self, places: Sequence[OutputPlace]) -> list[DrawnOutput]:
        return [DrawnOutput(problem="no page shows this notebook")] * len(places)

    async def put_outputs(
        self,
        cell_id: str,
        *,
        expect: str | None,
        outputs: Sequence[Output],
        execution_count: int | None = None,
        clear: bool = False,
        running: bool = False,
    ) -> None:
        def work(stopped: Callable[[], bool]) -> None:
            notebook, data, encoding, status = self._read()
            position = notebook.find(cell_id)
            cell = _cell(notebook, position, outputs=True)
            if cell.cell_type != "code":
                raise ToolError(
                    f"Cell {cell_id} is not a code cell: it has no outputs.", code=ErrorCode.INVALID_PARAMETERS
                )
            if expect is not None:
                self._check(cell, expect)
            put = added_outputs(() if clear else cell.outputs, outputs)
            values = {"outputs": written_outputs(put), "execution_count": None if running else execution_count}
            after = notebook.with_members(position, values)
            self._write(data, after, encoding, status, stopped)

        await in_thread(work)

    def _change(self, changes: Sequence[CellChange], stopped: Callable[[], bool]) -> list[ChangedCell]:
        notebook, data, encoding, status = self._read()
        changed: list[ChangedCell] = []
        for change in changes:
            after, step = self._step(notebook, change)
            changed.append(step)
            notebook = parse_notebook(after)
        self._write(data, notebook.data, encoding, status, stopped)
        self._verify(changed, notebook)
        return changed

    def _step(self, notebook: Notebook, change: CellChange) -> tuple[bytes, ChangedCell]:
        """The bytes with one change made, and what it came to."""
        if isinstance(change, Insert):
            place = self._insert_index(notebook, change.place)
            data, position = _inserted(notebook, place, change), place.position
            return data, self._changed(data, change, position, None)
        position = notebook.find(change.cell_id)
        before = _cell(notebook, position, outputs=True)
        if isinstance(change, Move):
            place = self._insert_index(notebook, change.place)
            data = notebook.moved(position, place)
            return data, self._changed(data, change, place.position - (place.position > position), before)
        self._check(before, change.expect)
        if isinstance(change, Delete):
            gone = ChangedCell(change=change, id=before.id, position=position, before=before, after=None)
            return notebook.without(position), gone
        data = _replaced(notebook, position, change)
        return data, self._changed(data, change, position, before)

    def _changed(self, data: bytes, change: CellChange, position: int, before: Cell | None) -> ChangedCell:
        after = _cell(parse_notebook(data), position, outputs=True)
        return ChangedCell(change=change, id=after.id, position=position, before=before, after=after)

    def _insert_index(self, notebook: Notebook, place: Where) -> InsertIndex:
        if place.where in ("start", "end"):
            return notebook.end_place(start=place.where == "start")
        return notebook.place_at(notebook.find(place.anchor_id), after=place.where == "after")

    def _check(self, cell: Cell, expect: str) -> None:
        if cell.sha256 != expect:
            raise CellConflict(self._path.name, [Conflict(cell.id, expect, cell.source)])

    def _verify(self, changed: Sequence[ChangedCell], written: Notebook) -> None:
        """Raise ToolError where the file does not hold what was written to it.

        Cells without ids are named by their positions, so one that was changed early may have another name now: what
        counts is what was written under a name, not which change wrote it.
        """
        there = self._read()[0]
        positions = [{name: position for position, name in enumerate(each.ids())} for each in (there, written)]
        for cell_id in dict.fromkeys(each.id for each in changed):
            now, wanted = (
                each.text(at[cell_id]) if cell_id in at else None
                for each, at in zip((there, written), positions, strict=True)
            )
            if now != wanted:
                raise ToolError(
                    f"{self._path.name} was changed by someone else at the same time: cell {cell_id} does not hold the "
                    "written text. Read it again.",
                    code=ErrorCode.FILE_ACCESS_ERROR,
                )

    def _read(self) -> tuple[Notebook, bytes, Encoding, os.stat_result]:
        shown = self._path.name
        with file_errors(shown):
            data, status = read_bytes(self._path, shown, NOTEBOOK_BYTES, "Change it with Python (nbformat).")
        try:
            encoding, utf_8 = as_utf_8(data)
            notebook = parse_notebook(utf_8)
            if notebook.source.major == 4:
                return notebook, data, encoding, status
            problem = "it is in the format of before 2015 (nbformat 3)"
        except NotText:
            problem = "it is binary data"
        except NotANotebook as error:
            problem = str(error)
        raise ToolError(f"{shown} is not a notebook that can be used: {problem}.", code=ErrorCode.FILE_ACCESS_ERROR)

    def _write(
        self, before: bytes, utf_8: bytes, encoding: Encoding, status: os.stat_result, stopped: Callable[[], bool]
    ) -> None:
        after = on_disk_bytes(utf_8, encoding, self._path.name, before)
        if after == before:
            return
        if stopped():
            raise ToolError("Stopped before the file was written; it is unchanged.", code=ErrorCode.INTERRUPTED)
        keep_original(before, sha256(before))
        try:
            with file_errors(self._path.name):
                write_atomically(self._path, after, replacing=status)
        except FileChanged:
            raise ToolError(
                f"{self._path.name} was changed by someone else just now; nothing was written. Read it again.",
                code=ErrorCode.FILE_ACCESS_ERROR,
            ) from None


def _cell(notebook: Notebook, position: int, *, outputs: bool) -> Cell:
    head = notebook.heads[position]
    count = head.get(notebook.source.count_key)
    # an output of many megabytes is not parsed: it stays what it is in the file
    found = notebook.source.outputs(position) if outputs else ()
    return Cell(
        id=notebook.source.name(position, head),
        cell_type=notebook.kind(position),
        source=notebook.text(position),
        position=position,
        execution_count=count if isinstance(count, int) else None,
        outputs=tuple(joined_output(output) for output in found if not isinstance(output, int)),
        metadata=head.get("metadata") or {},
        attachments=head.get("attachments") or {},
    )


def _inserted(notebook: Notebook, place: InsertIndex, change: Insert) -> bytes:
    data, _ = notebook.with_cell(place, change.cell_type, change.source, requested_id=change.cell_id)
    more: dict[str, Any] = {}
    if change.metadata:
        more["metadata"] = dict(change.metadata)
    if change.attachments and change.cell_type != "code":
        more["attachments"] = dict(change.attachments)
    if change.cell_type == "code" and (change.outputs or change.execution_count is not None):
        more |= {"outputs": written_outputs(change.outputs), "execution_count": change.execution_count}
    return parse_notebook(data).with_members(place.position, more) if more else data


def _replaced(notebook: Notebook, position: int, change: Replace) -> bytes:
    old_kind, old_source = notebook.kind(position), notebook.text(position)
    kind = change.cell_type or old_kind
    source = old_source if change.source is None else change.source
    data = notebook.data
    if kind != old_kind:
        data = notebook.with_type(position, kind, source)
    elif source != old_source:
        data = notebook.with_source(position, source)
    more: dict[str, Any] = {}
    if kind == "code" and change.outputs is not None:
        more = {"outputs": written_outputs(change.outputs), "execution_count": change.execution_count}
    if kind != "code" and change.attachments is not None:
        more["attachments"] = dict(change.attachments)
    return parse_notebook(data).with_members(position, more) if more else data


def cells_of(data: bytes) -> list[Cell]:
    """The cells of a notebook's file, without outputs. Raises ValueError, KeyError, TypeError and AttributeError."""
    cells = json.loads(data).get("cells", [])
    return [
        Cell(
            id=str(cell.get("id") or f"cell-{position}"),
            cell_type=str(cell["cell_type"]),
            source=cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"]),
            position=position,
            execution_count=cell.get("execution_count"),
        )
        for position, cell in enumerate(cells)
    ]
