"""The test's side of a scripted conversation: what the model says, and the record of what it was asked.

Parts make a turn, turns make a script; a gate holds a scripted stream until a test opens it. Every request is recorded,
and a test can wait for one.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


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

    @property
    def is_reached(self) -> bool:
        """True when a stream has come here."""
        return self._reached.is_set()

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

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(opened.set)

        with self._lock:
            if not self._open:
                self._wakers.append(wake)
            else:
                opened.set()
        self._reached.set()
        await opened.wait()


DEFAULT_DELTA_CHARS = 20

FaultKind = Literal["status", "cut", "close", "truncated", "malformed", "error_event", "stall"]


@dataclass(frozen=True, slots=True)
class Say:
    """Text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """A thinking block; it is sent only where the request has thinking on, its text only where it asks for it."""

    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """A tool call. `pieces` is the input as the very `partial_json` pieces to send, valid JSON or not."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerUse:
    """A call of a tool that the API runs itself, with its result; `citations` stand on `text`, which follows.

    Where `answered` is False the result does not come: the turn is paused there, or a gateway lost it.
    """

    name: str
    input: Mapping[str, Any]
    content: Any
    text: str = ""
    citations: tuple[Mapping[str, Any], ...] = ()
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Hold:
    """The stream waits here until the gate is opened."""

    gate: Gate


@dataclass(frozen=True, slots=True)
class Slow:
    """From here on, this many seconds between two deltas."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """A thing that goes wrong, as `fault` explains."""

    kind: FaultKind
    status: int = 529
    error_type: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    after: int | None = None
    seconds: float | None = None
    gate: Gate | None = None


Part = Say | Think | Use | ServerUse | Hold | Slow | Fault


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model, as `turn` explains."""

    parts: tuple[Part, ...]
    when: str | re.Pattern[str] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    delta_chars: int | None = None
    seconds_between_deltas: float | None = None
    chunk_bytes: int | None = None
    events_per_write: int | None = None

    @property
    def fault(self) -> Fault | None:
        return next((part for part in self.parts if isinstance(part, Fault)), None)

    @property
    def gates(self) -> list[Gate]:
        return [part.gate for part in self.parts if isinstance(part, Hold)]

    def matches(self, last_user_text: str) -> bool:
        if self.when is None:
            return True
        if isinstance(self.when, str):
            return self.when in last_user_text
        return self.when.search(last_user_text) is not None


def say(text: str) -> Say:
    """Text of the answer, streamed in pieces of `delta_chars` characters."""
    return Say(text)


def think(text: str, *, redacted: bool = False) -> Think:
    """A (summarised) thinking block with a signature that is bound to the conversation before it.

    As the API does, the server leaves it out when thinking is off in the request, and sends it without its text when
    the request's `thinking.display` is "omitted". `redacted` makes it a `redacted_thinking` block.
    """
    return Think(text, redacted)


def use(name: str, /, **input: Any) -> Use:
    """A tool call with this input; the turn ends with stop_reason "tool_use" unless told otherwise."""
    return Use(name, input)


def use_json(name: str, /, *pieces: str) -> Use:
    """A tool call whose input is streamed as exactly these `partial_json` pieces: also incomplete or invalid JSON."""
    return Use(name, pieces=pieces)


def searched(
    query: str,
    *results: Mapping[str, Any],
    error_code: str = "",
    text: str = "",
    quote: str = "",
    answered: bool = True,
) -> ServerUse:
    """A web search by the API's own tool: `results` are `{"url", "title", "page_age"}`, or `error_code` what went wrong.

    `text` is what the model says of them; with `quote` it cites the first result. Without `answered` there is the call
    alone, as in a paused turn or from a gateway that loses results.
    """
    content: Any = [
        {"type": "web_search_result", "encrypted_content": "c2VjcmV0", "page_age": None, **result} for result in results
    ]
    if error_code:
        content = {"type": "web_search_tool_result_error", "error_code": error_code}
    cited = {"type": "web_search_result_location", "cited_text": quote, "encrypted_index": "aW5kZXg="}
    citations = tuple({**cited, "url": r["url"], "title": r["title"]} for r in results[:1]) if quote else ()
    return ServerUse("web_search", {"query": query}, content, text, citations, answered)


def hold(gate: Gate) -> Hold:
    """The stream stands still here until `gate.open()`; a `say` before and after it are one text block."""
    return Hold(gate)


def slow(seconds_between_deltas: float) -> Slow:
    """Stream slowly from here on."""
    return Slow(seconds_between_deltas)


def fault(
    kind: FaultKind,
    *,
    status: int = 529,
    error_type: str = "",
    message: str = "",
    retry_after: float | None = None,
    retry_after_ms: float | None = None,
    headers: Mapping[str, str] | None = None,
    body: str | bytes | None = None,
    after: int | None = None,
    seconds: float | None = None,
    gate: Gate | None = None,
) -> Fault:
    """Something goes wrong with this one request; the next request gets the next turn.

    "status"       an error status instead of an answer: `status`, `error_type`, `message`, `retry_after` (seconds),
                   `retry_after_ms`, further `headers`; `body` replaces the JSON (proxies send HTML)
    "cut"          the connection is reset (TCP RST): before the response's head, or after `after` events
    "close"        the connection is closed (TCP FIN) in the middle of the body, or before the head
    "truncated"    the body ends cleanly before `message_stop`
    "malformed"    an SSE event whose data is not valid JSON
    "error_event"  an `event: error` in the stream: `error_type`, `message`
    "stall"        nothing is sent any more, for `seconds`, or until `gate` is opened, or until the client goes away;
                   then the connection is reset. Before the response's head, or after `after` events

    Among the parts of a turn it happens at its place; `after` counts events (message_start is the first) instead, and
    when there are fewer it happens at the end.
    """
    extra = dict(headers or {})
    if retry_after is not None:
        extra["retry-after"] = f"{retry_after:g}"
    if retry_after_ms is not None:
        extra["retry-after-ms"] = f"{retry_after_ms:g}"
    raw = body.encode() if isinstance(body, str) else body
    return Fault(kind, status, error_type, message, extra, raw, after, seconds, gate)


def turn(
    *parts: Part,
    when: str | re.Pattern[str] | None = None,
    stop_reason: str | None = None,
    stop_sequence: str | None = None,
    stop_details: Mapping[str, Any] | None = None,
    usage: Mapping[str, Any] | None = None,
    delta_chars: int | None = None,
    seconds_between_deltas: float | None = None,
    chunk_bytes: int | None = None,
    events_per_write: int | None = None,
) -> Turn:
    """One answer of the model.

    when                    only for a request whose last user content (text and tool results) contains or matches this
    stop_reason             default: "tool_use" when there is a tool call, else "end_turn"
    usage                   replaces figures of the computed `usage`
    delta_chars             characters in a delta
    seconds_between_deltas  pause between two deltas
    chunk_bytes             the body is sent in HTTP chunks of this many bytes, which cuts multi-byte characters
    events_per_write        this many events in one write (for throughput; 1 is what the API does)
    """
    return Turn(
        parts,
        when,
        stop_reason,
        stop_sequence,
        stop_details,
        dict(usage or {}),
        delta_chars,
        seconds_between_deltas,
        chunk_bytes,
        events_per_write,
    )


ScriptSource = Iterable[Turn | Part] | Callable[[dict[str, Any]], Turn | Part]


def as_turn(item: Turn | Part) -> Turn:
    """A bare part is a turn of its own."""
    return item if isinstance(item, Turn) else Turn((item,))


class Script:
    """The turns that are left. Taken from by the server's thread, looked at from any.

    `exhausted`: a request came for which no turn was left.
    """

    def __init__(self, source: ScriptSource) -> None:
        self._lock = threading.Lock()
        self._answer = source if callable(source) else None
        self._turns = [] if callable(source) else [as_turn(item) for item in source]
        self.exhausted = False

    def take(self, body: dict[str, Any], last_user_text: Callable[[], str]) -> Turn | None:
        """The first turn left that fits the request, which is then used up; None when there is none."""
        if self._answer is not None:
            return as_turn(self._answer(body))
        with self._lock:
            for position, candidate in enumerate(self._turns):
                if candidate.when is None or candidate.matches(last_user_text()):
                    return self._turns.pop(position)
        self.exhausted = True
        return None

    def add(self, *items: Turn | Part) -> None:
        with self._lock:
            self._turns.extend(as_turn(item) for item in items)

    def clear(self) -> None:
        with self._lock:
            self._turns.clear()

    @property
    def remaining(self) -> int:
        """The number of turns that were not asked for; 0 for a callable script."""
        with self._lock:
            return len(self._turns)


def content_text(content: Any) -> str:
    """Message content rendered as text: text blocks and the text of tool results, one after another."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = []
    for block in content:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
        elif block.get("type") == "tool_result":
            texts.append(content_text(block.get("content")))
    return "\n".join(texts)


def last_user_text(body: Any) -> str:
    """The text of everything the user's side said since the last assistant message."""
    messages = body.get("messages") if isinstance(body, dict) else None
    texts: list[str] = []
    for message in reversed(messages if isinstance(messages, list) else []):
        if not isinstance(message, dict) or message.get("role") == "assistant":
            break
        texts.append(content_text(message.get("content")))
    return "\n".join(reversed(texts))


@dataclass(eq=False)
class RecordedRequest:
    """One HTTP request and what became of it. Times are `time.monotonic()`, the same clock in every process.

    `action` is "messages", "count_tokens", "models", "model", "batches" (a batch made, or all listed), "batch",
    "batch_results" or "batch_cancel", "batched" for each request in a batch; empty for a path that is not served.
    `headers` have lower-case names. `body` is the parsed JSON, None where there is none. `status` is the answer's HTTP
    status, None as long as (or where) there is no head. `error` is the message of an API error that was answered.
    `disconnected`: the client went away before the answer was complete.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any
    arrived_at: float
    action: str = ""
    received_at: float = field(default_factory=time.monotonic)
    status: int | None = None
    error: str = ""
    events_sent: int = 0
    first_delta_at: float | None = None
    finished_at: float | None = None
    disconnected: bool = False

    def count_event(self, name: str) -> None:
        """Called by the server for each event that goes out."""
        self.events_sent += 1
        if self.first_delta_at is None and name == "content_block_delta":
            self.first_delta_at = time.monotonic()

    @property
    def last_user_text(self) -> str:
        return last_user_text(self.body)

    @property
    def finished(self) -> bool:
        return self.finished_at is not None


class RequestLog:
    """All requests in the order they arrived. Written by the server's thread, read and waited for from any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[RecordedRequest] = []

    def add(self, request: RecordedRequest) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def update(self, request: RecordedRequest, **values: Any) -> None:
        """Set fields of a request and wake who waits for them."""
        with self._changed:
            for name, value in values.items():
                setattr(request, name, value)
            self._changed.notify_all()

    def select(self, predicate: Callable[[RecordedRequest], bool]) -> list[RecordedRequest]:
        with self._changed:
            return [request for request in self._requests if predicate(request)]

    def wait_for(
        self, predicate: Callable[[RecordedRequest], bool], count: int, timeout: float, what: str
    ) -> list[RecordedRequest]:
        """Block until `count` requests are as wanted; TimeoutError after `timeout` seconds."""

        def found() -> list[RecordedRequest]:
            return [request for request in self._requests if predicate(request)]

        with self._changed:
            if not self._changed.wait_for(lambda: len(found()) >= count, timeout):
                sent = [f"{r.method} {r.path} -> {r.status or 'no answer'} {r.error}".rstrip() for r in self._requests]
                so_far = f"requests so far: {'; '.join(sent) or 'none'}"
                raise TimeoutError(f"{len(found())} of {count} {what} within {timeout} s; {so_far}")
            return found()
