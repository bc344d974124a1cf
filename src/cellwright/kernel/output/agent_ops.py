"""Events of agents that work for Claude, as the operations that their cards are drawn from.

One line for each call and for each message: the events that stream are left out, so bytes stay linear in what an agent did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.subagent import LINE_CHARS, AgentProgress, agent_state, call_line
from cellwright.events import (
    Call,
    ContextCompacted,
    Event,
    Notice,
    Retrying,
    RunEnd,
    SubagentEvent,
    ToolEnd,
    ToolStart,
    TurnEnd,
    UserPrompt,
)
from cellwright.kernel.output.protocol import Op
from cellwright.text import visible_line

TEXT_CHARS = 4_000
"""Of one message of an agent."""

AGENT_OPS = frozenset({"agent", "agent_line", "agent_state"})


class _Card(Struct):
    """The card of one agent's work: its number, and what it took so far."""

    number: int
    started: float
    progress: AgentProgress = field(default_factory=AgentProgress)


class AgentOps:
    """Turns events of agents into operations and hands each to `add`, in order."""

    def __init__(self, add: Callable[[Op], None]) -> None:
        self._add = add
        self._cards: dict[tuple[str, str], _Card] = {}

    def emit(self, event: SubagentEvent, parent: int | None = None) -> None:
        """Draw `event`; `parent` is the number of the card of the agent for whose call this one works."""
        card = self._cards.get((event.tool_use_id, event.agent_id)) or self._begin(event, parent)
        card.progress.take(event.event)
        match event.event:
            case ToolStart(calls=calls):
                for call in calls:
                    self._line(card, "call", call_line(call), call.id)
            case ToolEnd() as end:
                self._line(card, "end", "", end.tool_use_id, end.status, end.duration_ms)
            case TurnEnd() as turn:
                if text := _text(turn.message):
                    self._line(card, "text", text)
                self._state(card, "working", None)
            case RunEnd() as end:
                if end.error is not None and agent_state(end) == "failed":
                    self._line(card, "note", visible_line(str(end.error["message"]), LINE_CHARS))
                self._state(card, agent_state(end), end.duration_ms)
            case SubagentEvent() as inner:
                self.emit(inner, card.number)
            case other if note := _note(other):
                self._line(card, "note", visible_line(note, LINE_CHARS))

    def _begin(self, event: SubagentEvent, parent: int | None) -> _Card:
        card = _Card(len(self._cards), event.event.at or event.at)
        self._cards[(event.tool_use_id, event.agent_id)] = card
        self._add(
            {
                "op": "agent",
                "card": card.number,
                "tool": event.tool_use_id,
                "parent": parent,
                "agent": event.agent_id,
                "type": event.agent_type,
                "background": event.background,
                "at": card.started,
            }
        )
        return card

    def _line(
        self, card: _Card, kind: str, text: str, call: str = "", status: str = "", duration_ms: float = 0.0
    ) -> None:
        self._add(
            {
                "op": "agent_line",
                "card": card.number,
                "kind": kind,
                "text": text,
                "call": call,
                "status": status,
                "ms": duration_ms,
            }
        )

    def _state(self, card: _Card, state: str, duration_ms: float | None) -> None:
        self._add(
            {
                "op": "agent_state",
                "card": card.number,
                "state": state,
                "calls": card.progress.calls,
                "tokens": card.progress.tokens,
                "cost_usd": card.progress.cost_usd,
                "ms": duration_ms,
            }
        )


def drawn_of(event: SubagentEvent) -> SubagentEvent | None:
    """As much of `event` as is drawn, to be kept until it is; None where nothing of it is."""
    inner: Event | None
    match event.event:
        case UserPrompt() as prompt:
            inner = replace(prompt, prompt="")
        case ToolStart() as start:
            inner = replace(start, calls=tuple(_without_input(call) for call in start.calls))
        case ToolEnd() as end:
            inner = replace(end, content="", display=None, error=None, structured=None)
        case TurnEnd() as turn:
            inner = replace(turn, message={"role": "assistant", "content": _text(turn.message)})
        case RunEnd() as end:
            inner = replace(end, text="")
        case SubagentEvent() as nested:
            inner = drawn_of(nested)
        case other:
            inner = other if _note(other) else None
    return None if inner is None else replace(event, event=inner)


def _without_input(call: Call) -> Call:
    return Call({"id": call.id, "name": call.name}, call.title)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content", "")
    if isinstance(content, str):  # what `drawn_of` has kept of it
        return content
    text = "\n\n".join(str(block["text"]) for block in content if block["type"] == "text").strip()
    return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}\n[… {len(text) - TEXT_CHARS:,} characters more]"


def _note(event: Event) -> str:
    match event:
        case Notice(level="warning" | "error"):
            return event.message
        case Retrying():
            return f"{event.message} Retrying ({event.attempt} of {event.max_attempts})."
        case ContextCompacted(state="done"):
            return "Its earlier conversation was summed up."
    return ""
