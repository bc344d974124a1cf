"""The number of prompts that are asked at the same time: fewer while the API refuses, more as it answers.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, 1989): half as many after a refusal, one more
after as many answers as there are places.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Concurrency:
    """At most `most` at once. Used on one event loop."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = most
        self.taken = 0
        self._answered = 0
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and have it for the time of the block."""
        while self.taken >= self.limit:
            self._changed.clear()
            await self._changed.wait()
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._changed.set()

    def refused(self) -> None:
        """The API answers that there were too many requests, or that it is overloaded."""
        self.limit = max(1, min(self.limit, self.taken) // 2)
        self._answered = 0

    def answered(self) -> None:
        """The API has answered a prompt."""
        self._answered += 1
        if self._answered >= self.limit and self.limit < self.most:
            self.limit += 1
            self._answered = 0
            self._changed.set()
