"""Ending what takes too long on the main thread: a thread of its own looks at the clock, and sends the interrupt.

Code that sits in C looks at no signals; nothing of that kind is called here on purpose. On other threads there is no way
in, and no limit.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any


class TimeLimitOver(BaseException):
    """The limit is over. No `Exception`: code that catches all of those must not go on."""


class MainThreadLimit:
    """`with MainThreadLimit() as limit:`, and in it `with limit.seconds(0.5): …`; raises `TimeLimitOver` when that is over.

    The user's own interrupt goes where it always goes. An interrupt that is swallowed comes again every `AGAIN` seconds.
    """

    AGAIN = 0.2

    def __init__(self) -> None:
        self._ends: float | None = None
        self._sent = False
        self._closed = False
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None
        self._before: Any = None

    def __enter__(self) -> MainThreadLimit:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_sigint)
            self._watcher = threading.Thread(target=self._watch, name="cellwright-time-limit", daemon=True)
            self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._watcher is None:
            return
        try:
            self._ends = None
            with self._changed:
                self._closed = True
                self._changed.notify()
            self._watcher.join()
        finally:
            # a signal that is still on its way is handled in this call, by our handler
            signal.signal(signal.SIGINT, self._before if self._before is not None else signal.default_int_handler)

    @contextlib.contextmanager
    def seconds(self, seconds: float) -> Iterator[None]:
        """The block has so many seconds. Who catches `TimeLimitOver` calls `lift`: it may have come when the block ended."""
        try:
            self._ends = time.monotonic() + seconds
            with self._changed:
                self._changed.notify()
            yield
        finally:
            self.lift()

    def lift(self) -> None:
        """There is no limit any more."""
        self._ends = None

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                ends = self._ends
                if ends is None:
                    self._changed.wait()
                elif (left := ends - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._sent = True
                    if sys.platform == "win32":
                        signal.raise_signal(signal.SIGINT)
                    else:
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    # it puts the end off when it arrives
                    self._changed.wait(self.AGAIN)

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        if self._sent:
            self._sent = False
            ends = self._ends
            if ends is not None and time.monotonic() >= ends:
                self._ends = time.monotonic() + self.AGAIN
                raise TimeLimitOver
        elif callable(self._before):
            self._before(number, frame)
