"""`cellwright.map(batch=True)`: each request is in one batch, once, whatever happens on the way."""

from __future__ import annotations

import threading

import pytest

import cellwright
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.testing import Gate, fault, hold, say, turn

pytestmark = pytest.mark.usefixtures("asked_here")


def prompt_of(body):
    return body["messages"][0]["content"][-1]["text"]


@pytest.fixture
def serve(messages_server, monkeypatch):
    def start(script):
        server = messages_server(script)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
        return server

    return start


def created(server):
    """The requests that made a batch; those in it are counted by themselves."""
    return [request for request in server.all_requests if request.action == "batches" and request.method == "POST"]


def test_a_batch_costs_half(serve):
    server = serve(lambda body: say(f"re: {prompt_of(body)}"))
    result = cellwright.map(["a", "b"], batch=True, max_tokens=100, progress=False)
    assert result.texts == ["re: a", "re: b"]
    (sent,) = created(server)
    assert [request["params"]["max_tokens"] for request in sent.body["requests"]] == [100, 100]
    assert "stream" not in sent.body["requests"][0]["params"]
    at_once = cellwright.map(["a", "b"], max_tokens=100, progress=False)
    assert result.cost_usd == pytest.approx(at_once.cost_usd / 2)
    assert [request.error for request in server.all_requests if request.error] == []


def test_typed_answers_and_refused_requests(serve):
    def script(body):
        if prompt_of(body) == "bad":
            return turn(fault("status", status=400, error_type="invalid_request_error", message="no such thing"))
        if prompt_of(body) == "refused":
            return turn(say("I'd rather"), stop_reason="refusal")
        return say("[1]" if prompt_of(body) == "good" else "words")

    serve(script)
    result = cellwright.map(["good", "bad", "refused", "odd"], schema=list[int], batch=True, progress=False)
    assert result.values == [[1], None, None, None]
    assert "no such thing" in result[1].error.message
    assert result[2].error.code == ErrorCode.REFUSED
    assert "not a valid list[int]" in result[3].error.message


def test_an_interrupted_wait_finds_the_batch_again(serve, tmp_path):
    """A batch whose results were never fetched: the store knows its id."""
    server = serve(lambda body: say(f"re: {prompt_of(body)}"))
    store = tmp_path / "answers.jsonl"
    cellwright.map(["a", "b"], batch=True, store=store, progress=False)
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(line for line in lines if b'"answer"' not in line))
    assert cellwright.map(["a", "b", "c"], batch=True, store=store, progress=False).texts == ["re: a", "re: b", "re: c"]
    assert [len(request.body["requests"]) for request in created(server)] == [2, 1]


def test_a_batch_whose_id_was_never_told_is_found(serve, tmp_path):
    """Killed between the creation and its answer: the API has the batch, the store only what was going to be sent."""
    server = serve(lambda body: say(f"re: {prompt_of(body)}"))
    store = tmp_path / "answers.jsonl"
    cellwright.map(["a", "b"], batch=True, store=store, progress=False)
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(line for line in lines if b'"answer"' not in line and b'"batch"' not in line))
    result = cellwright.map(["a", "b"], batch=True, store=store, progress=False)
    assert result.texts == ["re: a", "re: b"]
    assert len(created(server)) == 1


def test_of_two_that_it_may_be_none_is_taken(serve, tmp_path):
    server = serve(lambda body: say("x"))
    store = tmp_path / "answers.jsonl"
    cellwright.map(["a", "b"], batch=True, store=store, progress=False)
    cellwright.map(["c", "d"], batch=True, progress=False)
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(line for line in lines if b'"answer"' not in line and b'"batch"' not in line))
    with pytest.raises(CellwrightError, match="which one is unknown"):
        cellwright.map(["a", "b"], batch=True, store=store, progress=False)
    assert len(created(server)) == 2


def test_a_budget_that_does_not_pay_for_all_sends_nothing(serve):
    server = serve(lambda body: say("x"))
    with pytest.raises(CellwrightError) as caught:
        cellwright.map(["a"] * 50, batch=True, max_tokens=1000, budget=0.01, progress=False)
    assert caught.value.code == ErrorCode.BUDGET_EXCEEDED
    assert created(server) == []


def test_while_it_is_worked_on_the_wait_goes_on(serve):
    gate = Gate()
    server = serve(lambda body: turn(hold(gate), say("done")))

    def open_when_asked_about() -> None:
        gate.wait_until_reached()
        server.wait_for_answered("batch", 2)
        gate.open()

    opener = threading.Thread(target=open_when_asked_about)
    opener.start()
    assert cellwright.map(["a"], batch=True, progress=False).texts == ["done"]
    opener.join()


def test_what_is_no_batch_api_says_so(serve, monkeypatch):
    serve(lambda body: say("x"))
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with pytest.raises(CellwrightError, match="Leave `batch` out"):
        cellwright.map(["a"], batch=True, progress=False)
