"""The event loop of the program, asyncio's or trio's: its callbacks run there, and messages come to it from our thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

import anyio

T = TypeVar("T")


class CallersLoop:
    """The loop that runs where this is made. `soon` and `run` may be called from any thread."""

    def __init__(self) -> None:
        self._trio = _trio()
        if self._trio is None:
            self._loop = asyncio.get_running_loop()
            self.soon: Callable[..., object] = self._loop.call_soon_threadsafe
        else:
            self.soon = self._trio.lowlevel.current_trio_token().run_sync_soon

    async def run(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Call `function` on this loop, from another one of asyncio's, and return or raise what it does."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        stop: list[Callable[[], object]] = []

        async def work() -> None:
            try:
                future.set_result(await function(*arguments))
            except BaseException as error:  # noqa: BLE001  raised where it is waited for
                if not future.cancelled():
                    future.set_exception(error)

        def begin() -> None:
            if future.set_running_or_notify_cancel():
                stop.append(self.spawn(work))

        self.soon(begin)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self.soon(lambda: [each() for each in stop])
            raise

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]:
        """Begin `work`, which raises nothing, beside everything else on this loop, from there; gives what cancels it."""
        if self._trio is None:
            task = self._loop.create_task(work())
            return task.cancel
        scope = self._trio.CancelScope()

        async def in_scope() -> None:
            with scope:
                await work()

        self._trio.lowlevel.spawn_system_task(in_scope)
        cancel: Callable[[], object] = scope.cancel
        return cancel


def _trio() -> Any:
    """The module trio, if its loop is the one that runs here."""
    trio = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_run() else None


class Inbox(Generic[T]):
    """Items that arrive for a loop, in order. `put` may be called from any thread, `get` on that loop."""

    def __init__(self, loop: CallersLoop) -> None:
        self._loop = loop
        self._items: deque[T] = deque()
        self._news = anyio.Event()

    def put(self, item: T) -> None:
        """Add `item`; nothing happens if the loop has ended: nobody waits there."""

        def take() -> None:
            self._items.append(item)
            self._news.set()

        with contextlib.suppress(RuntimeError):
            self._loop.soon(take)

    async def get(self) -> T:
        """The next item, waited for."""
        while not self._items:
            self._news = anyio.Event() if self._news.is_set() else self._news
            await self._news.wait()
        return self._items.popleft()
