"""A gate that a scripted stream waits at until a test opens it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial


class Gate:
    """Holds a stream at a known place: the server waits there, the test sees that it does, and lets it go on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = False
        self._wakers: list[Callable[[], None]] = []
        self._reached = threading.Event()

    @property
    def is_open(self) -> bool:
        return self._open

    def open(self) -> None:
        """Let every stream that waits here, now or later, go on. From any thread."""
        with self._lock:
            self._open = True
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def wait_until_reached(self, timeout: float = 60.0) -> None:
        """Block until a stream stands at this gate: everything scripted before it was sent. `timeout` is in seconds."""
        if not self._reached.wait(timeout):
            raise TimeoutError(f"no stream came to the gate within {timeout} s")

    async def passage(self) -> None:
        """From the server's loop: wait until the gate is open."""
        loop = asyncio.get_running_loop()
        opened = asyncio.Event()
        with self._lock:
            if not self._open:
                self._wakers.append(partial(_wake, loop, opened))
            else:
                opened.set()
        self._reached.set()
        await opened.wait()


def _wake(loop: asyncio.AbstractEventLoop, opened: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(opened.set)
