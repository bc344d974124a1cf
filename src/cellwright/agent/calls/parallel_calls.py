"""Calls of one message that run at the same time, and what keeps them in order where one does more than read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from msgspec import Struct, field


class _Place(Struct):
    """A call's place. `reads` is None until it is known whether the call only reads."""

    reads: bool | None
    known: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class ParallelCalls:
    """The order of a batch: calls that only read run beside each other, one that does more when those before it are over.

    Of most calls the tool says which they are (`known_to_read`). What a command does shows once hooks have had their word,
    which may have made another command of it; until then those behind it wait.
    """

    def __init__(self, known_to_read: Sequence[bool]) -> None:
        self._places = [_Place(reads or None) for reads in known_to_read]

    @contextlib.contextmanager
    def place(self, index: int) -> Iterator[None]:
        """Hold the place of the call at `index` until it is over, however it ends."""
        place = self._places[index]
        try:
            yield
        finally:
            place.known.set()
            place.ended.set()

    async def may_start(self, index: int, *, reads: bool) -> None:
        """Wait until the call at `index`, of which is known now whether it only `reads`, may run."""
        own = self._places[index]
        own.reads = reads
        own.known.set()
        for before in self._places[:index]:
            if before.reads is None:
                await before.known.wait()
            if not (reads and before.reads):
                await before.ended.wait()


async def start_at_once(*, reads: bool) -> None:
    """Let a call run that shares its batch with none, or keeps its order by itself."""
