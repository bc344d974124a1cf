"""Notebooks whose cells are kept before they change: the same notebooks, for whoever works on them in a turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cellwright.checkpoints.journal import UNKNOWN, Json
from cellwright.checkpoints.turn_recorder import TurnRecorder
from cellwright.errors import ToolError
from cellwright.tools.notebook.open_notebook import (
    Cell,
    CellChange,
    ChangedCell,
    DrawnOutput,
    Insert,
    KernelRemarks,
    Move,
    OpenNotebook,
    OpenNotebooks,
    Output,
    OutputPlace,
    cell_name,
)

CurrentTurn = Callable[[], TurnRecorder | None]


class RecordedNotebooks:
    """`OpenNotebooks` that keeps the cells of each that it gives."""

    def __init__(self, notebooks: OpenNotebooks, turn: CurrentTurn) -> None:
        self._notebooks = notebooks
        self._turn = turn

    def own(self) -> OpenNotebook | None:
        return self._recorded(self._notebooks.own())

    def at(self, path: Path) -> OpenNotebook | None:
        return self._recorded(self._notebooks.at(path))

    def refusal(self, path: Path) -> str:
        return self._notebooks.refusal(path)

    def remarks(self, cells: Sequence[Cell]) -> KernelRemarks:
        return self._notebooks.remarks(cells)

    async def settled(self) -> None:
        await self._notebooks.settled()

    async def displayed(self, keys: Sequence[str]) -> list[DrawnOutput]:
        return await self._notebooks.displayed(keys)

    def _recorded(self, notebook: OpenNotebook | None) -> OpenNotebook | None:
        return None if notebook is None else RecordedNotebook(notebook, self._turn)


class RecordedNotebook:
    """An `OpenNotebook` that keeps its cells before they change. Outputs alone are not kept: a run gives them anew."""

    def __init__(self, notebook: OpenNotebook, turn: CurrentTurn) -> None:
        self._notebook = notebook
        self._turn = turn

    @property
    def path(self) -> Path:
        return self._notebook.path

    @property
    def live(self) -> bool:
        return self._notebook.live

    @property
    def where(self) -> str:
        return self._notebook.where

    async def cells(self, *, outputs: bool = True) -> list[Cell]:
        return await self._notebook.cells(outputs=outputs)

    async def change(self, changes: Sequence[CellChange]) -> list[ChangedCell]:
        turn = self._turn()
        if turn is None:
            return await self._notebook.change(changes)
        named = {change.cell_id for change in changes if not isinstance(change, Insert)}
        cells = await self._notebook.cells() if named else []
        before = _before(turn, self.path, cells, named)
        await asyncio.to_thread(turn.write_cells, *before)
        try:
            done = await self._notebook.change(changes)
        except ToolError:
            unchanged = [{**line, "after": line["before"], "after_source": line["before_source"]} for line in before]
            await asyncio.to_thread(turn.write_cells, *unchanged)
            raise
        await asyncio.to_thread(turn.write_cells, *_after(turn, self.path, done))
        return done

    async def pictures(self, places: Sequence[OutputPlace]) -> list[DrawnOutput]:
        return await self._notebook.pictures(places)

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
        await self._notebook.put_outputs(
            cell_id,
            expect=expect,
            outputs=outputs,
            execution_count=execution_count,
            clear=clear,
            running=running,
        )


def cell_data(cell: Cell) -> bytes:
    """A cell as it is kept."""
    data = {
        "cell_type": cell.cell_type,
        "source": cell.source,
        "execution_count": cell.execution_count,
        "outputs": [dict(output) for output in cell.outputs],
        "metadata": dict(cell.metadata),
        "attachments": dict(cell.attachments),
    }
    return json.dumps(data, sort_keys=True).encode()


def _before(turn: TurnRecorder, notebook: Path, cells: Sequence[Cell], named: set[str]) -> list[Json]:
    """The lines for cells that are about to change."""
    lines: list[Json] = []
    for cell in cells:
        if cell.id in named:
            anchor_id = cells[cell.position - 1].id if cell.position else ""
            line = _line(turn, notebook, cell.id, cell, None, anchor_id=anchor_id, after=UNKNOWN)
            known = turn.turn.cells.get((notebook, cell.id))
            if known is not None and cell.sha256 not in (known.before_source, *known.left):
                line["anew"] = True  # somebody else changed it between two changes of the turn
            lines.append(line)
    return lines


def _after(turn: TurnRecorder, notebook: Path, done: Sequence[ChangedCell]) -> list[Json]:
    """The lines for cells that were changed: the last of each says what it is now."""
    last = {change.id: change for change in done}
    first = {change.id: change for change in reversed(done)}
    moved = {change.id for change in done if isinstance(change.change, Move)}
    lines = [_line(turn, notebook, name, first[name].before, last[name].after) for name in last]
    return [{**line, "moved": True} if line["cell"] in moved else line for line in lines]


def _line(
    turn: TurnRecorder,
    notebook: Path,
    name: str,
    before: Cell | None,
    now: Cell | None,
    *,
    anchor_id: str = "",
    after: str | None = None,
) -> dict[str, Any]:
    line: dict[str, Any] = {"cell": name, "notebook": str(notebook), "before": None, "after": after, "kept": True}
    for cell, when in ((before, "before"), (now, "after")):
        if cell is None:
            continue
        what = f"{cell_name(cell.position, cell.execution_count, cell.source)} in {notebook}"
        line[when], is_kept = turn.keep(cell_data(cell), what)
        if when == "before":
            line["kept"] = is_kept
    sources = {
        "before_source": None if before is None else before.sha256,
        "after_source": None if now is None else now.sha256,
    }
    return {**line, **sources, "beside": anchor_id}
