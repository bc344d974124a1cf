"""Cards of agents: what of an agent's work goes to the browser, how much of it, and what a notebook keeps."""

from __future__ import annotations

import json
from typing import Any

from cellwright.events import (
    Call,
    Event,
    Notice,
    Retrying,
    RunEnd,
    SubagentEvent,
    TextDelta,
    ToolEnd,
    ToolStart,
    TurnEnd,
    UserPrompt,
)
from cellwright.kernel.output.op_log import OpLog, OpReader
from cellwright.kernel.output.saved_markdown import SavedTranscript
from cellwright.kernel.output.transcript_ops import QUIET_OPS
from cellwright.telemetry.view_limits import DRAWN

USAGE = {"input_tokens": 18, "output_tokens": 2, "cache_read_input_tokens": 80}
INTERRUPTED = {"code": "INTERRUPTED", "message": "Interrupted."}


def within(tool: str, *events: Event, agent: str = "agent-1") -> list[Event]:
    return [SubagentEvent(tool, agent, "Explore", event) for event in events]


def call(id: str, title: str, name: str = "Grep") -> Call:
    return Call({"type": "tool_use", "id": id, "name": name, "input": {"pattern": "x" * 10_000}}, title)


def ended(id: str, **more: Any) -> ToolEnd:
    return ToolEnd(id, "Grep", more.pop("status", "success"), "y" * 50_000, 12.0, **more)


def said(text: str, cost: float | None = 0.01) -> TurnEnd:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return TurnEnd(message, "end_turn", USAGE, "claude-haiku-4-5", cost_usd=cost)


def run_end(reason: str = "end_turn", error: dict[str, Any] | None = None) -> RunEnd:
    return RunEnd(reason, "", {"output_tokens": 300}, 0.02, 900.0, 2, 1, 0, error=error)


def ops_of(events: list[Event], *, quiet: bool = False) -> list[dict[str, Any]]:
    log = OpLog()
    for event in events:
        log.on_event(event)
    return OpReader(log, QUIET_OPS if quiet else frozenset()).after(0)


def test_an_agents_work_is_a_card_with_lines() -> None:
    busy = Retrying(1, 8, 2.5, "API_OVERLOADED", "Busy.")
    steps = (UserPrompt("Look", at=5.0), busy, said("I look."), ToolStart((call("t1", "Grep: x"),)), ended("t1"))
    ops = ops_of(within("toolu_1", *steps, said("Found."), Notice("info"), run_end()))
    assert ops[0] == {
        "op": "agent",
        "card": 0,
        "tool": "toolu_1",
        "parent": None,
        "agent": "agent-1",
        "type": "Explore",
        "background": False,
        "at": 5.0,
    }
    lines = [(op["kind"], op["text"], op["call"], op["status"]) for op in ops if op["op"] == "agent_line"]
    assert lines == [
        ("note", "Busy. Retrying (1 of 8).", "", ""),
        ("text", "I look.", "", ""),
        ("call", "Grep: x", "t1", ""),
        ("end", "Grep: x", "t1", "success"),
        ("text", "Found.", "", ""),
    ]
    states = [(op["state"], op["calls"], op["tokens"], op["ms"]) for op in ops if op["op"] == "agent_state"]
    assert states == [("working", 0, 100, None), ("working", 1, 200, None), ("done", 1, 300, 900.0)]


def test_agents_side_by_side_and_within_each_other_have_cards_of_their_own() -> None:
    inner = within("t1", UserPrompt("more"), ToolStart((call("t1", "LS: .", "LS"),)), agent="agent-3")
    events = [
        *within("toolu_1", UserPrompt("a"), ToolStart((call("t1", "Plan: more", "Agent"),))),
        *within("toolu_2", UserPrompt("b"), agent="agent-2"),
        *within("toolu_1", *inner),
    ]
    ops = ops_of(events)
    cards = [(op["card"], op["tool"], op["parent"], op["agent"]) for op in ops if op["op"] == "agent"]
    assert cards == [(0, "toolu_1", None, "agent-1"), (1, "toolu_2", None, "agent-2"), (2, "t1", 0, "agent-3")]
    assert [(op["card"], op["text"]) for op in ops if op["op"] == "agent_line"] == [
        (0, "Agent: Plan: more"),
        (2, "LS: ."),
    ]


def test_the_end_says_how_it_ended() -> None:
    failed = {"code": "API_ERROR", "message": "The API is gone."}
    for reason, error, state in (
        ("end_turn", None, "done"),
        ("interrupted", INTERRUPTED, "stopped"),
        ("error", failed, "failed"),
    ):
        ops = ops_of(within("toolu_1", UserPrompt("a"), run_end(reason, error)))
        assert ops[-1]["state"] == state, reason
    assert "The API is gone." in [op.get("text") for op in ops]


def test_what_streams_costs_nothing_and_what_is_long_is_cut() -> None:
    deltas = within("toolu_1", UserPrompt("a" * 100_000), *(TextDelta("word ") for _ in range(10_000)))
    log = OpLog()
    for event in (*deltas, *within("toolu_1", ToolStart((call("t1", "Grep: x"),)), ended("t1"), said("z" * 100_000))):
        log.on_event(event)
    assert log.chars < DRAWN.agent_message + 2_000
    assert len(json.dumps(OpReader(log).after(0))) < DRAWN.agent_message + 2_000


def test_a_cost_that_is_not_known_stays_so() -> None:
    ops = ops_of(within("toolu_1", UserPrompt("a"), said("one", None), said("two")))
    assert [op["cost_usd"] for op in ops if op["op"] == "agent_state"] == [None, None]


def test_a_quiet_cell_shows_none() -> None:
    assert (
        ops_of(within("toolu_1", UserPrompt("a"), ToolStart((call("t1", "Grep"),)), said("x"), run_end()), quiet=True)
        == []
    )


def test_a_notebook_keeps_one_line_with_what_it_took() -> None:
    saved = SavedTranscript()
    agent = call("toolu_1", "Explore: Find retries", "Agent")
    steps = within(
        "toolu_1", UserPrompt("a"), ToolStart((call("t1", "Grep: x"),)), ended("t1"), said("Found."), run_end()
    )
    for event in (
        UserPrompt("go", "m"),
        ToolStart((agent,)),
        *steps,
        ToolEnd("toolu_1", "Agent", "success", "In a.py.", 4_000.0),
    ):
        saved.emit(event)
    line = "1 tool call · $0.020 · 300 tokens"
    in_markdown = line.replace("$", r"\$")
    assert saved.markdown().startswith(f"- ✓ Agent: Explore: Find retries · 4.0 s · {in_markdown}")
    assert saved.plain().startswith(f"✓ Agent: Explore: Find retries · 4.0 s · {line}")


def test_a_notebook_says_of_an_agent_that_was_stopped_just_that() -> None:
    saved = SavedTranscript()
    error = {"code": "EXECUTION_ERROR", "message": "The user stopped the agent."}
    steps = within("toolu_1", UserPrompt("a"), run_end("interrupted", INTERRUPTED))
    begin = (UserPrompt("go", "m"), ToolStart((call("toolu_1", "Explore: Find retries", "Agent"),)))
    for event in (*begin, *steps, ToolEnd("toolu_1", "Agent", "error", "", 4_000.0, None, error)):
        saved.emit(event)
    assert saved.markdown().startswith("- ✗ Agent: Explore: Find retries · stopped · 0 tool calls")
