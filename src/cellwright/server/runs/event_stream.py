"""A run's events on an HTTP connection: Server-Sent Events, or JSON lines.

The format of the first is the HTML standard's (https://html.spec.whatwg.org/multipage/server-sent-events.html): the
number of an event is its `id`, its type its `event`, the JSON line its `data`. Of the second each line is one event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Literal, Protocol

from tornado.iostream import StreamClosedError

from cellwright.server.runs.run import ClientRun, EventsGone, RunEvent

StreamKind = Literal["text/event-stream", "application/x-ndjson"]

_HEARTBEAT = {"text/event-stream": b": still here\n\n", "application/x-ndjson": b"\n"}
"""The bytes that a reader passes over: a comment, an empty line."""

HEADERS = {
    "Cache-Control": "no-cache, no-store, no-transform",
    "X-Accel-Buffering": "no",  # nginx, which stands before many a Hub, would collect
}


STALL_SECONDS = 300.0
"""A client that takes nothing for so long has left: what waits for it would be held for ever."""


class EventConnection(Protocol):
    """The connection written to. `disconnected` is set when the client has left; `cut` ends the connection as it is."""

    disconnected: asyncio.Event

    def write(self, chunk: bytes) -> None: ...

    def flush(self) -> Awaitable[None]: ...

    def cut(self) -> None: ...


def stream_kind(accept: str) -> StreamKind | None:
    """Choose the stream that a client sending this `Accept` wants to read; None: no stream, but JSON."""
    accepted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    for kind in accepted:
        if kind in ("text/event-stream", "*/*", "text/*", ""):
            return "text/event-stream"
        if kind in ("application/x-ndjson", "application/jsonl", "application/json-lines", "application/x-jsonlines"):
            return "application/x-ndjson"
        if kind in ("application/json", "application/*"):
            return None
    return "text/event-stream"


def encoded(event: RunEvent, kind: StreamKind) -> bytes:
    """One event as it is sent. A JSON line holds no line break."""
    if kind == "application/x-ndjson":
        return event.line + b"\n"
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.id, event.kind.encode(), event.line)


async def send_events(
    connection: EventConnection,
    run: ClientRun,
    after: int,
    kind: StreamKind,
    heartbeat: float,
    stall_seconds: float = STALL_SECONDS,
) -> None:
    """Send the events after number `after` until the run is over or the client has left.

    The next are taken when the client has taken these: one that reads slowly holds nothing but its place.
    """
    try:
        await _send(connection, run, after, kind, heartbeat, stall_seconds)
    except StreamClosedError:
        pass
    except TimeoutError:
        connection.cut()


async def _send(
    connection: EventConnection, run: ClientRun, after: int, kind: StreamKind, heartbeat: float, stall_seconds: float
) -> None:
    place = after
    has_begun = False
    while not connection.disconnected.is_set():
        try:
            events = run.after(place)
        except EventsGone as disconnected:
            connection.write(_gone_event(disconnected.oldest, kind))
            await asyncio.wait_for(connection.flush(), stall_seconds)
            return
        if events:
            connection.write(b"".join(encoded(event, kind) for event in events))
            place = events[-1].id
        elif run.finished:
            return
        # a client that comes back while nothing happens gets the headers at once, and so knows that it is connected
        elif has_begun and not await _wait_for_change(run, connection, heartbeat):
            connection.write(_HEARTBEAT[kind])
        await asyncio.wait_for(connection.flush(), stall_seconds)
        has_begun = True


async def _wait_for_change(run: ClientRun, connection: EventConnection, seconds: float) -> bool:
    """Wait for another event or for the client to leave; False after so many seconds."""
    waiting = [asyncio.ensure_future(run.changed()), asyncio.ensure_future(connection.disconnected.wait())]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    return bool(done)


def _gone_event(oldest: int, kind: StreamKind) -> bytes:
    """Not an event of the run, so it has no number: a reader that comes back asks for the same place."""
    line = b'{"type": "events_gone", "data": {"oldest": %d}}' % oldest
    return line + b"\n" if kind == "application/x-ndjson" else b"event: events_gone\ndata: %s\n\n" % line
