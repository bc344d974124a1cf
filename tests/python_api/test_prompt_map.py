"""`cellwright.map`, against a local Messages API: what is sent, what comes back, what it may cost."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cellwright
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn, use

pytestmark = pytest.mark.usefixtures("asked_here")


def prompt_of(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"][-1]["text"])


def echo(body: dict[str, Any]) -> Any:
    return say(f"re: {prompt_of(body)}")


@pytest.fixture
def serve(messages_server, monkeypatch):
    """Starts a server, which every prompt of the test goes to."""

    def start(script: Any = echo, **options: Any) -> MessagesServer:
        server = messages_server(script, **options)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
        return server

    return start


def asked(server: MessagesServer) -> list[str]:
    return [prompt_of(request.body) for request in server.requests]


def test_each_prompt_is_asked_once_by_itself(serve, capfd):
    server = serve()
    result = cellwright.map(["one", "two", "one"], system="Be brief.")
    assert result.texts == ["re: one", "re: two", "re: one"]
    assert sorted(asked(server)) == ["one", "one", "two"]
    assert server.rejected == []
    for request in server.requests:
        assert [block["text"] for block in request.body["system"]] == ["Be brief."]
        assert not request.body.get("tools")
        assert len(request.body["messages"]) == 1
    assert result.cost_usd == pytest.approx(sum(row.cost_usd for row in result))
    assert result.cost_usd > 0
    assert "3 of 3" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (["a", "b"], [0, 1]),
        (("a", "b"), [0, 1]),
        ((letter for letter in "ab"), [0, 1]),
        ({"x": "a", 7: "b"}, ["x", 7]),
        (pd.Series(["a", "b"], index=["first", "second"]), ["first", "second"]),
        (pd.DataFrame({"text": ["a", "b"]}, index=[10, 20])["text"], [10, 20]),
    ],
)
def test_rows_have_the_labels_of_the_prompts(serve, given, labels):
    serve()
    result = cellwright.map(given, progress=False)
    assert [row.index for row in result] == labels
    assert [row.prompt for row in result] == ["a", "b"]
    frame = result.frame()
    assert list(frame.index) == labels
    assert list(frame["text"]) == ["re: a", "re: b"]
    assert frame["error"].isna().all()


def test_what_is_no_prompt_is_a_row_with_an_error_and_is_not_sent(serve):
    server = serve()
    result = cellwright.map(["a", "", "  \n", None, 3.5], progress=False)
    assert [row.error and row.error.code for row in result] == [None, *[ErrorCode.INVALID_PARAMETERS] * 4]
    assert "3.5, not a text" in result[4].error.message
    assert asked(server) == ["a"]
    assert len(cellwright.map([])) == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"prompts": "one text"}, "one text"),
        ({"prompts": pd.DataFrame({"a": ["b"]})}, "a whole table"),
        ({"prompts": ["a"], "concurrency": 0}, "concurrency is 0"),
        ({"prompts": ["a"], "concurrency": np.int64(0)}, "concurrency is"),
        ({"prompts": ["a"], "batch": True, "tools": ["Read"]}, "neither `tools` nor"),
        ({"prompts": ["a"], "schema": object}, "object"),
        ({"prompts": ["a"], "model": "claude-opus-5-5", "effort": "enormous"}, "enormous"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_sent(serve, arguments, problem):
    server = serve()
    with pytest.raises(CellwrightError, match=problem):
        cellwright.map(**arguments)
    assert server.all_requests == []


@dataclasses.dataclass
class Review:
    stars: int
    text: str


def test_typed_answers_become_columns(serve):
    serve(lambda body: say(json.dumps({"stars": len(prompt_of(body)), "text": "ok"})))
    result = cellwright.map(["a", "bbb"], schema=Review, progress=False)
    assert result.values == [Review(1, "ok"), Review(3, "ok")]
    frame = result.frame()
    assert list(frame["stars"]) == [1, 3]
    assert list(frame["value_text"]) == ["ok", "ok"]
    assert frame["text"].iloc[0].startswith("{")


def test_an_answer_that_fits_no_schema_is_that_rows_error(serve):
    serve(lambda body: say("[1, 2]" if prompt_of(body) == "good" else "no JSON"))
    result = cellwright.map(["good", "bad"], schema=list[int], progress=False)
    assert result.values == [[1, 2], None]
    assert "not a valid list[int]" in result[1].error.message
    assert result.frame()["value"].iloc[0] == [1, 2]


def test_no_more_are_asked_at_once_than_was_said(serve):
    gates = [Gate() for _ in range(9)]
    server = serve(lambda body: turn(hold(gates[int(prompt_of(body))]), say("done")))
    counts: list[int] = []

    def open_in_threes() -> None:
        for number in range(0, 9, 3):
            for gate in gates[number : number + 3]:
                gate.wait_until_reached()
            # all three stand at their gates, and nobody else has come
            counts.append(len(server.requests))
            for gate in gates[number : number + 3]:
                gate.open()

    opener = threading.Thread(target=open_in_threes)
    opener.start()
    cellwright.map([str(number) for number in range(9)], concurrency=np.int64(3), max_turns=np.int64(2), progress=False)
    opener.join()
    assert counts == [3, 6, 9]


def test_refusals_are_waited_for_and_every_prompt_is_answered(serve):
    refused: set[str] = set()

    def script(body):
        prompt = prompt_of(body)
        if prompt not in refused:
            refused.add(prompt)
            return turn(fault("status", status=429, error_type="rate_limit_error", retry_after_ms=1))
        return echo(body)

    server = serve(script)
    prompts = [str(number) for number in range(12)]
    assert cellwright.map(prompts, progress=False).texts == [f"re: {prompt}" for prompt in prompts]
    assert len(server.requests) == 24


def test_a_prompt_that_fails_is_a_row_and_the_others_go_on(serve):
    def script(body):
        if prompt_of(body) == "bad":
            return turn(say("I'd rather"), stop_reason="refusal")
        return echo(body)

    server = serve(script)
    result = cellwright.map(["a", "bad", "b"], progress=False)
    assert result.texts == ["re: a", None, "re: b"]
    assert result[1].error.code == ErrorCode.REFUSED
    assert [row.index for row in result.errors] == [1]
    # the answers are kept, so that only what failed is asked once more
    again = cellwright.map(["a", "bad", "b"], progress=False)
    assert [row.kept for row in again] == [True, False, True]
    assert asked(server).count("bad") == 2
    assert len(server.requests) == 4


def test_when_all_are_answered_the_same_call_asks_afresh(serve, own_place):
    server = serve()
    for _ in range(2):
        cellwright.map(["a"], progress=False)
    assert asked(server) == ["a", "a"]
    assert list((own_place / "cellwright" / "maps").glob("*.jsonl")) == []


def test_a_store_of_the_users_is_kept_and_used_again(serve, tmp_path):
    server = serve()
    store = tmp_path / "answers.jsonl"
    first = cellwright.map(["a", "b"], store=store, progress=False)
    second = cellwright.map(["a", "b", "c"], store=store, progress=False)
    assert sorted(asked(server)[:2]) == ["a", "b"]
    assert asked(server)[2:] == ["c"]
    assert [row.kept for row in second] == [True, True, False]
    assert second.texts[:2] == first.texts
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    # other options are other answers
    cellwright.map(["a"], store=store, system="Otherwise.", progress=False)
    assert asked(server)[3:] == ["a"]


@pytest.mark.parametrize("cut", [2, 20, 60])
def test_a_store_that_was_cut_off_loses_one_answer_at_most(serve, tmp_path, cut):
    server = serve()
    store = tmp_path / "answers.jsonl"
    cellwright.map(["a", "b"], store=store, concurrency=1, progress=False)
    store.write_bytes(store.read_bytes()[:-cut])
    result = cellwright.map(["a", "b"], store=store, progress=False)
    assert result.texts == ["re: a", "re: b"]
    assert asked(server) == ["a", "b", "b"]
    assert cellwright.map(["a", "b"], store=store, progress=False).texts == result.texts
    assert len(server.requests) == 3


def test_a_file_that_is_something_else_is_left_alone(serve, tmp_path):
    server = serve()
    notes = tmp_path / "notes.txt"
    notes.write_text("mine\n")
    with pytest.raises(CellwrightError, match="something else"):
        cellwright.map(["a"], store=notes, progress=False)
    assert notes.read_text() == "mine\n"
    assert server.requests == []


def test_two_at_the_same_store_do_not_pay_twice(serve, tmp_path):
    gate = Gate()
    server = serve([turn(hold(gate), say("slow"))])
    store = tmp_path / "answers.jsonl"
    first: list[Any] = []
    thread = threading.Thread(target=lambda: first.append(cellwright.map(["a"], store=store, progress=False)))
    thread.start()
    gate.wait_until_reached()
    try:
        with pytest.raises(CellwrightError, match="Another process asks"):
            cellwright.map(["a"], store=store, progress=False)
    finally:
        gate.open()
        thread.join()
    assert first[0].texts == ["slow"]
    assert len(server.requests) == 1


def test_the_budget_is_not_passed(serve):
    server = serve(lambda body: say("x" * 400))
    prompts = [f"prompt {number}" for number in range(200)]
    with pytest.raises(CellwrightError) as caught:
        cellwright.map(prompts, max_tokens=500, budget=0.1, model="claude-opus-5-5", progress=False)
    assert caught.value.code == ErrorCode.BUDGET_EXCEEDED
    answered = len(server.requests)
    assert 5 < answered < 200
    assert f"{answered} of 200 prompts are answered and kept" in caught.value.message
    # more money, and only the rest is asked
    result = cellwright.map(prompts, max_tokens=500, budget=10, model="claude-opus-5-5", progress=False)
    assert len(server.requests) == 200
    assert sum(row.cost_usd for row in result if row.kept) <= 0.1


def test_a_budget_that_pays_for_nothing_sends_nothing(serve):
    server = serve()
    with pytest.raises(CellwrightError, match=r"0 of 1 prompts are answered\."):
        cellwright.map(["a"], budget=0.000001, progress=False)
    assert server.requests == []


def test_a_refusal_says_which_max_tokens_fit(serve):
    server = serve()
    named = {"budget": 0.05, "model": "claude-opus-5-5", "progress": False}
    with pytest.raises(CellwrightError, match="set max_tokens to") as caught:
        cellwright.map(["a"], max_tokens=32_000, **named)
    fits = caught.value.details["max_tokens"]
    with pytest.raises(CellwrightError):
        cellwright.map(["a"], max_tokens=fits + 50, **named)
    assert server.requests == []
    assert cellwright.map(["a"], max_tokens=fits, **named).texts == ["re: a"]


def test_the_default_of_an_answer_is_small(serve):
    server = serve()
    cellwright.map(["a"], progress=False)
    assert server.requests[0].body["max_tokens"] == 4_000


def test_a_wrong_key_ends_it_at_once(serve, monkeypatch):
    server = serve()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong-0000")
    with pytest.raises(CellwrightError) as caught:
        cellwright.map([str(number) for number in range(100)], concurrency=2, progress=False)
    assert caught.value.code == ErrorCode.API_KEY_INVALID
    assert len(server.requests) <= 4


def test_tools_run_and_what_would_ask_is_denied(serve, tmp_path):
    (tmp_path / "notes.txt").write_text("forty-two\n")

    def script(body):
        results = [
            block
            for message in body["messages"]
            for block in message["content"]
            if isinstance(block, dict) and block["type"] == "tool_result"
        ]
        if not results:
            name, file = prompt_of(body).split()
            return use(name, file_path=str(tmp_path / file), **({"content": "x"} if name == "Write" else {}))
        return say(str(results[0]["content"]))

    server = serve(script)
    result = cellwright.map(["Read notes.txt", "Write new.txt"], tools=["Read", "Write"], progress=False)
    assert "forty-two" in result[0].text
    assert not (tmp_path / "new.txt").exists()
    assert {tool["name"] for tool in server.requests[0].body["tools"]} == {"Read", "Write"}
    allowed = cellwright.map(["Write new.txt"], tools=["Write"], allow=["Write"], progress=False)
    assert allowed.errors == []
    assert (tmp_path / "new.txt").read_text() == "x"


def test_a_prompt_that_reads_a_file_is_not_told_the_folders_instructions(serve, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/notes.txt").write_text("forty-two")
    for folder in (tmp_path, tmp_path / "data"):
        (folder / "CLAUDE.md").write_text("Answer in rhymes.")

    def script(body):
        has_read = "tool_result" in str(body["messages"])
        return say("42") if has_read else use("Read", file_path=str(tmp_path / "data/notes.txt"))

    server = serve(script)
    result = cellwright.map(["one", "two"], tools=["Read"], progress=False)
    assert result.errors == []
    assert "forty-two" in str(server.requests[-1].body)
    assert "rhymes" not in str([request.body for request in server.requests])


def test_an_executor_of_threads(serve):
    server = serve()
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        result = cellwright.map(["a", "b", "c", "d"], executor=executor, progress=False)
    assert result.texts == ["re: a", "re: b", "re: c", "re: d"]
    assert len(server.requests) == 4


def test_it_is_shown_as_a_table_with_nothing_active(serve):
    serve(lambda body: say("<img src=x onerror=alert(1)>"))
    result = cellwright.map({"<b>": "<script>"}, progress=False)
    page = result._repr_html_()
    assert "<img" not in page
    assert "<script" not in page
    assert "&lt;img" in page
    assert repr(result).startswith("<MapResult: 1 prompt, $")


def test_code_that_claude_runs_cannot_call_it(serve):
    from cellwright.agent.thread import running_agent_code

    serve()
    with running_agent_code(), pytest.raises(CellwrightError, match="cannot ask Claude"):
        cellwright.map(["a"])


def test_stores_of_long_ago_go(serve, own_place):
    serve()
    old = own_place / "cellwright" / "maps" / "old.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text("{}\n")
    os.utime(old, (1, 1))
    cellwright.map(["a"], progress=False)
    assert not Path(old).exists()
