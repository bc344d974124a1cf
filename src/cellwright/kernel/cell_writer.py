"""The outputs of a running cell, on their way into its notebook: a few times a second, and at last its execution count."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from cellwright.agent.tool import ToolError
from cellwright.kernel.cells.cell_outputs import CellOutputs, News
from cellwright.tools.notebook.open_notebook import Cell, CellConflict, OpenNotebook

PUT_SECONDS = 0.1
"""News are collected this long; large outputs longer, as long as it takes to send them again."""

FILE_SECONDS = 2.0
"""The same where nobody looks on."""

BYTES_A_SECOND = 2_000_000


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
    _over: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _following: asyncio.Task[None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.outputs = CellOutputs(asyncio.get_running_loop(), self._changed.set, self.older)

    async def start(self) -> None:
        """Take away the outputs of the run before, and show that the cell runs. Raises CellConflict."""
        try:
            await self._put(self.outputs.news(), running=True)
        except CellConflict:
            raise
        except ToolError as error:
            self._failed(error)
        self._following = asyncio.create_task(self._follow())

    async def finish(self) -> None:
        """The code is at its end: write what is left, and the execution count. A cell that never began is as before."""
        self._over.set()
        self._changed.set()
        if self._following is not None:
            await self._following
        count = self.outputs.execution_count
        if count is not None:
            await self._tried(self._put(self.outputs.news(), count))
        else:
            await self._tried(self._put(News(self.cell.outputs, clear=True), self.cell.execution_count))

    async def refresh(self) -> None:
        """Write what came after its end: what later cells changed in its displays, what did not arrive before."""
        if (news := self.outputs.news()) and self.outputs.execution_count is not None:
            await self._tried(self._put(news, self.outputs.execution_count))

    @property
    def may_arrive(self) -> bool:
        """Whether the outputs did not get there, and may yet: a page that was reloaded comes back."""
        return bool(self.problem) and not self._changed_meanwhile

    async def _follow(self) -> None:
        while not self._over.is_set():
            await self._changed.wait()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._pause)
            if news := self.outputs.news():
                await self._tried(self._put(news, running=True))

    @property
    def _pause(self) -> float:
        return (PUT_SECONDS if self.notebook.live else FILE_SECONDS) + self.outputs.size / BYTES_A_SECOND

    async def _put(self, news: News, execution_count: int | None = None, *, running: bool = False) -> None:
        await self.notebook.put_outputs(
            self.cell.id,
            expect=self.cell.sha256,
            outputs=news.outputs,
            execution_count=execution_count,
            clear=news.clear,
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
