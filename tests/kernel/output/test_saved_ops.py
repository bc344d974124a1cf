"""The transcript that a notebook keeps: joined, in parts, within bounds, and the same when a recording is played again."""

from __future__ import annotations

import json
from typing import Any

from cellwright.kernel.output.saved_ops import saved_transcripts
from cellwright.redaction.redaction import Redaction

Op = dict[str, Any]

RUN: Op = {"op": "run", "model": "m", "mode": "default", "session": "s-1", "started": 1_000.0}
END: Op = {
    "op": "end",
    "stop_reason": "end_turn",
    "cost_usd": 0.5,
    "session_cost_usd": 1.0,
    "ms": 1234.5,
    "error": None,
}


def tool(name: str, **fields: Any) -> Op:
    call = {"op": "tool", "id": name, "name": "Python", "title": "x", "input": {"code": "x"}, "parallel": False}
    return {**call, "estimate": 3.0, "at": 1_001.0, **fields}


def ended(name: str, **fields: Any) -> Op:
    return {
        "op": "tool_end",
        "id": name,
        "status": "success",
        "ms": 12.3,
        "result": "",
        "diff": None,
        "error": None,
        **fields,
    }


def text(block: int, words: str) -> Op:
    return {"op": "text", "block": block, "text": words}


def kept(*ops: Op, parts: int = 1, replayed: bool = False) -> list[list[Op]]:
    return [each["ops"] for each in saved_transcripts(ops, parts, Redaction().clean_each, replayed=replayed)]


def turn(cost: float | None = 0.25) -> Op:
    counts = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0}
    return {"op": "turn", "cost_usd": cost, "context_tokens": 15, "context_window": 200, **counts}


def test_each_part_names_the_model_that_answered():
    parts = kept(
        RUN, text(0, "a"), {"op": "part", "part": 1}, {"op": "model", "model": "other"}, text(1, "b"), END, parts=2
    )
    assert [ops[0]["model"] for ops in parts] == ["other", "other"]
    assert [op["op"] for op in parts[1]] == ["run", "text", "end"]


def test_each_part_holds_its_items_and_the_last_one_what_is_told_of_the_run():
    first, last = kept(
        {"op": "notice", "level": "info", "text": "This waits for its turn.", "waits": True},
        RUN,
        text(0, "I plot "),
        text(0, "it."),
        {"op": "tool_input", "id": "toolu_1", "name": "Python", "chars": 9},
        turn(),
        tool("toolu_1"),
        {"op": "output", "id": "toolu_1", "text": "streamed"},
        {"op": "part", "part": 1},
        ended("toolu_1", result="printed"),
        text(1, "There."),
        turn(),
        {"op": "drop", "blocks": [7], "tools": ["none"]},
        END,
        parts=2,
    )
    assert [op["op"] for op in first] == ["run", "text", "tool", "tool_end", "end"]
    assert first[1]["text"] == "I plot it."
    assert (first[2]["id"], first[2]["at"], first[3]["id"], first[3]["result"]) == ("0", 1.0, "0", "printed")
    assert [op["op"] for op in last] == ["run", "text", "turn", "end"]
    assert (last[2]["cost_usd"], last[2]["input_tokens"], last[2]["context_tokens"]) == (0.5, 20, 15)
    assert "s-1" not in json.dumps([first, last])


def test_what_streamed_of_a_failed_request_is_void_and_a_cut_off_call_keeps_what_it_printed():
    drop = {"op": "drop", "blocks": [0], "tools": ["a"]}
    (ops,) = kept(RUN, text(0, "void"), tool("a"), drop, tool("b"), {"op": "output", "id": "b", "text": "half"}, END)
    assert [op["op"] for op in ops] == ["run", "tool", "output", "end"]
    assert ops[2]["text"] == "half"


def test_a_run_that_ends_in_an_error_keeps_what_its_last_request_had_said_when_it_broke_off():
    drop = {"op": "drop", "blocks": [0], "tools": []}
    retry = {
        "op": "retry",
        "attempt": 1,
        "of": 1,
        "wait": 0,
        "code": "API_NETWORK_ERROR",
        "message": "Gone.",
        "at": 9.0,
    }
    failed = {**END, "stop_reason": "error", "error": {"code": "API_NETWORK_ERROR", "message": "Gone."}}
    broken = RUN, text(0, "So far"), drop, retry
    (ops,) = kept(*broken, failed)
    assert [op["op"] for op in ops] == ["run", "text", "drop", "retry", "end"]
    assert ops[1]["text"] == "So far"
    # nothing of it where the new answer has caught up, or the run went well
    for rest in ([text(1, "So far, so good"), failed], [text(1, "So"), turn(), failed], [text(1, "So"), END]):
        (ops,) = kept(*broken, *rest)
        assert "retry" not in [op["op"] for op in ops]


def test_all_of_it_is_bounded_and_the_answer_goes_first():
    long = "x" * 90_000
    calls = [
        op for n in range(100) for op in (tool(f"t{n}", input={"code": long}), ended(f"t{n}", result=long, diff=long))
    ]
    told = {
        "op": "told",
        "tokens": 1,
        "parts": [{"title": "t", "kind": "file", "text": long, "chars": 1, "tokens": 1}] * 50,
    }
    thinking = {"op": "thinking", "block": 2, "text": long, "at": 1_002.0}
    (ops,) = kept(RUN, told, text(0, long), thinking, *calls, text(3, long), END)
    size = len(json.dumps(ops))
    assert 300_000 < size < 480_000, size
    texts = [op["text"] for op in ops if op["op"] == "text"]
    assert texts[1] == long
    assert texts[0].endswith("more are in the session's transcript: /export writes it out]")
    results = [op for op in ops if op["op"] == "tool_end"]
    assert len(results) == 100
    assert "characters more" in results[0]["result"]


def test_a_replayed_run_says_the_same_each_time_and_secrets_do_not_stay():
    def ops(start: float, name: str, secret: str) -> list[Op]:
        run = {**RUN, "started": start, "session": name}
        read = ended(name, ms=start, result=f"password = {secret}")
        return [run, tool(name, at=start + 3), read, turn(start), {**END, "ms": start, "cost_usd": None}]

    secret = "AKIA" + "IOSFODNN7ABCDEFG"
    played = [kept(*ops(start, f"toolu_{start}", secret), replayed=True) for start in (1.0, 77.0)]
    assert played[0] == played[1]
    assert secret not in json.dumps(played)
    assert "secret removed" in json.dumps(played)
