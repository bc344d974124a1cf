"""A run as JSON lines, kept for programs that come back: those of `--output-format json-lines`."""

from __future__ import annotations

from dataclasses import replace

from cellwright.events import Event, TextDelta, ThinkingDelta
from cellwright.telemetry.json_lines import JsonLines, Line


class LineLog:
    """Append-only. All of it on the agent's loop.

    Pieces of one text that come between two calls of `flush` are one line: a run of 20,000 of them is told in hundreds.
    """

    def __init__(self) -> None:
        self._view = JsonLines()
        self._lines: list[Line] = []
        self._pending: TextDelta | ThinkingDelta | None = None

    def add(self, event: Event) -> None:
        """Append what `event` comes to."""
        if not isinstance(event, TextDelta | ThinkingDelta):
            self.flush()
            self._lines += self._view.lines(event)
            return
        pending = self._pending
        if pending is not None and (type(pending), pending.index) == (type(event), event.index):
            self._pending = replace(pending, text=pending.text + event.text)
            return
        self.flush()
        self._pending = event

    def flush(self) -> None:
        """Have everything among the lines that was added."""
        if self._pending is not None:
            self._lines += self._view.lines(self._pending)
            self._pending = None

    def after(self, have: int) -> list[Line]:
        """The lines after the first `have`."""
        return self._lines[have:]

    def __len__(self) -> int:
        return len(self._lines)
