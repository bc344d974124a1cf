"""Events become the operations of docs/protocol, in order, with bounded size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
    ModeChanged,
    Notice,
    Number,
    NumbersTraced,
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
    UnknownName,
    UserPrompt,
)
from cellwright.kernel.output.cell_output import STUCK
from cellwright.kernel.output.op_log import OpLog, OpReader
from cellwright.kernel.output.protocol import (
    AnswerMessage,
    KeptMessage,
    ReadyMessage,
    Restart,
    Steer,
    Stop,
    StopAgent,
    WithdrawMessage,
    read_message,
)
from cellwright.kernel.output.transcript_ops import QUIET_OPS
from cellwright.telemetry.view_limits import DRAWN
from row_tables import for_each_row

EXAMPLES = json.loads((Path(__file__).parents[3] / "docs/protocol/examples.json").read_text("utf-8"))

EDIT = {"type": "tool_use", "id": "toolu_01", "name": "Edit", "input": {"file_path": "a.py", "new_string": "x"}}
PYTHON = {"type": "tool_use", "id": "toolu_02", "name": "Python", "input": {"code": "plot()"}}
USAGE = {
    "input_tokens": 8,
    "cache_creation_input_tokens": 10,
    "output_tokens": 212,
    "cache_read_input_tokens": 5000,
}
QUESTION = Asked(
    "q_01",
    EDIT,
    Preview("Edit a.py", "+x", "diff", "a.py", "careful"),
    "Mode default asks.",
    (Suggestion(("Edit(./**)",), "session", "for this session"), Suggestion(("Edit(./a.py)",), "always", "always")),
)


CHOOSE = {
    "type": "tool_use",
    "id": "toolu_03",
    "name": "AskUserQuestion",
    "input": {"questions": [{"question": "Which?", "header": "Way", "options": []}]},
}
PLAN = {"type": "tool_use", "id": "toolu_04", "name": "ExitPlanMode", "input": {"plan": "1. Do it."}}
TODOS = ({"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"},)


def turn_end(stop_reason: str = "end_turn") -> TurnEnd:
    return TurnEnd({"role": "assistant", "content": []}, stop_reason, USAGE, "claude-opus-5-5", context_tokens=5230)


def answered_by(*models: str) -> list[Event]:
    message = {"role": "assistant", "content": []}
    return [TurnEnd(message, "end_turn", {}, model, context_tokens=9) for model in models]


def run_end(error: dict[str, Any] | None = None) -> RunEnd:
    return RunEnd("end_turn", "done", USAGE, 0.02, 1200.0, 2, 1, 0, session_cost_usd=0.1, error=error)


def ops_of(*events: Event, quiet: bool = False) -> list[dict[str, Any]]:
    log = OpLog()
    for event in events:
        log.on_event(event)
    return OpReader(log, QUIET_OPS if quiet else frozenset()).after(0)


EVERY_EVENT: tuple[Event, ...] = (
    UserPrompt("hi", "claude-opus-5-5", "default", "s1"),
    ContextAttached((AttachedContext("Where Claude works", "here", "environment", 4, 1),)),
    Retrying(1, 8, 2.5, "API_OVERLOADED", "busy"),
    ThinkingDelta("hm", 0),
    TextDelta("I will", 1),
    ToolInputDelta("toolu_01", "Edit", "", 2),
    turn_end("tool_use"),
    ToolStart((Call(EDIT, "Edit a.py"),)),
    Decided("toolu_01", "Edit", "ask", "Mode default asks."),
    QUESTION,
    Answered("q_01", "toolu_01", "allow", "widget"),
    ToolEnd("toolu_01", "Edit", "success", "Edited.", 4.2, {"diff": "--- a\n+++ b\n"}),
    ToolStart((Call(PYTHON, "plot()"),)),
    ToolProgress("toolu_02", text="120 rows\n"),
    ToolProgress("toolu_02", output={"image/png": "aGk=", "text/plain": "<Figure>"}),
    ToolEnd("toolu_02", "Python", "error", "boom", 9.0, None, {"code": "EXECUTION_ERROR", "message": "boom"}),
    TodosChanged(TODOS),
    ModeChanged("plan"),
    *answered_by("claude-sonnet-5-5"),
    Steered("s_01", "Keep the old name.", "waiting", "steer"),
    Asked("q_02", CHOOSE, Preview("Which?"), "A question to you.", (), "question"),
    Answered("q_02", "toolu_03", "allow", "widget", updated_input={**CHOOSE["input"], "answers": {"Which?": "This"}}),
    Asked("q_03", PLAN, Preview("The plan", "1. Do it."), "A plan.", (), "plan"),
    Answered("q_03", "toolu_04", "deny", "widget", reason="shorter"),
    TextDelta("void", 0),
    Retrying(1, 8, 2.5, "API_OVERLOADED", "busy"),
    SubagentEvent("toolu_05", "agent-1", "Explore", UserPrompt("Look")),
    SubagentEvent("toolu_05", "agent-1", "Explore", turn_end()),
    SubagentEvent("toolu_05", "agent-1", "Explore", ToolStart((Call(PYTHON, "plot()"),))),
    ContextCompacted("done", "auto", 152_000, 9_000, 0.12, "The loader reads Parquet now."),
    Notice("forked"),
    NumbersTraced(
        (Number("14.8 %", 14.8, 0.1, 0, 6, "not_found", 3, marked=True),), names=(UnknownName("wage", 0, "no column"),)
    ),
    TurnChanged(3, (Changed("a.py", "changed", 3, 1),), (Changed("n.ipynb#a1", "created", 4, 0),), ("Bash: pytest",)),
    run_end(),
)


def test_every_operation_has_the_fields_of_the_protocol():
    ours = ops_of(*EVERY_EVENT)
    ours += [{"op": "stuck", "id": "toolu_02", "text": STUCK}, {"op": "part", "part": 1}]
    theirs = EXAMPLES["kernel_to_browser"][0]["ops"]
    fields = {op["op"]: set(op) for op in theirs}
    assert {op["op"]: set(op) for op in ours} == fields
    for kind in ("permission", "question", "plan"):
        (our_choices, their_choices) = (
            [choice for op in ops if op["op"] == "ask" and op["kind"] == kind for choice in op["choices"]]
            for ops in (ours, theirs)
        )
        assert {frozenset(choice) for choice in (*our_choices, *their_choices)} == {frozenset(our_choices[0])}
        assert [choice["key"] for choice in our_choices] == [choice["key"] for choice in their_choices]
    json.dumps(ours)


def test_a_long_text_that_was_told_is_cut_and_its_length_is_said():
    (told,) = ops_of(ContextAttached((AttachedContext("notes.md", "x" * 30_000, "file", 30_000, 7_500),)))
    (part,) = told["parts"]
    assert part["text"].startswith("x" * 20_000)
    assert part["text"].endswith("10,000 characters more]")
    assert (part["chars"], part["tokens"], told["tokens"]) == (30_000, 7_500, 7_500)


def test_blocks_rise_over_the_messages_of_a_run():
    ops = ops_of(
        ThinkingDelta("a", 0), TextDelta("b", 1), turn_end("tool_use"), TextDelta("c", 0), turn_end(), TextDelta("d", 0)
    )
    assert [(op["op"], op["block"]) for op in ops if "block" in op] == [
        ("thinking", 0),
        ("text", 1),
        ("text", 2),
        ("text", 3),
    ]


@pytest.mark.parametrize("end", [Retrying(1, 8, 1.0, "API_OVERLOADED", "busy"), turn_end("refusal")])
def test_what_streamed_of_a_message_that_is_void_is_dropped(end: Event):
    ops = ops_of(TextDelta("kept", 0), turn_end("tool_use"), TextDelta("void", 0), ToolInputDelta("t9", "Bash"), end)
    assert {"op": "drop", "blocks": [1], "tools": ["t9"]} in ops
    assert ops_of(end)[0]["op"] != "drop"


def test_a_question_has_its_whole_detail_and_the_answers_that_a_rule_can_keep():
    detail = "x" * 300_000
    (ask,) = ops_of(Asked("q", EDIT, Preview("Edit", detail), "why", QUESTION.suggestions[:1]))
    assert ask["detail"] == detail
    assert [(choice["key"], choice["action"], choice["scope"], choice["rules"]) for choice in ask["choices"]] == [
        ("1", "allow", "once", []),
        ("2", "allow", "session", ["Edit(./**)"]),
        ("4", "deny", "once", []),
    ]
    big = {**EDIT, "input": {"content": "y" * 200_000}}
    assert ops_of(Asked("q", big, Preview("Edit"), "why"))[0]["input"] is None


def test_the_answer_to_a_question_is_told_and_an_edited_input_is_not():
    ops = ops_of(
        Asked("q_02", CHOOSE, Preview("Which?"), "why", (), "question"),
        Answered(
            "q_02", "toolu_03", "allow", "input", updated_input={**CHOOSE["input"], "answers": {"Which?": "This"}}
        ),
        QUESTION,
        Answered("q_01", "toolu_01", "allow", "widget", edited=True, updated_input={"answers": "no answers of ours"}),
    )
    assert [op["input"] for op in ops if op["op"] == "answered"] == [{"answers": {"Which?": "This"}}, None]
    (ask,) = (op for op in ops if op["op"] == "ask" and op["kind"] == "question")
    assert ask["input"] == CHOOSE["input"]


def test_long_inputs_and_results_are_cut_and_say_so():
    big = {**EDIT, "input": {"content": "y" * 200_000, "edits": [{"new": "z" * 200_000}], "n": 3}}
    tool, end = ops_of(
        ToolStart((Call(big, "Edit"),)),
        ToolEnd("toolu_01", "Edit", "success", "r" * 200_000, 1.0, {"diff": "d" * 10**6}),
    )
    assert "characters more]" in tool["input"]["content"]
    assert "characters more]" in tool["input"]["edits"][0]["new"]
    assert tool["input"]["n"] == 3
    assert end["result"].startswith("r" * DRAWN.result)
    assert end["result"].endswith(f"[… {200_000 - DRAWN.result:,} characters more]")
    assert len(json.dumps([tool, end])) < 150_000


def test_live_output_of_a_call_is_bounded():
    events = [ToolProgress("t", text="o" * 1000) for _ in range(1000)]
    ops = ops_of(*events, ToolProgress("u", text="other"))
    shown = "".join(op["text"] for op in ops if op["id"] == "t")
    assert shown.count("o" * 1000) == DRAWN.output / 1000
    assert shown.endswith("[… more output is not shown live]\n")
    assert ops[-1]["text"] == "other"


def test_a_quiet_cell_shows_the_answer_and_the_questions():
    shown = [op["op"] for op in ops_of(*EVERY_EVENT, quiet=True)]
    questions = ["ask", "answered"] * 2
    assert shown == [
        "run",
        "retry",
        "text",
        "ask",
        "answered",
        "mode",
        "model",
        "steer",
        *questions,
        "text",
        "drop",
        "retry",
        "notice",
        "end",
    ]


def test_what_the_browser_says_is_read_as_the_protocol_has_it():
    read = [read_message(message) for message in EXAMPLES["browser_to_kernel"]]
    assert [type(message) for message in read] == [
        *[ReadyMessage, AnswerMessage, AnswerMessage, AnswerMessage, AnswerMessage, AnswerMessage, AnswerMessage],
        *[Stop, Restart, Steer, WithdrawMessage, StopAgent, KeptMessage],
    ]
    assert read[0] == ReadyMessage(0)
    assert read[1] == AnswerMessage("q_01", "allow", "session", "", None)
    assert isinstance(read[2], AnswerMessage)
    assert read[2].input is not None
    assert read[3] == AnswerMessage("q_01", "deny", "once", "Keep the old name of the function.", None)
    assert isinstance(read[4], AnswerMessage)
    assert read[4].input == {"answers": {"Where should the table be kept?": "Parquet"}, "annotations": {}}
    assert read[5] == AnswerMessage("q_03", "allow", "once", "", {"decision": "accept_edits"})
    assert read[6] == AnswerMessage("q_03", "deny", "once", "Leave the tests alone.", None)
    assert read[9] == Steer("s_01", "Keep the old name as an alias.", "steer")
    assert read[10] == WithdrawMessage("s_02")


@for_each_row(
    "message",
    [
        None,
        "stop",
        {},
        {"type": "unheard of"},
        {"type": "ready"},
        {"type": "ready", "have": -1},
        {"type": "answer", "question": "q", "behavior": "perhaps"},
        {"type": "answer", "question": 3, "behavior": "allow"},
        {"type": "answer", "question": "q", "behavior": "allow", "scope": "forever"},
        {"type": "answer", "question": "q", "behavior": "allow", "input": "rm -rf"},
        {"type": "answer", "question": "q", "behavior": "deny", "reason": 7},
        {"type": "steer", "id": "s", "text": "  ", "how": "steer"},
        {"type": "steer", "id": "s", "text": "x", "how": "shout"},
        {"type": "steer", "id": 7, "text": "x", "how": "steer"},
        {"type": "withdraw"},
    ],
)
def test_what_is_no_message_is_none(message: Any):
    assert read_message(message) is None


@pytest.mark.parametrize("quiet", [False, True])
def test_another_model_than_was_asked_is_named_when_it_answers(quiet: bool) -> None:
    first, second = "claude-opus-5-5", "claude-sonnet-5-5"
    answers = answered_by(f"{first}-20260101", f"us.anthropic.{second}-v1:0", second, first)
    ops = ops_of(UserPrompt("hi", first), *answers, quiet=quiet)
    assert [op["model"] for op in ops if op["op"] == "model"] == [second, first]
