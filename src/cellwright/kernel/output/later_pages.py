"""Pages that show a run and did not run its cell: the same notebook reloaded, or open elsewhere.

JupyterLab puts an output, and an update of it, only into the page that ran the cell. Every other page has a document of
its own, or edits one together with that page (jupyter-collaboration). With its own it gets what came of the run by the
widget's channel, and puts it there. In a shared one whatever two pages write stands twice, so one page writes: the one that
ran the cell, and where that has gone, one of the others, which this names.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cellwright.kernel.output.op_sender import OpSender
from cellwright.kernel.output.protocol import SavedMessage

if TYPE_CHECKING:
    from cellwright.kernel.widgets.transcript import TranscriptWidget

RETURN_SECONDS = 1.0
"""A page that only lost its connection is back by then."""

WRITE_SECONDS = 10.0
"""So long a page may take to write what it is to write; then another is asked."""


class RunPages(Protocol):
    """The pages as they are known, by the sessions of their messages."""

    def has_left(self, session: str) -> bool:
        """Return whether the front end connects its pages, and none that is there has this session."""
        ...

    def was_closed(self, session: str) -> bool:
        """Return whether a page with this session was there and is no more."""
        ...

    def shared_notebook(self, session: str) -> Path | None:
        """The notebook that the page edits together with others; None where its document is its own."""
        ...

    async def answers(self, session: str) -> bool:
        """Ask the page whether it is there; one that has never connected is taken to be."""
        ...


class LaterPages:
    """The later pages of one run; `first` names the page that runs it. Called from any thread; `loop` is the agent's."""

    def __init__(self, first: str, ops: OpSender, pages: RunPages, loop: asyncio.AbstractEventLoop) -> None:
        self._first = first
        self._pages = pages
        self._ops = ops
        self._loop = loop
        self._lock = threading.Lock()
        self._came: dict[str, None] = {}
        """All later pages, in the order in which they came."""
        self._there: set[str] = set()
        self._served = {first}
        """The pages that have what came of the run in their notebook; one that connects again needs no more."""
        self._saved: SavedMessage | None = None
        self._finished = False
        self._notebook: Path | None = None
        """The notebook that the first page shares."""
        self._writer = ""
        self._is_settling = False
        self._is_settled = False
        """A page has written what came of the run into the shared notebook."""
        self._written: asyncio.Future[None] | None = None

    def begin(self, widget: TranscriptWidget, saved: SavedMessage) -> None:
        """The run has shown itself, or more of it: a page that has read nothing of that from disk can show it, too."""
        with self._lock:
            self._saved = saved
            self._look_at_first()
            if self._there:
                self._send(widget)

    def ready(self, widget: TranscriptWidget, page: str, have: int) -> None:
        """`page` shows the transcript and holds `have` operations of it."""
        with self._lock:
            self._look_at_first()
            if self._finished and page in self._served:
                return
            if page != self._first:
                self._came[page] = None
                self._there.add(page)
            self._ops.replay(have)
            if self._saved is not None and page != self._first:
                self._send(widget)
                if self._finished:
                    self._settle_soon(widget)

    def end(self, widget: TranscriptWidget, saved: SavedMessage) -> None:
        """The run is over: take the widget away where nobody needs it, since the first page has its output."""
        with self._lock:
            self._saved = saved
            self._finished = True
            self._look_at_first()
            if self._there:
                self._settle_soon(widget)
                self._send(widget)
            # a page that is being loaded may know the widget by now, and says later that it is ready
            elif not self._pages.has_left(self._first):
                widget.leave_pages()

    def kept(self, widget: TranscriptWidget, page: str, writer: str) -> None:
        """`page` has what it was sent in the widget's place, or leaves that to `writer`, who was named with it."""
        with self._lock:
            if page == writer == self._writer and self._written is not None:
                self._tell_written(self._written)
            if not self._finished or page not in self._there:
                return
            self._there.remove(page)
            self._served.add(page)
            self._leave_if_served(widget)

    def _look_at_first(self) -> None:
        self._notebook = self._pages.shared_notebook(self._first) or self._notebook

    def _send(self, widget: TranscriptWidget) -> None:
        """Send what there is to keep, and who writes it where several share a notebook: nobody but the first page has to."""
        if not self._finished:
            self._writer = self._next_writer(set()) if self._pages.was_closed(self._first) else ""
        if self._saved is not None:
            widget.send({**self._saved, "writer": self._writer})

    def _next_writer(self, tried: set[str]) -> str:
        """The page that is to write into the shared notebook; "" where none of those that are left can."""
        for page in self._came:
            notebook = self._pages.shared_notebook(page)
            if page not in tried and notebook is not None and self._notebook in (None, notebook):
                return page
        return ""

    def _settle_soon(self, widget: TranscriptWidget) -> None:
        if self._is_settled or self._is_settling or not self._next_writer(set()):
            return
        self._is_settling, self._writer = True, ""
        # the loop is closed when the extension was unloaded while a page still shows the widget
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._settle(widget), self._loop)

    async def _settle(self, widget: TranscriptWidget) -> None:
        """See to it that one page writes what came of the run into the notebook that several share."""
        try:
            self._is_settled = await self._first_is_there() or await self._another_writes(widget)
        finally:
            with self._lock:
                self._is_settling = False
                self._leave_if_served(widget)

    async def _first_is_there(self) -> bool:
        # what it answers comes after what it was sent before: it has the output by then
        if await self._pages.answers(self._first):
            return True
        await asyncio.sleep(RETURN_SECONDS)
        return await self._pages.answers(self._first)

    async def _another_writes(self, widget: TranscriptWidget) -> bool:
        tried: set[str] = set()
        while writer := self._next_writer(tried):
            tried.add(writer)
            with self._lock:
                self._written = self._loop.create_future()
                self._writer = writer
                self._send(widget)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._written, WRITE_SECONDS)
                return True
        return False

    def _tell_written(self, written: asyncio.Future[None]) -> None:
        def tell() -> None:
            if not written.done():
                written.set_result(None)

        self._loop.call_soon_threadsafe(tell)

    def _leave_if_served(self, widget: TranscriptWidget) -> None:
        if self._finished and not self._there and not self._is_settling:
            widget.leave_pages()
