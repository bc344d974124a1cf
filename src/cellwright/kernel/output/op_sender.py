"""Sending a run's operations to the pages that show its cell: the one that runs it, and those that come later.

A kernel message costs some 80 µs and an envelope of half a kilobyte, so what comes in quick succession goes out
together: at once after a pause, then at most 20 messages a second, only what is new. A page that says that it is there
is sent whatever it lacks, also what went out before it could hear: so a flood waits for that, for a moment. What no
widget shows is drawn anew from time to time.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable

from cellwright.kernel.output.op_log import OpLog, OpReader, chars_of
from cellwright.kernel.output.protocol import Op, OpsMessage

Send = Callable[[OpsMessage], None]

CHARS_BEFORE_FIRST_PAGE = 8_000
"""The first words, which do not wait for a page; they may be sent twice."""

SECONDS_FOR_FIRST_PAGE = 0.5
"""For the cell's page to say that it is there; one that cannot while its cell runs is not kept waiting for long."""

SECONDS_FOR_SENDING = 0.0001
"""Left to ipykernel's thread that sends: while this one works on, it would wait 5 ms (`sys.getswitchinterval`)."""

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
            if self._chars_before_page > CHARS_BEFORE_FIRST_PAGE:
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
        time.sleep(SECONDS_FOR_SENDING)


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
