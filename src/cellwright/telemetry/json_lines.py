"""A run as JSON lines: `{"type", "timestamp", "data"}`, one for each thing that happened, for programs to read.

Six types carry most of it (`tool_execution_start`, `tool_progress`, `tool_completion`, `claude_response_chunk`,
`session_complete`, `error`); further ones carry what these cannot (`thinking_chunk`, `permission_request`,
`permission_decision`, `question`, `todo`, `mode`, `steer`, `context_told`, `extensions_loaded`, `context_compacted`,
`turn_changed`, `retry`, `notice`, `subagent_event`). A reader ignores types and fields that it does not know.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from msgspec import to_builtins

from cellwright.events import (
    Answered,
    Asked,
    Changed,
    ContextAttached,
    ContextCompacted,
    Decided,
    Event,
    ExtensionsLoaded,
    ModeChanged,
    Notice,
    Number,
    NumbersTraced,
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
)

Line = dict[str, Any]

TOKEN_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class JsonLines:
    """Turns the events of one run into lines. It holds what counts over the run: the chunks of the answer."""

    def __init__(self) -> None:
        self._next_chunk = 0
        self._first_chunk_of_message: int | None = None
        self._agents: dict[str, JsonLines] = {}

    def lines(self, event: Event) -> list[Line]:
        """The lines that `event` comes to: mostly one, sometimes none."""
        at = datetime.datetime.fromtimestamp(event.at, datetime.UTC)
        timestamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return [{"type": kind, "timestamp": timestamp, "data": data} for kind, data in self._data(event)]

    def _data(self, event: Event) -> Iterator[tuple[str, Line]]:  # noqa: C901  one arm for each event
        match event:
            case UserPrompt() | ToolInputDelta():
                pass  # the reader wrote the one, and gets the other whole with `tool_execution_start`
            case ContextAttached():
                yield "context_told", _context_line(event)
            case ExtensionsLoaded():
                missing = [{"kind": each.kind, "name": each.name, "reason": each.reason} for each in event.not_loaded]
                yield "extensions_loaded", {"mcp_servers": dict(event.servers), "not_loaded": missing}
            case TextDelta():
                yield "claude_response_chunk", self._chunk(event.text)
            case ThinkingDelta():
                yield "thinking_chunk", {"chunk": event.text}
            case ToolStart():
                yield "tool_execution_start", _tool_start(event)
            case ToolProgress():
                yield "tool_progress", _tool_progress(event)
            case ToolEnd():
                yield "tool_completion", _tool_end(event)
            case Decided():
                if event.behavior != "ask":  # what is asked comes with its question
                    yield "permission_decision", _decided(event)
            case TodosChanged():
                yield "todo", {"todos": [dict(todo) for todo in event.todos]}
            case ModeChanged():
                yield "mode", {"mode": event.mode}
            case Steered():
                yield "steer", {"id": event.steer_id, "text": event.text, "state": event.state, "how": event.how}
            case Asked():
                yield "question" if event.kind == "question" else "permission_request", _question_line(event)
            case Answered():
                yield "permission_decision", _answer_line(event)
            case TurnEnd():
                if self._first_chunk_of_message is not None:
                    # its own chunk: to mark the last one with text, each would have to wait for the next
                    yield "claude_response_chunk", self._chunk("", is_final=True)
                    self._first_chunk_of_message = None
            case Retrying():
                yield "retry", self._retry(event)
            case Notice():
                yield "notice", {"level": event.level, "message": event.message}
            case ContextCompacted():
                if event.state == "done":
                    yield "context_compacted", _compacted(event)
            case NumbersTraced():
                yield "numbers", {"numbers": [number_line(number) for number in event.numbers]}
            case TurnChanged():
                yield "turn_changed", _turn_changed(event)
            case SubagentEvent():
                about = {"tool_call_id": event.tool_use_id, "agent_id": event.agent_id, "agent_type": event.agent_type}
                for line in self._agents.setdefault(event.agent_id, JsonLines()).lines(event.event):
                    yield "subagent_event", {**about, "event": line}
            case RunEnd():
                if event.error is not None:
                    yield "error", _error(event.error)
                yield "session_complete", _run_end(event)
            case _:
                assert_never(event)

    def _chunk(self, text: str, *, is_final: bool = False) -> Line:
        index = self._next_chunk
        self._next_chunk += 1
        if self._first_chunk_of_message is None:
            self._first_chunk_of_message = index
        return {"chunk": text, "chunk_index": index, "is_final": is_final}

    def _retry(self, event: Retrying) -> Line:
        void_from = self._first_chunk_of_message
        self._first_chunk_of_message = None
        return {
            "attempt": event.attempt,
            "max_attempts": event.max_attempts,
            "wait_seconds": event.wait_seconds,
            "error_code": event.code,
            "error_message": event.message,
            "void_from_chunk_index": void_from,
        }


def whole_run(lines: Sequence[Line]) -> Line:
    """The lines of a run that ended as one object, for the format `json`."""
    end = lines[-1]["data"]
    return {"events": list(lines), "final_response": end["final_response"], "metadata": end["metadata"]}


def _tool_start(event: ToolStart) -> Line:
    return {
        "tool_calls": [
            {"id": call.id, "tool_name": call.name, "parameters": call.tool_use["input"]} for call in event.calls
        ],
        "parallel_execution": event.parallel,
        "estimated_duration_seconds": None if event.estimated_seconds is None else round(event.estimated_seconds, 3),
    }


def _tool_progress(event: ToolProgress) -> Line:
    kinds = ", ".join(event.output or ())
    data = {
        "tool_call_id": event.tool_use_id,
        "status": "running",
        "message": event.message or event.text or (kinds and f"displayed {kinds}"),
    }
    return data if event.fraction is None else {**data, "progress_percentage": round(event.fraction * 100, 1)}


def _tool_end(event: ToolEnd) -> Line:
    data = {
        "tool_call_id": event.tool_use_id,
        "status": event.status,
        "execution_time_ms": round(event.duration_ms, 1),
        "result": event.content,
    }
    if event.structured is not None:
        data["structured"] = event.structured
    return data if event.error is None else {**data, "error": dict(event.error)}


def _question_line(event: Asked) -> Line:
    return {
        "question_id": event.question_id,
        "kind": event.kind,
        "tool_call_id": event.tool_use["id"],
        "tool_name": event.tool_use["name"],
        "parameters": event.tool_use["input"],
        "title": event.preview.title,
        "detail": event.preview.detail,
        "warning": event.preview.warning,
        "reason": event.reason,
        "suggestions": [
            {"rules": list(suggestion.rules), "scope": suggestion.scope, "label": suggestion.label}
            for suggestion in event.suggestions
        ],
    }


def _decided(event: Decided) -> Line:
    return {
        "question_id": None,
        "tool_call_id": event.tool_use_id,
        "behavior": event.behavior,
        "by": event.by,
        "scope": "once",
        "reason": event.reason,
        "rules": [event.rule] if event.rule else [],
        "edited": False,
    }


def _answer_line(event: Answered) -> Line:
    data = {
        "question_id": event.question_id,
        "tool_call_id": event.tool_use_id,
        "behavior": event.behavior,
        "by": event.by,
        "scope": event.scope,
        "reason": event.reason,
        "rules": list(event.rules),
        "edited": event.edited,
    }
    return data if event.updated_input is None else {**data, "updated_parameters": dict(event.updated_input)}


def _error(error: Mapping[str, Any]) -> Line:
    data = {
        "error_code": error["code"],
        "error_message": error["message"],
        "error_details": error["details"],
        "recoverable": error["recoverable"],
    }
    tool_call_id = error["details"].get("tool_use_id")
    return data if tool_call_id is None else {**data, "tool_call_id": tool_call_id}


def number_line(number: Number) -> Line:
    """Return the number with its verdict; `source` is null if none was found, `path` is its field in typed answers."""
    line = {
        "text": number.text,
        "value": number.value,
        "verdict": number.verdict,
        "words": number.words,
        "marked": number.marked,
        "source": None if number.source is None else to_builtins(number.source),
    }
    return {**line, "path": number.path} if number.path else line


def _turn_changed(event: TurnChanged) -> Line:
    return {
        "turn": event.turn,
        "files": [_changed(file) for file in event.files],
        "cells": [_changed(cell) for cell in event.cells],
        "effects": list(event.effects),
        "not_kept": list(event.not_kept),
    }


def _changed(what: Changed) -> Line:
    return {"where": what.where, "kind": what.kind, "added": what.added, "removed": what.removed}


def _compacted(event: ContextCompacted) -> Line:
    return {
        "trigger": event.trigger,
        "tokens_before": event.tokens_before,
        "tokens_after": event.tokens_after,
        "cost_usd": event.cost_usd,
        "summary": event.summary,
    }


def _context_line(event: ContextAttached) -> Line:
    return {
        "tokens": event.tokens,
        "parts": [
            {
                "title": part.title,
                "kind": part.kind,
                "text": part.text,
                "chars": part.chars,
                "tokens": part.tokens,
            }
            for part in event.parts
        ],
    }


def _run_end(event: RunEnd) -> Line:
    return {
        "final_response": event.text,
        "metadata": {
            "session_id": event.session_id,
            "stop_reason": event.stop_reason,
            "total_execution_time_ms": round(event.duration_ms, 1),
            "tools_executed": event.tools_succeeded + event.tools_failed,
            "tools_successful": event.tools_succeeded,
            "tools_failed": event.tools_failed,
            "total_api_calls": event.requests,
            "total_tokens_used": sum(event.usage.get(name) or 0 for name in TOKEN_COUNTS),
            "cost_usd": event.cost_usd,
            "parallel_batches": [
                {
                    "tool_call_ids": list(batch.tool_use_ids),
                    "execution_time_ms": round(batch.duration_ms, 1),
                    "tools_successful": batch.succeeded,
                    "tools_failed": batch.failed,
                }
                for batch in event.parallel_batches
            ],
        },
    }
