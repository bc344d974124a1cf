"""The transcript that a notebook keeps: joined, in parts, within bounds, and the same when a recording is played again."""

from __future__ import annotations

import json
from typing import Any

from cellwright.events import (
    AttachedContext,
    Call,
    ContextAttached,
    Event,
    Notice,
    Retrying,
    RunEnd,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    TurnEnd,
    UserPrompt,
)
from cellwright.kernel.output.saved_ops import saved_transcripts
from cellwright.redaction.redaction import Redaction
from cellwright.telemetry.run_state import RunState

Op = dict[str, Any]

RUN = UserPrompt("do it", "m", session_id="s-1", at=1_000.0)
END = RunEnd("end_turn", "", {}, 0.5, 1234.5, 1, 0, 0, session_cost_usd=1.0)
PART = "a part begins"


def tool(name: str, code: str = "x", at: float = 1_001.0) -> ToolStart:
    return ToolStart((Call({"id": name, "name": "Python", "input": {"code": code}}, "x"),), False, 3.0, at=at)


def ended(name: str, result: str = "", ms: float = 12.3, diff: str | None = None) -> ToolEnd:
    return ToolEnd(name, "Python", "success", result, ms, None if diff is None else {"diff": diff})


def turn(cost: float | None = 0.25, model: str = "m", *, replayed: bool = False) -> TurnEnd:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"role": "assistant", "content": []}
    return TurnEnd(message, "end_turn", usage, model, cost_usd=cost, context_tokens=15, replayed=replayed)


def broke_off(at: float = 9.0) -> Retrying:
    return Retrying(1, 1, 0, "API_NETWORK_ERROR", "Gone.", at=at)


def kept(*happened: Event | str, quiet: bool = False) -> list[list[Op]]:
    state, parts = RunState(), 1
    for each in happened:
        if isinstance(each, str):
            state.begin_part()
            parts += 1
        else:
            state.take(each)
    return [each["ops"] for each in saved_transcripts(state, parts, Redaction().clean_each, quiet=quiet)]


def kinds(ops: list[Op]) -> list[str]:
    return [op["op"] for op in ops]


def test_each_part_names_the_model_that_answered():
    parts = kept(RUN, TextDelta("a"), PART, TextDelta("b", 1), turn(model="other"), END)
    assert [ops[0]["model"] for ops in parts] == ["other", "other"]
    assert kinds(parts[1]) == ["run", "text", "turn", "end"]


def test_each_part_holds_its_items_and_the_last_one_what_is_told_of_the_run():
    first, last = kept(
        Notice("This waits for its turn.", waits=True),
        RUN,
        TextDelta("I plot "),
        TextDelta("it."),
        ToolInputDelta("toolu_1", "Python", "{}", 1),
        turn(),
        tool("toolu_1"),
        ToolProgress("toolu_1", text="streamed"),
        PART,
        ended("toolu_1", result="printed"),
        TextDelta("There."),
        turn(),
        END,
    )
    assert kinds(first) == ["run", "text", "tool", "tool_end", "end"]
    assert first[1]["text"] == "I plot it."
    assert (first[2]["id"], first[2]["at"], first[3]["id"], first[3]["result"]) == ("0", 1.0, "0", "printed")
    assert kinds(last) == ["run", "text", "turn", "end"]
    assert (last[2]["cost_usd"], last[2]["input_tokens"], last[2]["context_tokens"]) == (0.5, 20, 15)
    assert "s-1" not in json.dumps([first, last])


def test_what_streamed_of_a_failed_request_is_void_and_a_cut_off_call_keeps_what_it_printed():
    void = (TextDelta("void"), ToolInputDelta("a", "Python", "{}", 1), broke_off())
    (ops,) = kept(RUN, *void, turn(), tool("b"), ToolProgress("b", text="ha"), ToolProgress("b", text="lf"), END)
    assert kinds(ops) == ["run", "tool", "output", "turn", "end"]
    assert ops[2]["text"] == "half"


def test_a_run_that_ends_in_an_error_keeps_what_its_last_request_had_said_when_it_broke_off():
    error = {"code": "API_NETWORK_ERROR", "message": "Gone."}
    failed = RunEnd("error", "", {}, 0.5, 1234.5, 1, 0, 0, error=error)
    broken = RUN, TextDelta("So far"), broke_off()
    (ops,) = kept(*broken, failed)
    assert kinds(ops) == ["run", "text", "drop", "retry", "end"]
    assert ops[1]["text"] == "So far"
    # nothing of it where the new answer has caught up, or the run went well
    caught_up: list[Event] = [TextDelta("So far, so good"), failed]
    answered: list[Event] = [TextDelta("So"), turn(), failed]
    went_well: list[Event] = [TextDelta("So"), END]
    for events in (caught_up, answered, went_well):
        (ops,) = kept(*broken, *events)
        assert "retry" not in kinds(ops)


def test_all_of_it_is_bounded_and_the_answer_goes_first():
    long = "x" * 90_000
    calls = [each for n in range(100) for each in (tool(f"t{n}", long), ended(f"t{n}", result=long, diff=long))]
    context = ContextAttached((AttachedContext("t", long, "file", 1, 1),) * 50)
    said = TextDelta(long), ThinkingDelta(long, 1, at=1_002.0), turn()
    (ops,) = kept(RUN, context, *said, *calls, TextDelta(long), turn(), END)
    size = len(json.dumps(ops))
    assert 300_000 < size < 480_000, size
    texts = [op["text"] for op in ops if op["op"] == "text"]
    assert texts[1] == long
    assert texts[0].endswith("more are in the session's transcript: /export writes it out]")
    results = [op for op in ops if op["op"] == "tool_end"]
    assert len(results) == 100
    assert "characters more" in results[0]["result"]


def test_a_replayed_run_says_the_same_each_time_and_secrets_do_not_stay():
    def played(start: float, secret: str) -> list[list[Op]]:
        name = f"toolu_{start}"
        run = UserPrompt("do it", "m", session_id=name, at=start)
        read = ended(name, ms=start, result=f"password = {secret}")
        end = RunEnd("end_turn", "", {}, start, start, 1, 0, 0)
        return kept(run, turn(start, replayed=True), tool(name, at=start + 3), read, turn(start, replayed=True), end)

    secret = "AKIA" + "IOSFODNN7ABCDEFG"
    first, second = (played(start, secret) for start in (1.0, 77.0))
    assert first == second
    assert secret not in json.dumps(first)
    assert "secret removed" in json.dumps(first)


def test_the_lines_of_an_agent_stand_together_in_its_call_and_a_quiet_cell_keeps_none():
    def of(event: Event) -> SubagentEvent:
        return SubagentEvent("toolu_1", "a1", "reader", event)

    inner = ToolStart((Call({"id": "in", "name": "Read", "input": {}}, "Read a.py"),))
    worked = of(UserPrompt("p", at=1_003.0)), of(inner), of(ended("in")), of(turn()), of(END)
    run = RUN, turn(), tool("toolu_1"), *worked, ended("toolu_1"), TextDelta("Done."), turn(), END
    (ops,) = kept(*run)
    assert kinds(ops)[1:9] == ["tool", "agent", *["agent_line"] * 2, "agent_state", "tool_end", "text", "turn"]
    assert (ops[2]["agent"], ops[2]["at"], ops[5]["calls"], ops[5]["state"]) == ("", 3.0, 1, "done")
    (quiet,) = kept(*run, quiet=True)
    assert kinds(quiet) == ["run", "text", "end"]
