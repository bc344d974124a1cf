"""A run that a client asked for: its events, numbered, for any number of readers that come, leave and come back.

The events are the kernel's JSON lines (`cellwright.telemetry.json_lines`), `run_started` before them. They are kept
once, not for each reader, and the oldest make room when they become too many: a slow reader costs nothing but its own
place.

A reader's HTTP connection gets JSON lines or Server-Sent Events
(https://html.spec.whatwg.org/multipage/server-sent-events.html): the number of an event is its `id`, its type its
`event`, the JSON line its `data`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct
from tornado.iostream import StreamClosedError

from cellwright.server.api_error import RouteError

Line = Mapping[str, Any]

_FINISHED_STATES = ("done", "failed", "interrupted")

StreamKind = Literal["text/event-stream", "application/x-ndjson"]

_HEARTBEAT = {"text/event-stream": b": still here\n\n", "application/x-ndjson": b"\n"}
"""The bytes that a reader passes over: a comment, an empty line."""

HEADERS = {
    "Cache-Control": "no-cache, no-store, no-transform",
    "X-Accel-Buffering": "no",  # nginx, which stands before many a Hub, would collect
}

STALL_SECONDS = 300.0
"""A client that takes nothing for so long has left: what waits for it would be held for ever."""


class RunEvent(NamedTuple):
    """One event: its number from 1 on, its type, and the JSON line that carries it."""

    id: int
    kind: str
    line: bytes


class EventsGone(Exception):
    """Events that were asked for have made room for newer ones; the oldest that is there is `oldest`."""

    def __init__(self, oldest: int) -> None:
        super().__init__(oldest)
        self.oldest = oldest


class RunPlace(Struct, frozen=True, kw_only=True):
    """The place of a run, and its owner. `own_kernel`: the kernel was started for it."""

    kernel_id: str
    owner: str
    own_kernel: bool = False
    cancel_on_disconnect: bool = False


class ClientRun:
    """From the moment a client asks for it. On the server's loop only. `on_finished` is called once, at its end."""

    def __init__(self, run_id: str, place: RunPlace, most_bytes: int, on_finished: Callable[[ClientRun], None]) -> None:
        self.id = run_id
        self.place = place
        self.kernel_run = ""
        """The kernel's own id of it."""
        self.finished = False
        self.readers = 0
        self.questions: dict[str, Line | None] = {}
        """The questions that were asked, each with the decision that ended it or None."""
        self.steered: dict[str, Line] = {}
        self.metadata: Line = {}
        """The outcome of the run, as `session_complete` says."""
        self.refused: RouteError | None = None
        """The reason why the run could not begin."""
        self.must_wait = asyncio.Event()
        """It cannot begin at once, and its events say why."""
        self._events: deque[RunEvent] = deque()
        self._bytes = 0
        self._most_bytes = most_bytes
        self._held = 0
        self.state = "waiting"
        """As the kernel says: waiting, running, asking, done, failed, interrupted."""
        self._answer = ""
        self._answer_ended = False
        self._on_finished = on_finished
        self._changed = asyncio.Event()
        self._finishing: asyncio.TimerHandle | None = None
        self._add({"type": "run_started", "timestamp": _now(), "data": {"run": run_id, "kernel": place.kernel_id}})

    def begin(self, kernel_run: str) -> None:
        """The kernel has taken it, and calls it so."""
        self.kernel_run = kernel_run

    # ---- for readers ----

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """Somebody reads its events while the block lasts."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1

    @property
    def last_id(self) -> int:
        return self._events[-1].id

    def after(self, event_id: int, most: int = 500) -> list[RunEvent]:
        """At most so many events after that one, oldest first. Raises EventsGone."""
        oldest = self._events[0].id
        if event_id + 1 < oldest:
            raise EventsGone(oldest)
        start = event_id + 1 - oldest
        return [self._events[place] for place in range(start, min(len(self._events), start + most))]

    def changed(self) -> Coroutine[Any, Any, object]:
        """To be awaited: there is another event than at the time of the call, or the run is over."""
        return self._changed.wait()

    async def decision(self, question: str) -> Line:
        """Wait for what ends that question."""
        while (decided := self.questions[question]) is None and not self.finished:
            await self.changed()
        return decided or {}

    async def steer_state(self, steer_id: str) -> Line | None:
        """Wait for what became of words to the run; None where it ended without them."""
        while steer_id not in self.steered and not self.finished:
            await self.changed()
        return self.steered.get(steer_id)

    # ---- for the relay ----

    @property
    def held(self) -> int:
        return self._held

    def take(self, first: int, lines: Sequence[Line]) -> bool:
        if first > self._held:
            return False
        for line in lines[self._held - first :]:
            self._held += 1
            self._note(line)
            self._add(line)
            if line["type"] == "session_complete":
                self._end()
        return True

    def state_changed(self, run: Line) -> None:
        if not self.finished:
            self.state = str(run.get("state", self.state))
        if run.get("state") in _FINISHED_STATES and not self.finished and self._finishing is None:
            # its last lines may still be on their way; a run that never began has none
            words = "The run was removed from the queue before it began, or ended without a result."
            loop = asyncio.get_running_loop()
            # so long may the last lines of a run take to come after the news that it is over
            self._finishing = loop.call_later(60.0, lambda: self.fail("INTERRUPTED", words))

    def fail(self, code: str, message: str) -> None:
        if self.finished:
            return
        details = {"kernel": self.place.kernel_id}
        data = {"error_code": code, "error_message": message, "error_details": details, "recoverable": False}
        self._add({"type": "error", "timestamp": _now(), "data": data})
        self._close("failed", "error")

    def interrupt(self) -> None:
        """It was stopped before its kernel knew of it."""
        if not self.finished:
            self._close("interrupted", "interrupted")

    def _close(self, state: str, stop_reason: str) -> None:
        """End it with an end of the server's own."""
        self.state, self.metadata = state, {"stop_reason": stop_reason}
        end = {"final_response": self._answer, "metadata": self.metadata}
        self._add({"type": "session_complete", "timestamp": _now(), "data": end})
        self._end()

    def wait(self, message: str) -> None:
        """It has to wait, for what `message` says: an event of the server's own, among the kernel's. Said once."""
        if self.must_wait.is_set():
            return
        self._add({"type": "notice", "timestamp": _now(), "data": {"level": "info", "message": message}})
        self.must_wait.set()

    def refuse(self, error: RouteError) -> None:
        """It cannot begin. Who has its events already reads it there."""
        if not self.must_wait.is_set():
            self.refused = error
        self.fail(error.code, error.message)

    def _note(self, line: Line) -> None:
        """Remember what later requests of clients are about."""
        data = line["data"]
        if self.state == "waiting" and line["type"] != "notice":  # that it has to wait is a notice
            self.state = "running"
        match line["type"]:
            case "permission_request" | "question":
                self.questions[data["question_id"]] = None
            case "permission_decision" if data["question_id"] in self.questions:
                self.questions[data["question_id"]] = data
            case "steer":
                self.steered[data["id"]] = data
            case "error":
                self.state = "failed"
            case "session_complete":
                self.metadata = data["metadata"]
                interrupted = self.metadata.get("stop_reason") == "interrupted"
                self.state = "interrupted" if interrupted else "failed" if self.state == "failed" else "done"
            case "claude_response_chunk":
                # each message of Claude begins anew; the last one is the answer
                self._answer = data["chunk"] if self._answer_ended else self._answer + data["chunk"]
                self._answer_ended = data["is_final"]

    def _add(self, line: Line) -> None:
        event_id = self._events[-1].id + 1 if self._events else 1
        # half a surrogate pair is no UTF-8; with a backslash it is JSON's own escape
        encoded = json.dumps({"id": event_id, **line}, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self._events.append(RunEvent(event_id, line["type"], encoded))
        self._bytes += len(encoded)
        while self._bytes > self._most_bytes and len(self._events) > 1:
            self._bytes -= len(self._events.popleft().line)
        self._wake()

    def _end(self) -> None:
        if self.finished:
            return
        self.finished = True
        if self._finishing is not None:
            self._finishing.cancel()
        self._wake()
        self._on_finished(self)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
            # not an event of the run, so it has no number: a reader that comes back asks for the same place
            line = b'{"type": "events_gone", "data": {"oldest": %d}}' % disconnected.oldest
            is_lines = kind == "application/x-ndjson"
            connection.write(line + b"\n" if is_lines else b"event: events_gone\ndata: %s\n\n" % line)
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
