"""Events as the transcript operations of `docs/protocol/transcript.md`: what the browser draws.

Bytes stay linear in what happened: a call's input and result go over once, long ones cut with the cut said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, assert_never

from msgspec.structs import replace

from cellwright.conversation.user_answers import ANSWER_FIELDS, choices
from cellwright.events import (
    Answered,
    Asked,
    Call,
    Changed,
    CheckedNumbers,
    ContextAttached,
    ContextCompacted,
    Decided,
    Event,
    ExtensionsLoaded,
    FollowingCall,
    ModeChanged,
    Notice,
    Number,
    NumberSource,
    NumbersTraced,
    QuestionKind,
    Retrying,
    RunEnd,
    Steered,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    TodosChanged,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    TurnChanged,
    TurnEnd,
    UserPrompt,
    step_title,
)
from cellwright.kernel.output.protocol import Op
from cellwright.model.models import limits
from cellwright.telemetry.run_state import AgentCard, AgentLine, RunState, Totals, message_text, note_of, text_of
from cellwright.telemetry.view_limits import DRAWN
from cellwright.text import lazy_pattern, word_end

AGENT_OPS = frozenset({"agent", "agent_line", "agent_state"})

DISPLAY_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "text/plain")

QUIET_OPS = frozenset(
    {
        "thinking",
        "tool_input",
        "tool",
        "output",
        "display",
        "tool_end",
        "turn",
        "decided",
        "todos",
        "numbers",
        "changes",
        "told",
        "compacted",
        *AGENT_OPS,
    }
)
"""The operations a quiet cell does not show. The answer and what of it is void are for every cell."""


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


def cut(text: str, limit: int) -> str:
    """`text`, or its beginning and what is missing."""
    if len(text) <= limit:
        return text
    end = word_end(text, limit)
    return f"{text[:end]}\n[… {len(text) - end:,} characters more]"


def shortened(value: Any, limit: int = DRAWN.input) -> Any:
    """JSON with its long strings cut."""
    if isinstance(value, str):
        return cut(value, limit)
    if isinstance(value, Mapping):
        return {key: shortened(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item, limit) for item in value]
    return value


def shown_input(name: str, tool_input: Any) -> Any:
    """The input of a call of the tool `name` as it is shown."""
    return shortened(tool_input, DRAWN.code if name in ("Python", "Branch") else DRAWN.input)


def displayed(event: ToolProgress) -> dict[str, Any]:
    """Pick the parts of a display that are shown live; of user code's pictures alone, the rest is among its text."""
    shown = {kind: value for kind, value in (event.output or {}).items() if kind in DISPLAY_TYPES}
    is_text = event.place is not None and not any(kind.startswith("image/") for kind in shown)
    return {} if is_text else shown


class TranscriptOps:
    """Turns the events of one run into operations and hands each to `add`, in order."""

    def __init__(self, add: Callable[[Op], None]) -> None:
        self._add = add
        self._state = RunState()
        self._lines_drawn: dict[int, int] = {}
        """The number of lines that were drawn of each agent's card."""

    def emit(self, event: Event) -> None:  # noqa: C901  one arm for each event
        state = self._state
        model = state.model
        state.take(event)
        match event:
            case TextDelta():
                self._add({"op": "text", "block": state.streaming[event.index].block, "text": event.text})
            case ThinkingDelta():
                block = state.streaming[event.index].block
                self._add({"op": "thinking", "block": block, "text": event.text, "at": event.at})
            case ToolInputDelta():
                chars = state.calls[event.tool_use_id].input_chars
                self._add({"op": "tool_input", "id": event.tool_use_id, "name": event.name, "chars": chars})
            case SubagentEvent():
                self._draw_agent(event)
            case TurnEnd():
                if event.stop_reason == "refusal":
                    self._drop()
                if model != state.model:
                    self._add({"op": "model", "model": state.model})
                self._add(turn_op(event, Totals().plus(event)))
            case Retrying():
                self._drop()
                self._add(retry_op(event))
            case _:
                for op in ops_of(event, state):
                    self._add(op)
        if isinstance(event, RunEnd):
            self._state = RunState()  # nothing comes after it, and the log is kept for hours

    def _drop(self) -> None:
        void = self._state.void
        if void.blocks or void.calls:
            self._add({"op": "drop", "blocks": list(void.blocks), "tools": list(void.calls)})

    def _draw_agent(self, event: SubagentEvent) -> None:
        card = self._state.cards[(event.tool_use_id, event.agent_id)]
        if card.number not in self._lines_drawn:
            self._add(agent_op(card))
        for line in card.lines[self._lines_drawn.get(card.number, 0) :]:
            self._add(agent_line_op(card, line))
        self._lines_drawn[card.number] = len(card.lines)
        match event.event:
            case TurnEnd() | RunEnd():
                self._add(agent_state_op(card))
            case SubagentEvent() as inner:
                self._draw_agent(inner)
            case _:
                pass


def ops_of(event: Event, state: RunState) -> Iterator[Op]:
    """Draw an event that is no piece of what streams; `state` has taken it in."""
    match event:
        case ToolStart():
            yield from (call_op(call, event) for call in event.calls)
        case ToolEnd():
            call = state.calls[event.tool_use_id].call
            yield tool_end_op(event, "" if call is None else call.title)
        case ToolProgress():
            if shown := displayed(event):
                yield {"op": "display", "id": event.tool_use_id, "data": shown}
            if text := event.text or (event.message and f"{event.message}\n"):
                yield {"op": "output", "id": event.tool_use_id, "text": text}
        case Asked():
            yield ask_op(event)
        case Answered():
            asked = state.asked(event)
            yield answer_op(event, "permission" if asked is None else asked.kind)
        case ExtensionsLoaded():
            pass  # notices say what is missing
        case TextDelta() | ThinkingDelta() | ToolInputDelta() | SubagentEvent() | TurnEnd() | Retrying():
            pass  # pieces of what streams
        case _:
            yield _plain(event)


def call_op(call: Call, start: ToolStart) -> Op:
    return {
        "op": "tool",
        "id": call.id,
        "name": call.name,
        "title": step_title(call.name, call.title, "running"),
        "input": shown_input(call.name, call.tool_use["input"]),
        "parallel": start.parallel,
        # of a batch it is known for all of its calls together
        "estimate": start.estimated_seconds if len(start.calls) == 1 else None,
        "at": start.at,
    }


def _plain(  # noqa: C901  one arm for each event
    event: UserPrompt
    | ContextAttached
    | Decided
    | TodosChanged
    | ModeChanged
    | Steered
    | Notice
    | NumbersTraced
    | TurnChanged
    | ContextCompacted
    | RunEnd,
) -> Op:
    """The operation of an event that needs nothing but itself."""
    match event:
        case ContextAttached():
            return _context_op(event)
        case UserPrompt():
            return {
                "op": "run",
                "model": event.model,
                "mode": event.mode,
                "session": event.session_id,
                "started": event.at,
            }
        case Decided():
            return {
                "op": "decided",
                "tool": event.tool_use_id,
                "behavior": event.behavior,
                "by": event.by,
                "reason": event.reason,
                "rule": event.rule,
            }
        case TodosChanged():
            return {"op": "todos", "todos": [dict(todo) for todo in event.todos]}
        case ModeChanged():
            return {"op": "mode", "mode": event.mode}
        case Steered():
            return {
                "op": "steer",
                "id": event.steer_id,
                "text": event.text,
                "state": event.state,
                "how": event.how,
                "at": event.at,
            }
        case Notice():
            return {
                "op": "notice",
                "level": event.level,
                "text": event.message,
                **({"waits": True} if event.waits else {}),
            }
        case ContextCompacted():
            return compacted_op(event)
        case NumbersTraced():
            names = [
                {"text": each.text, "from_end": each.from_end, "words": each.words, "code": each.code}
                for each in event.names
            ]
            return {
                "op": "numbers",
                "answer": event.answer,
                "check": event.check,
                "numbers": [_number(number) for number in event.numbers[: DRAWN.numbers]],
                "checked": None if event.checked is None else _checked(event.checked),
                **({"names": names} if names else {}),
            }
        case TurnChanged():
            return _changes(event)
        case RunEnd():
            return {
                "op": "end",
                "stop_reason": event.stop_reason,
                "cost_usd": event.cost_usd,
                "session_cost_usd": event.session_cost_usd,
                "ms": event.duration_ms,
                "error": _code_and_message(event.error),
            }
        case _:
            assert_never(event)


def compacted_op(event: ContextCompacted) -> Op:
    return {
        "op": "compacted",
        "state": event.state,
        "trigger": event.trigger,
        "before": event.tokens_before,
        "after": event.tokens_after,
        "cost_usd": event.cost_usd,
        "summary": cut(event.summary, DRAWN.context),
        "reason": cut(event.reason, DRAWN.result),
    }


def _changes(event: TurnChanged) -> Op:
    return {
        "op": "changes",
        "turn": event.turn,
        "files": [_changed(file) for file in event.files],
        "cells": [_changed(cell) for cell in event.cells],
        "effects": [cut(effect, DRAWN.effect) for effect in event.effects[: DRAWN.number_of_effects]],
        "not_kept": list(event.not_kept),
    }


def _number(number: Number) -> Op:
    return {
        "text": number.text,
        "from_end": number.from_end,
        "verdict": number.verdict,
        "words": number.words,
        "marked": number.marked,
        "source": _place(number.source),
    }


def _checked(checked: CheckedNumbers) -> Op:
    numbers = [
        {"number": each.number, "agrees": each.agrees, "words": each.words, "source": _place(each.source)}
        for each in checked.numbers
    ]
    return {"answer": checked.answer, "numbers": numbers}


def _place(source: NumberSource | None) -> Op | None:
    """The place that can be gone to: the call that gave it, or the file or the cell."""
    if source is None:
        return None
    call = source.id if source.kind in ("output", "file", "code") else ""
    cell = source.id if source.kind == "cell" else ""
    return {"quote": source.text, "call": call, "cell": cell, "path": source.path}


def _changed(what: Changed) -> Op:
    return {"where": what.where, "kind": what.kind, "added": what.added, "removed": what.removed}


def _context_op(event: ContextAttached) -> Op:
    parts = [
        {
            "title": part.title,
            "kind": part.kind,
            "text": cut(part.text, DRAWN.context),
            "chars": part.chars,
            "tokens": part.tokens,
        }
        for part in event.parts
    ]
    return {"op": "told", "tokens": event.tokens, "parts": parts}


def ask_op(event: Asked) -> Op:
    tool_input = event.tool_use["input"]
    editable = len(json.dumps(tool_input)) <= DRAWN.editable_input_bytes
    return {
        "op": "ask",
        "question": event.question_id,
        "tool": str(event.tool_use["id"]),
        "name": str(event.tool_use["name"]),
        "input": tool_input if editable else None,
        "kind": event.kind,
        "title": event.preview.title,
        "detail": event.preview.detail,
        "detail_kind": event.preview.kind,
        "path": event.preview.path,
        "warning": event.preview.warning,
        "reason": event.reason,
        "choices": choices(event.kind, event.suggestions),
        "next": [_next_call(call) for call in event.following],
        "at": event.at,
    }


def _next_call(call: FollowingCall) -> dict[str, Any]:
    return {
        "tool": str(call.tool_use["id"]),
        "title": call.preview.title,
        "detail": call.preview.detail,
        "detail_kind": call.preview.kind,
        "path": call.preview.path,
        "warning": call.preview.warning,
    }


def answer_op(event: Answered, kind: QuestionKind) -> Op:
    given = event.updated_input or {}
    answer = {name: given[name] for name in ANSWER_FIELDS.get(kind, ()) if name in given}
    return {
        "op": "answered",
        "question": event.question_id,
        "tool": event.tool_use_id,
        "behavior": event.behavior,
        "scope": event.scope,
        "by": event.by,
        "reason": event.reason,
        "rules": list(event.rules),
        "edited": event.edited,
        "input": shortened(answer) or None,
    }


def tool_end_op(event: ToolEnd, title: str) -> Op:
    display = event.display or {}
    diff = display.get("diff")
    return {
        "op": "tool_end",
        "id": event.tool_use_id,
        "status": event.status,
        "ms": event.duration_ms,
        "result": cut(text_of(event.content), DRAWN.result),
        "diff": cut(diff, DRAWN.diff) if isinstance(diff, str) else None,
        "lines": changed_lines(diff) if isinstance(diff, str) else None,
        "error": _code_and_message(event.error),
        "title": end_title(event.name, display.get("title") or title, event.status),
    }


def end_title(name: str, title: object, status: str) -> str:
    """The title of a call that is over; "" where none is known."""
    return step_title(name, str(title), status) if title else ""


_HUNK = lazy_pattern(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def changed_lines(diff: str) -> dict[str, int]:
    """Count the lines that a unified diff adds and removes.

    >>> changed_lines("--- a/x\\n+++ b/x\\n@@ -1 +1,2 @@\\n-a\\n+b\\n+++ c\\n")
    {'added': 2, 'removed': 1}
    """
    added = removed = old = new = 0
    for line in diff.split("\n"):
        # the header's numbers say what is content: a removed line may look like a header
        if old + new <= 0:
            if found := _HUNK.match(line):
                old, new = (1 if size is None else int(size) for size in found.groups())
        elif line.startswith("+"):
            added, new = added + 1, new - 1
        elif line.startswith("-"):
            removed, old = removed + 1, old - 1
        elif not line.startswith("\\"):
            old, new = old - 1, new - 1
    return {"added": added, "removed": removed}


def turn_op(event: TurnEnd, totals: Totals) -> Op:
    """Draw the end of a message that took `totals`, or of the last of several that did together."""
    model = limits(event.model)
    return {
        "op": "turn",
        "cost_usd": totals.cost_usd,
        "context_tokens": event.context_tokens,
        "context_window": model.context_window if model.known else None,
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "cache_read_tokens": totals.cache_read_tokens,
    }


def retry_op(event: Retrying) -> Op:
    return {
        "op": "retry",
        "attempt": event.attempt,
        "of": event.max_attempts,
        "wait": event.wait_seconds,
        "code": event.code,
        "message": event.message,
        "at": event.at,
    }


def _code_and_message(error: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if error is None else {"code": error["code"], "message": cut(str(error["message"]), DRAWN.result)}
