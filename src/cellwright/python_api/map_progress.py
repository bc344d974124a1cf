"""The progress of a map, in one line that is written over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from cellwright.text import dollars

SECONDS_BETWEEN_LINES = 10.0
"""In a log, where a line cannot be written over."""

SECONDS_BETWEEN_CHANGES = 0.25
BAR_CELLS = 24


class Progress:
    """Counts answers, and says on `stream` how many there are; None: nowhere.

    `overwrites`: where it writes, a carriage return begins the line anew.
    """

    def __init__(
        self, total: int, stream: TextIO | None, *, overwrites: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self.cost_usd: float | None = 0.0
        self.note = ""
        self._stream = stream
        self._overwrites = overwrites
        self._now = now
        self._began = now()
        self._asked = 0
        self._shown_at = float("-inf")
        self._width = 0

    def keep(self, answers: int) -> None:
        """These were answered before."""
        self.done += answers

    def count(self, cost_usd: float | None, *, failed: bool) -> None:
        """One more prompt has come to its end."""
        self.done += 1
        self._asked += 1
        self.failed += failed
        both = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = self.cost_usd + cost_usd if both else None  # type: ignore[operator]
        self.show()

    def show(self, *, at_once: bool = False) -> None:
        """Write the line, unless that was done just now."""
        pause = SECONDS_BETWEEN_CHANGES if self._overwrites else SECONDS_BETWEEN_LINES
        if not at_once and self._now() - self._shown_at < pause:
            return
        self._shown_at = self._now()
        line = self.line()
        if self._overwrites:
            self._write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._write(f"{line}\n")

    def end(self) -> None:
        """Write the line for the last time."""
        self.show(at_once=True)
        if self._overwrites:
            self._write("\n")

    def line(self) -> str:
        """The progress so far, as far as it is known."""
        filled = BAR_CELLS * self.done // self.total if self.total else BAR_CELLS
        parts = [f"{'━' * filled}{'─' * (BAR_CELLS - filled)} {self.done:,} of {self.total:,}"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.cost_usd:
            parts.append(dollars(self.cost_usd))
        if left := self._left():
            parts.append(left)
        if self.note:
            parts.append(self.note)
        return " · ".join(parts)

    def _left(self) -> str:
        remaining = self.total - self.done
        if not (remaining and self._asked):
            return ""
        seconds = (self._now() - self._began) / self._asked * remaining
        return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


def progress_for(total: int, *, shown: bool, in_notebook: bool) -> Progress:
    """The progress of `total` prompts: in the cell, on the terminal, or line by line in a log."""
    stream = sys.stdout if in_notebook else sys.stderr
    return Progress(total, stream if shown else None, overwrites=in_notebook or stream.isatty())
