"""The cost of an answer while it streams, or when it breaks off: estimated from what has come."""

from __future__ import annotations

import math
from typing import Any

from cellwright.events import TextDelta, ThinkingDelta, ToolInputDelta
from cellwright.model.pricing import cost_usd
from cellwright.model.provider import BlockEnd, MessageStart
from cellwright.sessions.cut_answer import MIN_CHARS_PER_TOKEN


class PartialUsage:
    """Follows an answer from its `MessageStart`. The API says only at its end how much output was written."""

    def __init__(self) -> None:
        self._start: MessageStart | None = None
        self._chars = 0

    def begin(self, start: MessageStart) -> None:
        self._start, self._chars = start, 0

    def add(self, event: BlockEnd | TextDelta | ThinkingDelta | ToolInputDelta) -> None:
        if not isinstance(event, BlockEnd):  # which repeats what its deltas said
            self._chars += len(event.partial_json if isinstance(event, ToolInputDelta) else event.text)

    def end(self) -> None:
        """It arrived: its own usage says what it cost."""
        self._start = None

    @property
    def is_open(self) -> bool:
        """True when an answer has begun that has not ended."""
        return self._start is not None

    def so_far(self) -> tuple[dict[str, Any], float | None] | None:
        """Usage (its output estimated) and cost of the open answer as far as it came; None when none is open."""
        start = self._start
        if start is None:
            return None
        written = max(start.usage.get("output_tokens") or 0, math.ceil(self._chars / MIN_CHARS_PER_TOKEN))
        usage = {**start.usage, "output_tokens": written}
        return usage, cost_usd(start.model, usage)

    def lost(self) -> tuple[dict[str, Any], float | None] | None:
        """The same of an answer that broke off, told once."""
        lost, self._start = self.so_far(), None
        return lost
