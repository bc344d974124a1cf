"""The spending of users, a SQLite file with the cost of every request, and the egress log of what left the server.

The most a request may cost is reserved first, in one transaction with the look at what is left, so that requests at
the same time cannot overspend together; its real cost takes the place of that when its answer has ended. A request
that was under way when the server died goes on to count as it was reserved. Days are UTC's. The usage that an answer
reports is read from its bytes as they pass.

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
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cellwright.model.message_stream import SseParser
from cellwright.model.pricing import usage_of
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder

_SCHEMA = """
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY, day TEXT NOT NULL, user TEXT NOT NULL, kernel TEXT NOT NULL, model TEXT NOT NULL,
    usd REAL NOT NULL, settled INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS request_of_day ON request (user, day);
CREATE INDEX IF NOT EXISTS request_of_kernel ON request (user, kernel);
"""

_FRAME_BYTES = 80
"""The approximate number of bytes that an event of a delta has around its text."""

_BYTES_PER_TOKEN = 3
"""Fewer than any text has: an answer that was left is rather counted too high."""

_THOUGHT_TOKENS_PER_SECOND = 100
"""The approximate number of tokens that models write in a second."""


class Spent(NamedTuple):
    """US dollars, what is reserved included: of the user on this day, and of the kernel in its life."""

    day: float
    kernel: float


class SpendingLedger:
    """The book in `file`; from any thread, and from several processes. `clock` gives seconds since the epoch."""

    def __init__(self, file: Path, *, clock: Callable[[], float] = time.time) -> None:
        make_private_folder(file.parent)
        file.touch(PRIVATE_FILE)
        self._clock = clock
        self._lock = threading.Lock()
        self._db = sqlite3.connect(file, timeout=30.0, isolation_level=None, check_same_thread=False)
        with self._lock:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)
            oldest = datetime.fromtimestamp(clock() - 400 * 86_400, UTC).date().isoformat()
            self._db.execute("DELETE FROM request WHERE day < ?", (oldest,))

    def reserve(self, user: str, kernel: str, model: str, worst_usd: Callable[[Spent], float]) -> int:
        """Write a request into the book at the worst it may cost; gives its number.

        `worst_usd` says that, given what is spent; what it raises is raised, and nothing is written.
        """
        day = self._today()
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                usd = worst_usd(self._spent(user, kernel, day))
                row = self._db.execute(
                    "INSERT INTO request (day, user, kernel, model, usd) VALUES (?, ?, ?, ?, ?)",
                    (day, user, kernel, model, usd),
                )
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        number = row.lastrowid
        assert number is not None
        return number

    def settle(self, number: int, usd: float) -> None:
        """The request has ended, and this is what it cost."""
        with self._lock:
            self._db.execute("UPDATE request SET usd = ?, settled = 1 WHERE id = ?", (usd, number))

    def spent(self, user: str, kernel: str = "") -> Spent:
        with self._lock:
            return self._spent(user, kernel, self._today())

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _spent(self, user: str, kernel: str, day: str) -> Spent:
        sums = (
            self._db.execute(f"SELECT total(usd) FROM request WHERE user = ? AND {column} = ?", (user, value))
            for column, value in (("day", day), ("kernel", kernel))
        )
        return Spent(*(found.fetchone()[0] for found in sums))

    def _today(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).date().isoformat()


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
                block = _object(data).get("content_block")
                if isinstance(block, dict) and str(block.get("type", "")).endswith("thinking"):
                    self._has_thought = True
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
                    names = [self._file, *(self._file.with_name(f"{self._file.name}.{n}") for n in range(1, KEPT + 1))]
                    for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
                        with contextlib.suppress(FileNotFoundError):
                            newer.replace(older)
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with os.fdopen(fd, "ab") as opened:
                opened.write(line)
