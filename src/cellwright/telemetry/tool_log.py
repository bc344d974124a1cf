"""The work of the tools as numbers: a log file for who wants one, and sums for `/status`.

The log never holds what a call was about: of each parameter its name, its size and a keyed hash (so that equal values
can be told, and nothing else), of a result its size. One JSON object a line:

    {"type": "tool_call", "at", "session", "id", "tool", "parameters": {name: {"chars", "hash"}}, "batch", "parallel",
     "status", "ms", "result_chars", "matches", "cpu_ms", "rss_kb"}
    {"type": "api_call", "at", "session", "model", "input_tokens", "output_tokens", "cost_usd", "request_id"}

`cpu_ms` and `rss_kb` are this process's, from the call's start to its end and at its end: with calls in parallel they
are shared. `matches` is null if a tool does not count any.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cellwright.events import Event, SubagentEvent, ToolEnd, ToolStart, TurnEnd, UserPrompt
from cellwright.sessions.project_writes import open_to_append

logger = logging.getLogger(__name__)

MATCHES = ("numMatches", "totalMatches", "total", "results", "files", "count")
"""Names under which tools' structured results tell how much they found: a number, or a list."""


class ToolSums(Struct):
    """One tool's calls so far. Times in milliseconds."""

    calls: int = 0
    failed: int = 0
    denied: int = 0
    total_ms: float = 0.0
    longest_ms: float = 0.0
    result_chars: int = 0

    def add(self, end: ToolEnd) -> None:
        self.calls += 1
        self.failed += end.status in ("error", "timeout")
        self.denied += end.status == "denied"
        self.total_ms += end.duration_ms
        self.longest_ms = max(self.longest_ms, end.duration_ms)
        self.result_chars += chars_of(end.content)


class _OpenCall(Struct):
    """A call that has begun."""

    parameters: Mapping[str, Any]
    batch: int
    parallel: bool
    cpu: float


class ToolLog(Struct, eq=False):
    """Follows the events of a conversation's runs. `path` None: only the sums are kept.

    `key` gives what parameters are hashed with; links that `project` brings are not followed to the file. From the agent's
    thread only.
    """

    path: Path | None = None
    key: Callable[[], bytes] = bytes
    sums: dict[str, ToolSums] = field(default_factory=dict)
    project: Path = Path()
    _session: str = ""
    _batch: int = 0
    _open: dict[str, _OpenCall] = field(default_factory=dict)
    _failed: bool = False

    def keep_in(self, path: Path | None, project: Path) -> None:
        """Write to the file `path` from now on; None: keep nothing."""
        self.path, self.project = path, project

    def beside(self) -> ToolLog:
        """A log for a run that goes on at the same time: the same file, sums and key."""
        return ToolLog(self.path, self.key, self.sums, self.project)

    def add(self, event: Event) -> None:
        """Take note of `event`. Never raises: a log that cannot be written must not end a run."""
        match event:
            case UserPrompt():
                self._session = event.session_id
            case ToolStart():
                self._batch += 1
                cpu = time.process_time()
                for call in event.calls:
                    self._open[call.id] = _OpenCall(call.tool_use["input"], self._batch, event.parallel, cpu)
            case ToolEnd():
                self.sums.setdefault(event.name, ToolSums()).add(event)
                self._write_call(event)
            case TurnEnd():
                self._write_request(event)
            case SubagentEvent():
                if not isinstance(event.event, UserPrompt):  # an agent works for the session
                    self.add(event.event)
            case _:
                pass

    def _write_call(self, end: ToolEnd) -> None:
        begun = self._open.pop(end.tool_use_id, None) or _OpenCall({}, self._batch, False, time.process_time())
        if self.path is None:
            return
        self._write(
            end.at,
            {
                "type": "tool_call",
                "id": end.tool_use_id,
                "tool": end.name,
                "parameters": {name: self._about(value) for name, value in begun.parameters.items()},
                "batch": begun.batch,
                "parallel": begun.parallel,
                "status": end.status,
                "ms": round(end.duration_ms, 2),
                "result_chars": chars_of(end.content),
                "matches": _matches(end.structured) if isinstance(end.structured, Mapping) else None,
                "cpu_ms": round((time.process_time() - begun.cpu) * 1000, 2),
                "rss_kb": _rss_kb(),
            },
        )

    def _write_request(self, turn: TurnEnd) -> None:
        if self.path is None or turn.replayed:
            return
        self._write(
            turn.at,
            {
                "type": "api_call",
                "model": turn.model,
                "input_tokens": turn.usage.get("input_tokens"),
                "output_tokens": turn.usage.get("output_tokens"),
                "cost_usd": turn.cost_usd,
                "request_id": turn.request_id,
            },
        )

    def _about(self, value: Any) -> dict[str, Any]:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        digest = hmac.new(self.key(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        return {"chars": len(text), "hash": digest[:16]}

    def _write(self, at: float, line: Mapping[str, Any]) -> None:
        assert self.path is not None
        encoded = json.dumps({"at": round(at, 3), "session": self._session, **line}, ensure_ascii=False).encode()
        try:
            # one write a line, at the end: several kernels may share the file
            descriptor = open_to_append(self.path, 0o600, top=self.project)
            try:
                os.write(descriptor, encoded + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._failed:
                logger.warning("the tool log %s cannot be written: %s", self.path, error)
            self._failed = True


def chars_of(content: str | list[dict[str, Any]]) -> int:
    """Count the characters of a result, pictures included as they are sent."""
    return len(content) if isinstance(content, str) else len(json.dumps(content, ensure_ascii=False))


def _matches(structured: Mapping[str, Any]) -> int | None:
    for name in MATCHES:
        value = structured.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, list | tuple):
            return len(value)
    return None


def _rss_kb() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):  # Linux alone tells it at no cost
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024
