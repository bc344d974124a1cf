"""The answer that is streaming, and what it cost should it never arrive."""

from __future__ import annotations

import math
from typing import Any

from cellwright.events import TextDelta, ThinkingDelta, ToolInputDelta
from cellwright.model.pricing import cost_usd
from cellwright.model.provider import MessageStart

CHARS_A_TOKEN = 3
"""Fewer than in most text: what was spent is rather taken too high than too low."""


class OpenAnswer:
    """Follows an answer from its `MessageStart`. The API says only at its end how much output was written."""

    def __init__(self) -> None:
        self._start: MessageStart | None = None
        self._chars = 0

    def begin(self, start: MessageStart) -> None:
        self._start, self._chars = start, 0

    def add(self, delta: TextDelta | ThinkingDelta | ToolInputDelta) -> None:
        self._chars += len(delta.partial_json if isinstance(delta, ToolInputDelta) else delta.text)

    def end(self) -> None:
        """It arrived: its own usage says what it cost."""
        self._start = None

    @property
    def is_open(self) -> bool:
        """Whether an answer has begun that has not ended."""
        return self._start is not None

    def lost(self) -> tuple[dict[str, Any], float | None] | None:
        """Usage (its output estimated) and cost of an answer that broke off, told once; None when none was open."""
        start, self._start = self._start, None
        if start is None:
            return None
        written = max(start.usage.get("output_tokens") or 0, math.ceil(self._chars / CHARS_A_TOKEN))
        usage = {**start.usage, "output_tokens": written}
        return usage, cost_usd(start.model, usage)
