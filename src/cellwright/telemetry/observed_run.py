"""`ObservedRun`: the part of a run that telemetry needs to know."""

from __future__ import annotations

from typing import Protocol


class ObservedRun(Protocol):
    """A run of a conversation, as its observers see it."""

    @property
    def id(self) -> str:
        """The same in every event, line and span of the run."""

    @property
    def origin(self) -> str:
        """The place where it was asked for: a cell, the panel, a program."""
