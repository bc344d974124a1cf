"""When to show an answer anew that no widget shows while it comes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

RENEW_SECONDS = 1.0
"""The time between two renewals."""


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
