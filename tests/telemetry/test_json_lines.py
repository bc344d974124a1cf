"""Each event as lines, in the vocabulary that programs rely on."""

from __future__ import annotations

import json
import typing

from cellwright import events
from cellwright.events import (
    Answered,
    Asked,
    AttachedContext,
    Call,
    Changed,
    ContextAttached,
    ContextCompacted,
    Decided,
    Event,
    ExtensionsLoaded,
    ModeChanged,
    Notice,
    NotLoaded,
    Number,
    NumbersTraced,
    ParallelBatch,
    Preview,
    Retrying,
    RunEnd,
    Steered,
    SubagentEvent,
    Suggestion,
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
from cellwright.telemetry.json_lines import JsonLines, Line, whole_run
from row_tables import for_each_row

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": None}
READ = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a"}}
GREP = {"type": "tool_use", "id": "toolu_2", "name": "Grep", "input": {"pattern": "b"}}
OVERLOADED = {"code": "API_OVERLOADED", "message": "Too busy.", "details": {"status": 529}, "recoverable": True}
BATCH = ParallelBatch(("toolu_1", "toolu_2"), 45.67, 1, 1)
END = RunEnd("end_turn", "The answer.", USAGE, 0.0123, 1234.56, 3, 4, 1, (BATCH,), "s1")
METADATA = {
    "session_id": "s1",
    "stop_reason": "end_turn",
    "total_execution_time_ms": 1234.6,
    "tools_executed": 5,
    "tools_successful": 4,
    "tools_failed": 1,
    "total_api_calls": 3,
    "total_tokens_used": 115,
    "cost_usd": 0.0123,
    "parallel_batches": [
        {
            "tool_call_ids": ["toolu_1", "toolu_2"],
            "execution_time_ms": 45.7,
            "tools_successful": 1,
            "tools_failed": 1,
        }
    ],
}


def turn_end() -> TurnEnd:
    return TurnEnd({"role": "assistant", "content": []}, "end_turn", USAGE, "claude-opus-5-5")


def projected(*happened: Event) -> list[Line]:
    projection = JsonLines()
    return [line for event in happened for line in projection.lines(event)]


TABLE: list[tuple[Event, list[tuple[str, Line]]]] = [
    (UserPrompt("hello"), []),
    (ToolInputDelta("toolu_1", "Read", '{"file'), []),
    (
        ContextAttached(
            (
                AttachedContext("cell 3", "x = 1", "cell", 5, 1),
                AttachedContext("plot.png", "[a picture]", "file", 0, 1500),
            )
        ),
        [
            (
                "context_told",
                {
                    "tokens": 1501,
                    "parts": [
                        {"title": "cell 3", "kind": "cell", "text": "x = 1", "chars": 5, "tokens": 1},
                        {"title": "plot.png", "kind": "file", "text": "[a picture]", "chars": 0, "tokens": 1500},
                    ],
                },
            )
        ],
    ),
    (turn_end(), []),
    (TextDelta("Hi"), [("claude_response_chunk", {"chunk": "Hi", "chunk_index": 0, "is_final": False})]),
    (ThinkingDelta("Hm"), [("thinking_chunk", {"chunk": "Hm"})]),
    (
        ToolStart((Call(READ, "Read a", True), Call(GREP, "Grep b", True)), True, 1.23456),
        [
            (
                "tool_execution_start",
                {
                    "tool_calls": [
                        {"id": "toolu_1", "tool_name": "Read", "parameters": {"file_path": "a"}},
                        {"id": "toolu_2", "tool_name": "Grep", "parameters": {"pattern": "b"}},
                    ],
                    "parallel_execution": True,
                    "estimated_duration_seconds": 1.235,
                },
            )
        ],
    ),
    (
        ToolProgress("toolu_1", text="line\n"),
        [("tool_progress", {"tool_call_id": "toolu_1", "status": "running", "message": "line\n"})],
    ),
    (
        ToolProgress("toolu_1", message="half", fraction=0.5),
        [
            (
                "tool_progress",
                {"tool_call_id": "toolu_1", "status": "running", "message": "half", "progress_percentage": 50.0},
            )
        ],
    ),
    (
        ToolProgress("toolu_1", output={"image/png": "iVBO", "text/plain": "<Figure>"}),
        [
            (
                "tool_progress",
                {"tool_call_id": "toolu_1", "status": "running", "message": "displayed image/png, text/plain"},
            )
        ],
    ),
    (
        ToolEnd("toolu_1", "Read", "success", "content", 12.34, {"diff": "-a\n+b"}, structured={"size": 7}),
        [
            (
                "tool_completion",
                {
                    "tool_call_id": "toolu_1",
                    "status": "success",
                    "execution_time_ms": 12.3,
                    "result": "content",
                    "structured": {"size": 7},
                },
            )
        ],
    ),
    (
        ToolEnd(
            "toolu_1",
            "Bash",
            "timeout",
            [{"type": "text", "text": "late"}],
            30_000.0,
            error={
                "code": "EXECUTION_TIMEOUT",
                "message": "late",
                "details": {"requested_timeout": 30, "actual_execution_time": 30},
            },
        ),
        [
            (
                "tool_completion",
                {
                    "tool_call_id": "toolu_1",
                    "status": "timeout",
                    "execution_time_ms": 30_000.0,
                    "result": [{"type": "text", "text": "late"}],
                    "error": {
                        "code": "EXECUTION_TIMEOUT",
                        "message": "late",
                        "details": {"requested_timeout": 30, "actual_execution_time": 30},
                    },
                },
            )
        ],
    ),
    (
        Asked(
            "q1", READ, Preview("Read a", "detail", warning="far"), "why", (Suggestion(("Read(a)",), "session", "all"),)
        ),
        [
            (
                "permission_request",
                {
                    "question_id": "q1",
                    "kind": "permission",
                    "tool_call_id": "toolu_1",
                    "tool_name": "Read",
                    "parameters": {"file_path": "a"},
                    "title": "Read a",
                    "detail": "detail",
                    "warning": "far",
                    "reason": "why",
                    "suggestions": [{"rules": ["Read(a)"], "scope": "session", "label": "all"}],
                },
            )
        ],
    ),
    (
        Asked("q2", READ, Preview("Which?"), "why", kind="question"),
        [
            (
                "question",
                {
                    "question_id": "q2",
                    "kind": "question",
                    "tool_call_id": "toolu_1",
                    "tool_name": "Read",
                    "parameters": {"file_path": "a"},
                    "title": "Which?",
                    "detail": "",
                    "warning": "",
                    "reason": "why",
                    "suggestions": [],
                },
            )
        ],
    ),
    (
        SubagentEvent("toolu_1", "agent-1", "Explore", Notice("careful", "warning")),
        [
            (
                "subagent_event",
                {
                    "tool_call_id": "toolu_1",
                    "agent_id": "agent-1",
                    "agent_type": "Explore",
                    "event": {
                        "type": "notice",
                        "timestamp": "1970-01-01T00:00:00.000Z",
                        "data": {"level": "warning", "message": "careful"},
                    },
                },
            )
        ],
    ),
    (Decided("toolu_1", "Read", "ask", "far away"), []),
    (
        Decided("toolu_1", "Read", "allow", "The rule `Read` allows it.", "Read"),
        [
            (
                "permission_decision",
                {
                    "question_id": None,
                    "tool_call_id": "toolu_1",
                    "behavior": "allow",
                    "by": "policy",
                    "scope": "once",
                    "reason": "The rule `Read` allows it.",
                    "rules": ["Read"],
                    "edited": False,
                },
            )
        ],
    ),
    (
        ExtensionsLoaded({"tides": "failed"}, (NotLoaded("MCP server", "tides", "it ended"),)),
        [
            (
                "extensions_loaded",
                {
                    "mcp_servers": {"tides": "failed"},
                    "not_loaded": [{"kind": "MCP server", "name": "tides", "reason": "it ended"}],
                },
            )
        ],
    ),
    (
        TodosChanged(({"content": "Look", "status": "pending", "activeForm": "Looking"},)),
        [("todo", {"todos": [{"content": "Look", "status": "pending", "activeForm": "Looking"}]})],
    ),
    (ModeChanged("plan"), [("mode", {"mode": "plan"})]),
    (
        Steered("s1", "Use tabs.", "delivered"),
        [("steer", {"id": "s1", "text": "Use tabs.", "state": "delivered", "how": "steer"})],
    ),
    (
        Answered("q1", "toolu_1", "deny", "terminal", reason="no"),
        [
            (
                "permission_decision",
                {
                    "question_id": "q1",
                    "tool_call_id": "toolu_1",
                    "behavior": "deny",
                    "by": "terminal",
                    "scope": "once",
                    "reason": "no",
                    "rules": [],
                    "edited": False,
                },
            )
        ],
    ),
    (
        Retrying(1, 8, 2.5, "API_OVERLOADED", "Too busy."),
        [
            (
                "retry",
                {
                    "attempt": 1,
                    "max_attempts": 8,
                    "wait_seconds": 2.5,
                    "error_code": "API_OVERLOADED",
                    "error_message": "Too busy.",
                    "void_from_chunk_index": None,
                },
            )
        ],
    ),
    (Notice("Look.", "warning"), [("notice", {"level": "warning", "message": "Look."})]),
    (ContextCompacted("started", "auto", 9_000), []),
    (
        ContextCompacted("done", "auto", 9_000, 1_200, 0.05, "The tides."),
        [
            (
                "context_compacted",
                {
                    "trigger": "auto",
                    "tokens_before": 9_000,
                    "tokens_after": 1_200,
                    "cost_usd": 0.05,
                    "summary": "The tides.",
                },
            )
        ],
    ),
    (
        NumbersTraced((Number("14.8 %", 14.8, 0.1, 0, 6, "not_found", 3, marked=True),)),
        [
            (
                "numbers",
                {
                    "numbers": [
                        {
                            "text": "14.8 %",
                            "value": 14.8,
                            "verdict": "not_found",
                            "words": "not in any result of this conversation",
                            "marked": True,
                            "source": None,
                        }
                    ]
                },
            )
        ],
    ),
    (
        TurnChanged(3, (Changed("a.py", "changed", 3, 1),), (Changed("n.ipynb#a1", "deleted"),), ("Bash: pytest",)),
        [
            (
                "turn_changed",
                {
                    "turn": 3,
                    "files": [{"where": "a.py", "kind": "changed", "added": 3, "removed": 1}],
                    "cells": [{"where": "n.ipynb#a1", "kind": "deleted", "added": None, "removed": None}],
                    "effects": ["Bash: pytest"],
                    "not_kept": [],
                },
            )
        ],
    ),
    (END, [("session_complete", {"final_response": "The answer.", "metadata": METADATA})]),
    (
        RunEnd("error", "", {}, None, 10.0, 1, 0, 0, (), "s1", error=OVERLOADED),
        [
            (
                "error",
                {
                    "error_code": "API_OVERLOADED",
                    "error_message": "Too busy.",
                    "error_details": {"status": 529},
                    "recoverable": True,
                },
            ),
            (
                "session_complete",
                {
                    "final_response": "",
                    "metadata": {
                        **METADATA,
                        "stop_reason": "error",
                        "total_execution_time_ms": 10.0,
                        "tools_executed": 0,
                        "tools_successful": 0,
                        "tools_failed": 0,
                        "total_api_calls": 1,
                        "total_tokens_used": 0,
                        "cost_usd": None,
                        "parallel_batches": [],
                    },
                },
            ),
        ],
    ),
]


@for_each_row(("event", "expected"), TABLE, ids=[type(event).__name__ for event, _ in TABLE])
def test_an_event_as_lines(event: Event, expected: list[tuple[str, Line]]) -> None:
    lines = projected(event)
    assert [(line["type"], line["data"]) for line in lines] == expected
    assert all(list(line) == ["type", "timestamp", "data"] for line in lines)
    assert json.loads(json.dumps(lines)) == lines


def test_the_table_knows_every_event() -> None:
    assert {type(event) for event, _ in TABLE} == set(typing.get_args(events.Event))


def test_the_time_of_an_event_is_utc() -> None:
    [line] = projected(TextDelta("x", at=1_793_880_000.1234))
    assert line["timestamp"] == "2026-11-05T12:00:00.123Z"


def chunks(lines: list[Line]) -> list[tuple[str, int, bool]]:
    return [tuple(line["data"].values()) for line in lines if line["type"] == "claude_response_chunk"]  # type: ignore[misc]


def test_chunks_are_counted_over_the_run_and_the_last_of_each_message_is_final() -> None:
    lines = projected(TextDelta("I "), TextDelta("look."), turn_end(), turn_end(), TextDelta("Done."), turn_end(), END)
    assert chunks(lines) == [
        ("I ", 0, False),
        ("look.", 1, False),
        ("", 2, True),
        ("Done.", 3, False),
        ("", 4, True),
    ]


def test_a_retry_says_which_chunks_are_void() -> None:
    lines = projected(
        TextDelta("whole"), turn_end(), TextDelta("cut"), Retrying(1, 8, 1, "C", "m"), TextDelta("again"), turn_end()
    )
    [retry] = [line["data"] for line in lines if line["type"] == "retry"]
    assert retry["void_from_chunk_index"] == 2
    assert chunks(lines)[2:] == [("cut", 2, False), ("again", 3, False), ("", 4, True)]


def test_an_interrupted_message_has_no_final_chunk() -> None:
    assert not any(is_final for _, _, is_final in chunks(projected(TextDelta("cut off"), END)))


def test_a_run_as_one_object() -> None:
    lines = projected(TextDelta("The answer."), turn_end(), END)
    assert whole_run(lines) == {"events": lines, "final_response": "The answer.", "metadata": METADATA}
