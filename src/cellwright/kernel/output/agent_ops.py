"""The cards of agents that work for Claude, as the operations that they are drawn from."""

from __future__ import annotations

from msgspec.structs import replace

from cellwright.events import Call, Event, RunEnd, SubagentEvent, ToolEnd, ToolStart, TurnEnd, UserPrompt
from cellwright.kernel.output.protocol import Op
from cellwright.telemetry.run_state import AgentCard, AgentLine, message_text, note_of

AGENT_OPS = frozenset({"agent", "agent_line", "agent_state"})


def agent_op(card: AgentCard) -> Op:
    return {
        "op": "agent",
        "card": card.number,
        "tool": card.tool_use_id,
        "parent": None if card.parent is None else card.parent.number,
        "agent": card.agent_id,
        "type": card.agent_type,
        "background": card.background,
        "at": card.started,
    }


def agent_line_op(card: AgentCard, line: AgentLine) -> Op:
    return {
        "op": "agent_line",
        "card": card.number,
        "kind": line.kind,
        "text": line.text,
        "call": line.call,
        "status": line.status,
        "ms": line.duration_ms,
    }


def agent_state_op(card: AgentCard) -> Op:
    return {
        "op": "agent_state",
        "card": card.number,
        "state": card.state,
        "calls": card.progress.calls,
        "tokens": card.progress.tokens,
        "cost_usd": card.progress.cost_usd,
        "ms": card.duration_ms,
    }


def drawn_of(event: SubagentEvent) -> SubagentEvent | None:
    """As much of `event` as is drawn, to be kept until it is; None where nothing of it is."""
    inner: Event | None
    match event.event:
        case UserPrompt() as prompt:
            inner = replace(prompt, prompt="")
        case ToolStart() as start:
            inner = replace(
                start, calls=tuple(Call({"id": call.id, "name": call.name}, call.title) for call in start.calls)
            )
        case ToolEnd() as end:
            inner = replace(end, content="", display=None, error=None, structured=None)
        case TurnEnd() as turn:
            inner = replace(turn, message={"role": "assistant", "content": message_text(turn.message)})
        case RunEnd() as end:
            inner = replace(end, text="")
        case SubagentEvent() as nested:
            inner = drawn_of(nested)
        case other:
            inner = other if note_of(other) else None
    return None if inner is None else replace(event, event=inner)
