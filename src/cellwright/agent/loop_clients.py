"""Async clients belong to the event loop that they were first used in: one for each loop, made off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Client = TypeVar("Client")


class LoopClients(Generic[Client]):
    """A client for each event loop, since its connections belong to the loop. Built in a worker thread at first use."""

    def __init__(self, build: Callable[[], Client]) -> None:
        self._build = build
        self._building: dict[asyncio.AbstractEventLoop, asyncio.Task[Client]] = {}

    async def get(self) -> Client:
        """The running loop's client. Who is cancelled while he waits for it does not end the building of it."""
        loop = asyncio.get_running_loop()
        task = self._building.get(loop)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            for closed in [other for other in self._building if other.is_closed()]:
                del self._building[closed]
            task = self._building[loop] = loop.create_task(asyncio.to_thread(self._build))
        return task.result() if task.done() else await asyncio.shield(task)

    def pop(self) -> Client | None:
        """The running loop's client, if there is one; the next `get` builds another."""
        task = self._building.pop(asyncio.get_running_loop(), None)
        finished = task is not None and task.done() and not task.cancelled() and task.exception() is None
        return task.result() if task is not None and finished else None
