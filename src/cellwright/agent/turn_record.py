"""Checkpoints as the loop knows them: a turn begins, calls run, the turn ends, and something has changed or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from cellwright.events import TurnChanged

if TYPE_CHECKING:
    from cellwright.agent.tool import Tool
    from cellwright.sessions.session import Session


class TurnRecord(Protocol):
    """The record kept of one run. None of it raises: a turn that cannot be taken back is still a turn."""

    async def before_call(self, tool: Tool, tool_input: Mapping[str, Any]) -> None:
        """`tool` runs now, with `tool_input`."""

    async def after_call(self, tool: Tool) -> None:
        """The call of `tool` is over, and so are the hooks that were told of it."""

    def end(self) -> TurnChanged | None:
        """The run is over; what it changed, if anything."""


class TurnRecords(Protocol):
    """The keeper of what runs change."""

    def begin(self, session: Session, prompt: str, seq: int) -> TurnRecord:
        """A run of `prompt` begins; `seq` is the number of the last event of `session` before it."""


class _NoCheckpoints:
    def begin(self, _session: Session, _prompt: str, _seq: int) -> TurnRecord:
        return self

    async def before_call(self, _tool: Tool, _tool_input: Mapping[str, Any]) -> None:
        pass

    async def after_call(self, _tool: Tool) -> None:
        pass

    def end(self) -> TurnChanged | None:
        return None


NO_CHECKPOINTS = _NoCheckpoints()
"""The record for where turns cannot be taken back."""
