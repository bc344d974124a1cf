"""The server's record of every request, and the means for a test to wait for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


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
                raise TimeoutError(f"{len(found())} of {count} {what} within {timeout} s; {self._summary()}")
            return found()

    def _summary(self) -> str:
        lines = [f"{r.method} {r.path} -> {r.status or 'no answer'} {r.error}".rstrip() for r in self._requests]
        return "requests so far: " + ("; ".join(lines) or "none")
