"""The pages that show a run: its operations are sent to the one that ran the cell, and to those that come later.

A kernel message costs some 80 µs and an envelope of half a kilobyte, so what comes in quick succession goes out
together: at once after a pause, then at most 20 messages a second, only what is new. A page that says that it is there
is sent whatever it lacks, also what went out before it could hear: so a flood waits for that, for a moment. What no
widget shows is drawn anew from time to time.

JupyterLab puts an output, and an update of it, only into the page that ran the cell. Every other page has a document of
its own, or edits one together with that page (jupyter-collaboration). With its own it gets what came of the run by the
widget's channel, and puts it there. In a shared one whatever two pages write stands twice, so one page writes: the one that
ran the cell, and where that has gone, one of the others, which this names.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cellwright.kernel.output.op_log import OpLog, OpReader, chars_of
from cellwright.kernel.output.protocol import Op, OpsMessage, SavedMessage

if TYPE_CHECKING:
    from cellwright.kernel.widgets.transcript import TranscriptWidget

Send = Callable[[OpsMessage], None]

SECONDS_FOR_FIRST_PAGE = 0.5
"""For the cell's page to say that it is there; one that cannot while its cell runs is not kept waiting for long."""

RENEW_SECONDS = 1.0
"""The time between two renewals."""


class OpSender(OpReader):
    """A receiver that sends what it gets, and keeps it for views that come later. From any thread.

    What is sent carries the context that the sender was made in: its messages belong to that cell. `seconds_for_page` is
    how long a flood waits at most for the first page.
    """

    def __init__(
        self,
        log: OpLog,
        leave_out: frozenset[str] = frozenset(),
        seconds_for_page: float = SECONDS_FOR_FIRST_PAGE,
    ) -> None:
        super().__init__(log, leave_out)
        self._lock = threading.Lock()
        self._context = contextvars.copy_context()
        self._send: Send | None = None
        self._sent = 0
        self._chars_before_page = 0
        self._seconds_for_page = seconds_for_page
        self._waits_for_page = True
        self._timer: threading.Timer | None = None
        self._closed = False
        self._leave = log.subscribe(self._on_ops)

    def follow(self, log: OpLog) -> None:
        """Go on with another log, after what came of the one before."""
        with self._lock:
            self._catch_up()
            self._leave()
            self._log, self._read = log, 0
            self._leave = log.subscribe(self._on_ops)

    def attach(self, send: Send) -> None:
        """From now on operations go to `send`; the ones that there are already go out at once."""
        with self._lock:
            self._send = send
            self._flush()

    def replay(self, have: int) -> None:
        """Send what comes after the first `have` operations, sent before or new, in one message."""
        with self._lock:
            if self._send is None:
                return
            self._stop_waiting()
            # a view that holds more than was sent belongs to a kernel that is gone: it starts over
            have = have if have <= self._sent else 0
            if not self._closed:
                self._sent += len(self.after(self._sent))
            if have < self._sent:
                self._deliver(self._send, have, self._ops[have : self._sent])

    def close(self) -> None:
        """Send what there is; nothing more is read, but views that come later still get it."""
        with self._lock:
            self._stop_waiting()
            self._flush()
            self._closed = True
            self._leave()

    def _on_ops(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._send is None or self._closed:
            return
        new = self.after(self._sent)
        if ops := self._first_words(new) if self._waits_for_page else new:
            first, self._sent = self._sent, self._sent + len(ops)
            self._deliver(self._send, first, ops)
        if len(ops) < len(new) and self._timer is None:
            self._timer = threading.Timer(self._seconds_for_page, self._send_without_page)
            self._timer.daemon = True
            self._timer.start()

    def _first_words(self, new: list[Op]) -> list[Op]:
        for at, op in enumerate(new):
            self._chars_before_page += chars_of(op)
            # the first words, which do not wait for a page; they may be sent twice
            if self._chars_before_page > 8_000:
                return new[:at]
        return new

    def _send_without_page(self) -> None:
        with self._lock:
            self._stop_waiting()
            self._flush()

    def _stop_waiting(self) -> None:
        self._waits_for_page = False
        if self._timer is not None:
            self._timer.cancel()

    def _deliver(self, send: Send, first: int, ops: list[Op]) -> None:
        message: OpsMessage = {"type": "ops", "first": first, "now": time.time(), "ops": ops}
        self._context.copy().run(send, message)
        # left to ipykernel's thread that sends: while this one works on, it would wait 5 ms (`sys.getswitchinterval`)
        time.sleep(0.0001)


class RedrawThrottle:
    """Calls `show` on `loop`, from time to time, after `soon` was called; `first` seconds pass before the first time.

    A long answer is renewed less often: it may not cost more than a tenth of the time. From any thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, show: Callable[[], None], first: float = RENEW_SECONDS) -> None:
        self._loop = loop
        self._show = show
        self._pause = first
        self._is_due = False
        self._stopped = False
        self._showing = threading.Lock()

    def soon(self) -> None:
        """Something is to be shown that is not yet."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon_threadsafe(self._loop.call_later, self._pause, self._renew)

    def now(self, show: Callable[[], None]) -> None:
        """Call `show` unless it has been stopped, and never together with another."""
        with self._showing:
            if not self._stopped:
                show()

    def stop(self) -> None:
        """Show nothing from now on; what is being shown is waited for."""
        with self._showing:
            self._stopped = True

    def _renew(self) -> None:
        self._is_due = False
        began = time.monotonic()
        self.now(self._show)
        self._pause = max(RENEW_SECONDS, 10 * (time.monotonic() - began))


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
        # a page that only lost its connection is back by then
        await asyncio.sleep(1.0)
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
                # so long a page may take to write what it is to write; then another is asked
                await asyncio.wait_for(self._written, 10.0)
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
