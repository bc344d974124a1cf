"""The work of agents within a run: a card for each, with a line for each of its calls and messages.

The events that stream are left out, so a card stays linear in what its agent did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from cellwright.agent.subagent import LINE_CHARS, AgentProgress, AgentState, agent_state, call_line
from cellwright.events import (
    ContextCompacted,
    Event,
    Notice,
    Retrying,
    RunEnd,
    SubagentEvent,
    ToolEnd,
    ToolStart,
    ToolStatus,
    TurnEnd,
)
from cellwright.telemetry.view_limits import DRAWN
from cellwright.text import visible_line


class AgentLine(Struct, frozen=True):
    """One line of a card; "end" is the end of the call `call`, whose line came before."""

    kind: Literal["call", "end", "text", "note"]
    text: str
    call: str = ""
    status: ToolStatus | Literal[""] = ""
    duration_ms: float = 0.0


class AgentCard(Struct, eq=False):
    """The work of one agent for the call `tool_use_id`; `parent` is the card of the agent whose call that is.

    `duration_ms` is None while it works; `reported`: it has ended a message, so there is something to count.
    """

    number: int
    tool_use_id: str
    agent_id: str
    agent_type: str
    background: bool
    started: float
    parent: AgentCard | None = None
    lines: list[AgentLine] = field(default_factory=list)
    progress: AgentProgress = field(default_factory=AgentProgress)
    state: AgentState = "working"
    duration_ms: float | None = None
    reported: bool = False

    def take(self, event: Event) -> None:
        """Take in an event of the agent's own session."""
        self.progress.take(event)
        match event:
            case ToolStart(calls=calls):
                self.lines += [AgentLine("call", call_line(call), call.id) for call in calls]
            case ToolEnd() as end:
                self.lines.append(AgentLine("end", "", end.tool_use_id, end.status, end.duration_ms))
            case TurnEnd() as turn:
                self.reported = True
                if text := message_text(turn.message):
                    self.lines.append(AgentLine("text", text))
            case RunEnd() as end:
                self.reported, self.state, self.duration_ms = True, agent_state(end), end.duration_ms
                if end.error is not None and self.state == "failed":
                    self.lines.append(AgentLine("note", visible_line(str(end.error["message"]), LINE_CHARS)))
            case SubagentEvent():
                pass  # the agent of its own has a card of its own
            case _ if note := note_of(event):
                self.lines.append(AgentLine("note", visible_line(note, LINE_CHARS)))


def message_text(message: Mapping[str, Any]) -> str:
    """The text of an agent's message, as much of it as is shown."""
    content = message.get("content", "")
    if isinstance(content, str):  # what is kept of it until it is drawn
        return content
    text = "\n\n".join(str(block["text"]) for block in content if block["type"] == "text").strip()
    more = len(text) - DRAWN.agent_message
    return text if more <= 0 else f"{text[: DRAWN.agent_message]}\n[… {more:,} characters more]"


def note_of(event: Event) -> str:
    """The words for an event that is a line of its own; "" for any other."""
    match event:
        case Notice(level="warning" | "error"):
            return event.message
        case Retrying():
            return f"{event.message} Retrying ({event.attempt} of {event.max_attempts})."
        case ContextCompacted(state="done"):
            return "Its earlier conversation was summed up."
    return ""
