"""The usage that an answer reports, read from its bytes as they pass, and the log of what left the server.

The log has a line of JSON for each request and what it cost, never what it was about.

    {"at", "user", "kernel", "method", "path", "model", "status", "refused", "input_tokens", "output_tokens",
     "cache_read_input_tokens", "cache_creation_input_tokens", "cost_usd", "complete", "bytes_out", "bytes_in", "ms",
     "request_id"}

`at` is UTC; `bytes_out` went to the API, `bytes_in` came from it; `refused` is the code of the proxy's own rule, or
empty; `complete` is false if the answer broke off, and its output was estimated. The file is for its owner alone.
When it has grown to `MAX_BYTES` it becomes `.1`, and so on up to `KEPT`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.model.message_stream import SseParser
from cellwright.model.pricing import usage_of
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder

_FRAME_BYTES = 80
"""The approximate number of bytes that an event of a delta has around its text."""

_BYTES_PER_TOKEN = 3
"""Fewer than any text has: an answer that was left is rather counted too high."""

_THOUGHT_TOKENS_PER_SECOND = 100
"""The approximate number of tokens that models write in a second."""


class UsageReader:
    """Takes an answer's body in any pieces. `usage` is what it has reported so far, None before it reported anything."""

    def __init__(self, *, streamed: bool) -> None:
        self.usage: dict[str, Any] | None = None
        self.model = ""
        self.complete = False
        self._parser = SseParser() if streamed else None
        self._whole = bytearray()
        self._text_bytes = 0
        self._has_thought = False

    def feed(self, chunk: bytes) -> None:
        if self._parser is None:
            self._whole += chunk
            return
        for name, data in self._parser.feed(chunk):
            if name == "content_block_delta":
                self._text_bytes += max(1, len(data) - _FRAME_BYTES)
            elif name == "content_block_start":
                self._has_thought = self._has_thought or _is_thinking(data)
            elif name in ("message_start", "message_delta"):
                self._take(name, data)
            elif name == "message_stop":
                self.complete = True

    def close(self) -> None:
        """The body has come to its end."""
        if self._parser is None:
            message = _object(bytes(self._whole))
            self._merge(message.get("usage"), message.get("model"))
            self.complete = self.usage is not None

    def billed(self, seconds: float) -> dict[str, Any] | None:
        """The usage to count `seconds` after the request: of an answer that broke off, its output is estimated.

        By what was sent of it, and where Claude thought, which is billed and hardly shown, by the time as well.
        """
        if self.usage is None or self.complete:
            return self.usage
        reported = self.usage.get("output_tokens") or 0
        thought = round(seconds * _THOUGHT_TOKENS_PER_SECOND) if self._has_thought else 0
        return {**self.usage, "output_tokens": max(reported, thought, self._text_bytes // _BYTES_PER_TOKEN)}

    def _take(self, name: str, data: bytes) -> None:
        event = _object(data)
        if name == "message_start":
            message = event.get("message")
            if isinstance(message, dict):
                self._merge(message.get("usage"), message.get("model"))
        else:
            self._merge(event.get("usage"), None)

    def _merge(self, usage: Any, model: Any) -> None:
        if isinstance(model, str):
            self.model = model
        if isinstance(usage, dict):
            with contextlib.suppress(TypeError):  # what the client gets is what came: it will say so
                new = {key: value for key, value in usage_of(usage).items() if value is not None}
                self.usage = {**(self.usage or {}), **new}


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # what the client gets is what came: it will say so
        return {}
    return value if isinstance(value, dict) else {}


def _is_thinking(data: bytes) -> bool:
    block = _object(data).get("content_block")
    return isinstance(block, dict) and str(block.get("type", "")).endswith("thinking")


MAX_BYTES = 10_000_000
KEPT = 5


class EgressLog:
    """Appends to `file`; from any thread."""

    def __init__(self, file: Path, *, most_bytes: int = MAX_BYTES) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._lock = threading.Lock()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line. Raises OSError."""
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            make_private_folder(self._file.parent)
            with contextlib.suppress(FileNotFoundError):
                if self._file.stat().st_size + len(line) > self._most_bytes:
                    self._rotate()
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with os.fdopen(fd, "ab") as opened:
                opened.write(line)

    def _rotate(self) -> None:
        names = [self._file, *(self._file.with_name(f"{self._file.name}.{n}") for n in range(1, KEPT + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
