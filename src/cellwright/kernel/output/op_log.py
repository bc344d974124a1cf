"""The operations of one cell's transcript, kept for views that come later and sent to the ones that are there.

A kernel message costs some 80 µs and an envelope of half a kilobyte, so what comes in quick succession goes out
together: the first at once, then at most 30 messages a second, only what is new.

The pages that came after the one that runs the cell: the same notebook reloaded, or open in a second tab.

JupyterLab puts an update of an output only into the page that ran the cell, which alone knows the display's id. Every
other page shows what was displayed first, and saves it: so these get what came of the run by the widget's own channel.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cellwright.kernel.output.protocol import Op, OpsMessage, SavedMessage

if TYPE_CHECKING:
    from cellwright.kernel.widgets.transcript import TranscriptWidget

SECONDS_BETWEEN_MESSAGES = 1 / 30

Send = Callable[[OpsMessage], None]


class OpLog:
    """Append-only. `add` is called on the agent's loop; the rest from any thread.

    What is sent carries the context that the log was made in: its messages belong to that cell. `sent` is what a log holds
    that was written before.
    """

    def __init__(self, sent: Sequence[Op] = ()) -> None:
        self._lock = threading.Lock()
        self._context = contextvars.copy_context()
        self._sent: list[Op] = list(sent)
        self._pending: list[Op] = []
        self._send: Send | None = None
        self._last_sent = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, op: Op) -> None:
        """Append `op` and send it, now or with what follows within a thirtieth of a second."""
        with self._lock:
            if not (self._pending and _merge(self._pending[-1], op)):
                self._pending.append(op)
            if self._timer is None:
                self._send_when_due()

    def attach(self, send: Send) -> None:
        """From now on operations go to `send`; the ones that there are already go out at once."""
        with self._lock:
            self._send = send
            self._flush()

    def replay(self, have: int) -> None:
        """Send again what comes after the first `have` operations."""
        with self._lock:
            if self._send is None:
                return
            self._flush()
            # a view that holds more than there is belongs to a kernel that is gone: it starts over
            have = have if have <= len(self._sent) else 0
            if have < len(self._sent):
                self._deliver(have, self._sent[have:])

    def after(self, have: int) -> list[Op]:
        """What was sent after the first `have` operations; `send` may call it."""
        return self._sent[have:]  # append-only, so no lock: that is held while something is sent

    def __len__(self) -> int:
        """How many operations were sent."""
        return len(self._sent)

    def close(self) -> None:
        """Send what is pending; nothing is added any more, but views that come later still get what there is."""
        with self._lock:
            self._flush()
            self._closed = True

    def _send_when_due(self) -> None:
        wait = self._last_sent + SECONDS_BETWEEN_MESSAGES - time.monotonic()
        if wait <= 0:
            self._flush()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self._when_due)

    def _when_due(self) -> None:
        with self._lock:
            self._timer = None
            if self._pending:
                # something may have been sent meanwhile: a view that came late, the end of a question
                self._send_when_due()

    def _flush(self) -> None:
        if self._send is None or self._closed or not self._pending:
            return
        first, ops = len(self._sent), self._pending
        self._pending = []
        self._sent.extend(ops)
        self._last_sent = time.monotonic()
        self._deliver(first, ops)

    def _deliver(self, first: int, ops: list[Op]) -> None:
        assert self._send is not None
        message: OpsMessage = {"type": "ops", "first": first, "now": time.time(), "ops": ops}
        self._context.copy().run(self._send, message)


def _merge(last: Op, op: Op) -> bool:
    """Take `op` into `last` where both are parts of one thing; says whether it did."""
    kind = op["op"]
    if kind != last["op"]:
        return False
    if kind in ("text", "thinking"):
        if op["block"] != last["block"]:
            return False
        last["text"] += op["text"]
        return True
    if kind in ("output", "tool_input") and op["id"] == last["id"]:
        if kind == "output":
            last["text"] += op["text"]
        else:
            last["chars"] = op["chars"]
        return True
    return False


class Reattached:
    """The later pages of one run; `first` names the page that runs it. Called from any thread."""

    def __init__(self, first: str, log: OpLog) -> None:
        self._first = first
        self._log = log
        self._lock = threading.Lock()
        self._there: set[str] = set()
        self._saved: SavedMessage | None = None
        self._over = False

    def begin(self, saved: SavedMessage) -> None:
        """The run has shown itself: a page that has read nothing of it from disk can show it, too."""
        with self._lock:
            self._saved = saved

    def ready(self, widget: TranscriptWidget, page: str, have: int) -> None:
        """`page` shows the transcript and holds `have` operations of it."""
        with self._lock:
            if page != self._first:
                self._there.add(page)
            elif self._over:
                return  # its output was updated
            self._log.replay(have)
            if self._saved is not None and page != self._first:
                widget.send(self._saved)

    def end(self, widget: TranscriptWidget, saved: SavedMessage) -> None:
        """The run is over and the first page has its output: take the widget away where nobody needs it."""
        with self._lock:
            self._saved = saved
            self._over = True
            if self._there:
                widget.send(saved)
            else:
                widget.leave_pages()

    def kept(self, widget: TranscriptWidget, page: str) -> None:
        """`page` has put what it was sent into the widget's place."""
        with self._lock:
            if not self._over or page not in self._there:
                return
            self._there.remove(page)
            if not self._there:
                widget.leave_pages()
