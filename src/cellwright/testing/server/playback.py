"""Plays the steps of a turn to a client: framing, pace, gates and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cellwright.local_api.faults import MALFORMED_DATA, break_off, error_event_data
from cellwright.testing.server.http_connection import Answer
from cellwright.testing.server.message_stream import Delta, Step, StreamEvent
from cellwright.testing.server.script import Fault, Hold, Slow, Turn

WRITES_BETWEEN_YIELDS = 16
"""After so many writes the loop gets a turn: other connections go on, and a client that left is noticed."""

Frame = Callable[[StreamEvent], bytes]


def sse_frame(event: StreamEvent) -> bytes:
    """An event as server-sent events carry it."""
    return b"event: %b\ndata: %b\n\n" % (event.name.encode(), event.data)


@dataclass(slots=True, kw_only=True)
class Playback:
    """One streamed answer. `on_event(name)` hears of each event when it goes out."""

    answer: Answer
    turn: Turn
    headers: Mapping[str, str]
    request_id: str
    pause: float
    on_event: Callable[[str], None]
    frame: Frame = sse_frame
    pending: list[StreamEvent] = field(default_factory=list)
    sent: int = 0
    writes: int = 0

    async def run(self, steps: Iterable[Step]) -> bool:
        """Send everything; whether it was sent whole."""
        await self.answer.start(200, self.headers)
        for step in steps:
            fault = self._due(step)
            if fault is not None:
                await self._strike(fault)
                return False
            match step:
                case Hold(gate):
                    await self._flush()
                    await gate.passage()
                case Slow(seconds):
                    self.pause = seconds
                case StreamEvent():
                    await self._event(step)
        if self.turn.fault is not None:
            await self._strike(self.turn.fault)
            return False
        await self._flush()
        await self.answer.end()
        return True

    def _due(self, step: Step) -> Fault | None:
        """The fault that strikes now: at its place, or after its count of events."""
        fault = self.turn.fault
        if fault is None:
            return None
        now = step is fault if fault.after is None else self.sent >= fault.after
        return fault if now else None

    async def _event(self, event: StreamEvent) -> None:
        if self.pause and isinstance(event, Delta):
            await self._flush()
            await asyncio.sleep(self.pause)
        self.pending.append(event)
        self.sent += 1
        if len(self.pending) >= (self.turn.events_per_write or 1):
            await self._flush()

    async def _flush(self) -> None:
        if not self.pending:
            return
        data = b"".join([self.frame(event) for event in self.pending])
        for event in self.pending:
            self.on_event(event.name)
        self.pending.clear()
        size = self.turn.chunk_bytes or len(data)
        for start in range(0, len(data), size):
            await self._write(data[start : start + size])

    async def _write(self, data: bytes) -> None:
        await self.answer.write(data)
        self.writes += 1
        if self.writes % WRITES_BETWEEN_YIELDS == 0:
            await asyncio.sleep(0)

    async def _strike(self, fault: Fault) -> None:
        await self._flush()
        match fault.kind:
            case "truncated":
                await self.answer.end()
            case "malformed":
                await self._write(self.frame(StreamEvent("content_block_delta", MALFORMED_DATA)))
                await self.answer.end()
            case "error_event":
                data = error_event_data(fault, self.request_id)
                await self._write(self.frame(StreamEvent("error", data)))
                await self.answer.end()
            case _:
                await break_off(fault, self.answer)
