"""The steps of a turn played to a client: framing, pace, gates and faults.

A fault strikes an answer before its head, or in the middle of its stream.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cellwright.testing.rules.api_error import MESSAGE_OF_TYPE, TYPE_OF_STATUS, error_json
from cellwright.testing.server.http_connection import HttpResponse
from cellwright.testing.server.message_stream import Delta, Step, StreamEvent
from cellwright.testing.server.script import Fault, Hold, Slow, Turn

STATUS_OF_TYPE = {error_type: status for status, error_type in reversed(TYPE_OF_STATUS.items())}
BREAKING = ("cut", "close", "stall")
MALFORMED_DATA = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_del'


def comes_before_head(fault: Fault, *, first: bool) -> bool:
    """Return whether the client sees nothing of the answer; `first`: the fault is the first part of its turn."""
    return fault.kind == "status" or (fault.kind in BREAKING and first and fault.after is None)


async def break_off(fault: Fault, answer: HttpResponse) -> None:
    """End the connection without an end of the body; a stall is silent first."""
    if fault.kind == "stall":
        await silence(fault)
    if fault.kind == "close":
        answer.close()
    else:
        answer.reset()


async def strike_before_head(fault: Fault, answer: HttpResponse, headers: dict[str, str], request_id: str) -> None:
    if fault.kind == "status":
        await _answer_with_status(fault, answer, headers, request_id)
    else:
        await break_off(fault, answer)


async def _answer_with_status(fault: Fault, answer: HttpResponse, headers: dict[str, str], request_id: str) -> None:
    error_type = fault.error_type or TYPE_OF_STATUS.get(fault.status, "api_error")
    message = fault.message or MESSAGE_OF_TYPE.get(error_type, error_type)
    body = error_json(error_type, message, request_id) if fault.body is None else fault.body
    content_type = "application/json" if fault.body is None else "text/html"
    head = {**headers, "content-type": content_type, **fault.headers, "content-length": str(len(body))}
    await answer.start(fault.status, head)
    await answer.write(body)
    await answer.end()


async def silence(fault: Fault) -> None:
    """Nothing happens while the fault lasts: for its seconds, until its gate opens, else until the client is gone."""
    waiting = fault.gate.passage() if fault.gate is not None else asyncio.Event().wait()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(waiting, fault.seconds)


def error_event_data(fault: Fault, request_id: str) -> bytes:
    error_type = fault.error_type or "overloaded_error"
    message = fault.message or MESSAGE_OF_TYPE.get(error_type, error_type)
    return error_json(error_type, message, request_id)


async def answer_whole(
    fault: Fault | None, answer: HttpResponse, headers: dict[str, str], request_id: str, body: bytes
) -> bool:
    """An answer that is not streamed, or what the fault leaves of it; whether it was sent whole."""
    if fault is not None and fault.kind == "error_event":
        status = STATUS_OF_TYPE.get(fault.error_type or "overloaded_error", 500)
        await _answer_with_status(replace(fault, status=status), answer, headers, request_id)
        return False
    await answer.start(200, {**headers, "content-length": str(len(body))})
    if fault is None:
        await answer.write(body)
    elif fault.kind == "malformed":
        await answer.write(body.replace(b'"', b"'"))
    else:
        await answer.write(body[: len(body) // 2])
        await break_off(fault, answer)
        return False
    await answer.end()
    return fault is None


WRITES_BETWEEN_YIELDS = 16
"""After so many writes the loop gets a turn: other connections go on, and a client that left is noticed."""

Frame = Callable[[StreamEvent], bytes]


def sse_frame(event: StreamEvent) -> bytes:
    """An event as server-sent events carry it."""
    return b"event: %b\ndata: %b\n\n" % (event.name.encode(), event.data)


@dataclass(slots=True, kw_only=True)
class Playback:
    """One streamed answer. `on_event(name)` hears of each event when it goes out."""

    answer: HttpResponse
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
