"""Counting what is drawn of a run."""

from __future__ import annotations

from collections.abc import Callable

from cellwright.events import Event
from cellwright.kernel.output.protocol import Op
from cellwright.kernel.output.transcript_ops import TranscriptOps


class CountedDrawing(TranscriptOps):
    """Draws, and adds what it draws to `drawn`."""

    def __init__(self, add: Callable[[Op], None], drawn: list[Event]) -> None:
        super().__init__(add)
        self._drawn = drawn

    def emit(self, event: Event) -> None:
        self._drawn.append(event)
        super().emit(event)
