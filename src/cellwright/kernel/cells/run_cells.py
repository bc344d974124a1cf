"""Cells run one after another until one fails: their outputs into the notebook, and an account of it for Claude.

The outputs of a running cell are written into its notebook a few times a second, and at last its execution count.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct, structs

from cellwright.agent.tool import Content
from cellwright.errors import ToolError
from cellwright.kernel.cells.cell_outputs import CellOutputs, OutputChanges
from cellwright.kernel.execute.captured_output import (
    ESCAPE_SEQUENCE,
    MAX_IMAGES,
    BoundedPieces,
    Display,
    content_of,
)
from cellwright.kernel.execute.output_limits import HEAD_CHARS, TAIL_CHARS
from cellwright.text import counted
from cellwright.tools.notebook.notebook_page import pictures_of
from cellwright.tools.notebook.open_notebook import Cell, CellConflict, DrawnOutput, OpenNotebook


@dataclass
class CellWriter:
    """Writes the outputs of one run of `cell`, from `start` to `finish`, as long as the cell holds the source that ran.

    `older` are the outputs of the cells that ran before it in the same call. `problem` says why the notebook does not have
    the outputs; empty: it has them.
    """

    notebook: OpenNotebook
    cell: Cell
    older: Sequence[CellOutputs] = ()
    outputs: CellOutputs = field(init=False)
    problem: str = field(default="", init=False)
    _changed_meanwhile: bool = field(default=False, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _finished: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _following: asyncio.Task[None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.outputs = CellOutputs(asyncio.get_running_loop(), self._changed.set, self.older)

    async def start(self) -> None:
        """Take away the outputs of the run before, and show that the cell runs. Raises CellConflict."""
        try:
            await self._put(self.outputs.unsent_changes(), running=True)
        except CellConflict:
            raise
        except ToolError as error:
            self._failed(error)
        self._following = asyncio.create_task(self._follow())

    async def finish(self) -> None:
        """The code is at its end: write what is left, and the execution count. A cell that never began is as before."""
        self._finished.set()
        self._changed.set()
        if self._following is not None:
            await self._following
        count = self.outputs.execution_count
        if count is not None:
            await self._tried(self._put(self.outputs.unsent_changes(), count))
        else:
            await self._tried(self._put(OutputChanges(self.cell.outputs, clear=True), self.cell.execution_count))

    async def refresh(self) -> None:
        """Write what came after its end: what later cells changed in its displays, what did not arrive before."""
        if (unsent_changes := self.outputs.unsent_changes()) and self.outputs.execution_count is not None:
            await self._tried(self._put(unsent_changes, self.outputs.execution_count))

    @property
    def may_arrive(self) -> bool:
        """True when the outputs did not get there, and may yet: a page that was reloaded comes back."""
        return bool(self.problem) and not self._changed_meanwhile

    async def _follow(self) -> None:
        while not self._finished.is_set():
            await self._changed.wait()
            self._changed.clear()
            # news are collected, longer where nobody looks on; large outputs as long as it takes to send them again
            pause = (0.1 if self.notebook.live else 2.0) + self.outputs.size / 2_000_000
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._finished.wait(), pause)
            if unsent_changes := self.outputs.unsent_changes():
                await self._tried(self._put(unsent_changes, running=True))

    async def _put(
        self, unsent_changes: OutputChanges, execution_count: int | None = None, *, running: bool = False
    ) -> None:
        await self.notebook.put_outputs(
            self.cell.id,
            expect=self.cell.sha256,
            outputs=unsent_changes.outputs,
            execution_count=execution_count,
            clear=unsent_changes.clear,
            running=running,
        )

    async def _tried(self, putting: Coroutine[Any, Any, None]) -> None:
        if self._changed_meanwhile:
            putting.close()
            return
        try:
            await putting
        except CellConflict:
            self._changed_meanwhile = True
            self.problem = "the cell was changed while it ran"
        except ToolError as error:
            self._failed(error)
        else:
            self.problem = ""

    def _failed(self, error: ToolError) -> None:
        """A page may have been reloaded: when it is there again, it needs all of it."""
        self.problem = error.message
        self.outputs.send_again()


GOES_ON_TAG = "raises-exception"
"""Jupyter's own tag for a cell that may fail without ending the run of those below."""

Status = Literal["ok", "failed", "interrupted", "changed"]


class CellRunStatus(Struct):
    """One cell of the run. `status` is None while it runs; "changed" did not run, because somebody changed it.

    `pictures` are those of outputs that only a page draws, by their numbers.
    """

    cell: Cell
    writer: CellWriter
    status: Status | None = None
    seconds: float = 0.0
    pictures: Mapping[int, DrawnOutput] = {}

    @property
    def execution_count(self) -> int | None:
        return self.writer.outputs.execution_count


@dataclass
class CellsRun:
    """The run of `cells`, whose code `run_code(source, output=…, cell_id=…)` runs: it says whether it failed."""

    notebook: OpenNotebook
    cells: Sequence[Cell]
    run_code: Callable[..., Awaitable[bool]]
    progress: Callable[..., None]
    runs: list[CellRunStatus] = field(default_factory=list, init=False)

    async def run(self) -> None:
        """Run the cells until one fails. What ran is written into the notebook also when this is cancelled."""
        for index, cell in enumerate(self.cells):
            self.progress(
                message=f"Cell {cell.position + 1} ({index + 1} of {len(self.cells)})", fraction=index / len(self.cells)
            )
            older = [each.writer.outputs for each in self.runs]
            run = CellRunStatus(cell, CellWriter(self.notebook, cell, older))
            self.runs.append(run)
            await self._run_one(run)
            for each in self.runs[:-1]:
                await each.writer.refresh()
            if run.status != "ok" and not (run.status == "failed" and _may_fail(cell)):
                return

    async def deliver(self) -> None:
        """Give a page that went away meanwhile a moment to come back for the outputs."""
        # the longest time a page takes to be loaded again
        deadline = asyncio.get_running_loop().time() + 10.0
        while any(run.writer.may_arrive for run in self.runs) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.25)
            for run in self.runs:
                if run.writer.may_arrive:
                    await run.writer.refresh()

    async def draw(self) -> None:
        """Ask the page that shows the notebook for pictures of what only a page draws."""
        by_id = {run.cell.id: run for run in self.runs if run.status != "changed" and not run.writer.problem}
        cells = [structs.replace(run.cell, outputs=run.writer.outputs.outputs()) for run in by_id.values()]
        found: dict[str, dict[int, DrawnOutput]] = {}
        for picture in await pictures_of(self.notebook, cells):
            found.setdefault(picture.place.cell_id, {})[picture.place.index] = picture.drawn
        for cell_id, pictures in found.items():
            by_id[cell_id].pictures = pictures

    async def _run_one(self, run: CellRunStatus) -> None:
        try:
            await run.writer.start()
        except CellConflict:
            run.status = "changed"
            return
        started = time.perf_counter()
        try:
            failed = await self.run_code(run.cell.source, output=run.writer.outputs, cell_id=run.cell.id)
            run.status = "failed" if failed else "ok"
        except asyncio.CancelledError:
            run.status = "interrupted"
            raise
        finally:
            run.seconds = time.perf_counter() - started
            with contextlib.suppress(TimeoutError):
                # the time it may take to write what is left when a cell is at its end
                async with asyncio.timeout(30.0):
                    await run.writer.finish()

    @property
    def failed(self) -> bool:
        """True when something is not as it should be."""
        return any(run.status != "ok" and not (run.status == "failed" and _may_fail(run.cell)) for run in self.runs)

    def content(self) -> Content:
        """Describe for Claude what ran and what it gave; to be called when the run is over."""
        return content_of(self._pieces())

    def text(self) -> str:
        """The same without pictures."""
        return ESCAPE_SEQUENCE.sub(
            "", "".join(piece if isinstance(piece, str) else "[picture]\n" for piece in self._pieces())
        ).strip("\n")

    def states(self) -> list[dict[str, Any]]:
        """The cells for programs: which ran, with what count, how long, and how it ended."""
        ran = [
            {
                "id": run.cell.id,
                "number": run.cell.position + 1,
                "execution_count": run.execution_count,
                "status": run.status,
                "seconds": round(run.seconds, 3),
            }
            for run in self.runs
        ]
        rest = [{"id": cell.id, "number": cell.position + 1, "status": "not run"} for cell in self._not_run()]
        return [*ran, *rest]

    def _pieces(self) -> list[str | Display]:
        # the least number of characters that Claude gets of each cell's output
        share = max(2_000, (HEAD_CHARS + TAIL_CHARS) // max(1, len(self.runs)))
        pieces: list[str | Display] = []
        for run in self.runs:
            if run.status != "changed":
                pieces += _of_cell(run, share)
        pieces += [f"{note}\n" for note in self._notes()]
        return _few_images(pieces)

    def _notes(self) -> Iterator[str]:
        for run in self.runs:
            if run.status == "changed":
                yield f"[Cell {run.cell.id} was changed while the cells before it ran, so it did not run. Read it again.]"
            elif run.writer.problem:
                yield f"[The outputs of cell {run.cell.id} are not in the notebook: {run.writer.problem}]"
            elif run.status == "failed":
                goes_on = ", which its tag raises-exception allows" if _may_fail(run.cell) else ""
                yield f"[Cell {run.cell.id} failed{goes_on}.]"
        if left := self._not_run():
            ids = ", ".join(cell.id for cell in left)
            yield f"[{counted(len(left), 'cell')} did not run: {ids}]"
        if not self.notebook.live:
            yield f"[The outputs were written to {self.notebook.where}: the notebook is not open here.]"

    def _not_run(self) -> Sequence[Cell]:
        return self.cells[len(self.runs) :]


def _of_cell(run: CellRunStatus, share: int) -> Iterator[str | Display]:
    count = "" if run.execution_count is None else f' execution_count="{run.execution_count}"'
    yield f'<cell id="{run.cell.id}" number="{run.cell.position + 1}"{count} seconds="{run.seconds:.1f}">\n'
    kept = BoundedPieces(
        share * HEAD_CHARS // (HEAD_CHARS + TAIL_CHARS), share * TAIL_CHARS // (HEAD_CHARS + TAIL_CHARS)
    )
    for piece in run.writer.outputs.pieces(run.pictures):
        kept.add(piece)
    last = "\n"
    for kept_piece in kept.pieces():
        yield kept_piece
        last = kept_piece if isinstance(kept_piece, str) else "\n"
    yield "</cell>\n" if last.endswith("\n") else "\n</cell>\n"


def _few_images(pieces: Sequence[str | Display]) -> list[str | Display]:
    """No more images than one call may give back; the rest are counted."""
    shown: list[str | Display] = []
    images = 0
    for piece in pieces:
        if isinstance(piece, Display) and piece.image_type:
            images += 1
            if images > MAX_IMAGES:
                shown.append(f"[picture {images} left out: one call gives back at most {MAX_IMAGES}]\n")
                continue
        shown.append(piece)
    return shown


def _may_fail(cell: Cell) -> bool:
    tags = cell.metadata.get("tags")
    return isinstance(tags, list) and GOES_ON_TAG in tags
