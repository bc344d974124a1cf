"""A run as Claude Code writes it: `claude-json`, one result object, and `stream-json`, a line for each message.

The messages themselves are in `telemetry/claude_messages.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from msgspec import Struct

from cellwright.agent.structured_output import AnswerType
from cellwright.events import Event, RunEnd
from cellwright.telemetry.claude_messages import ClaudeMessages, Message
from cellwright.terminal.views.plain_view import Unseen


class ClaudeOutput(Struct, frozen=True, kw_only=True):
    """The things that such an output needs besides the events. `facts` gives what `system/init` says of the conversation."""

    out: TextIO
    facts: Callable[[], Mapping[str, Any]]
    answer_type: AnswerType | None = None
    partial_messages: bool = False

    def messages(self) -> ClaudeMessages:
        """Make the projection of a run's events."""
        return ClaudeMessages(self.facts, self.answer_type, partial_messages=self.partial_messages)


class ClaudeStreamView(Unseen):
    """A line for each message, as it comes."""

    def __init__(self, output: ClaudeOutput) -> None:
        self._out = output.out
        self._projection = output.messages()

    def emit(self, event: Event) -> None:
        for message in self._projection.messages(event):
            write_message(message, self._out)


class ClaudeJsonView(Unseen):
    """The result when the run is over, or with `all_messages` every message in one array."""

    def __init__(self, output: ClaudeOutput, *, all_messages: bool) -> None:
        self._out = output.out
        self._projection = output.messages()
        self._all_messages = all_messages
        self._messages: list[Message] = []

    def emit(self, event: Event) -> None:
        self._messages += self._projection.messages(event)
        if isinstance(event, RunEnd):
            shown: Any = self._messages if self._all_messages else self._messages[-1]
            write_message(shown, self._out)


def write_message(message: Any, out: TextIO) -> None:
    """Write it in one line as JavaScript does, since scripts look for `"type":"result"` with grep."""
    is_ascii = "utf" not in (out.encoding or "").lower()
    print(json.dumps(message, ensure_ascii=is_ascii, separators=(",", ":")), file=out, flush=True)
