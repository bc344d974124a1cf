"""The events of a streamed message: order, shape, pieces, pace."""

from __future__ import annotations

import asyncio
import json
import re
import threading

import httpx2
import pytest

from cellwright.testing import Gate, hold, say, slow, think, turn, use, use_json

SUMMARIZED = {"type": "adaptive", "display": "summarized"}
AWKWARD = {"path": 'a"b\\c\n', "text": "é日本😀", "n": 1.5, "flags": [True, None]}


def pieces(events, kind, field):
    return [event["delta"][field] for event in events if event.get("delta", {}).get("type") == kind]


def test_events_come_in_the_order_of_the_api(client):
    api = client([turn(think("Let me look."), say("I read it."), use("Read", file_path="a.py"))])
    events = api.events(api.body(thinking=SUMMARIZED))
    kinds = [event.get("delta", {}).get("type") or event["type"] for event in events]
    assert [kind for kind, before in zip(kinds, [None, *kinds], strict=False) if kind != before] == [
        "message_start",
        "content_block_start",
        "ping",
        "thinking_delta",
        "signature_delta",
        "content_block_stop",
        "content_block_start",
        "text_delta",
        "content_block_stop",
        "content_block_start",
        "input_json_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [event["index"] for event in events if event["type"] == "content_block_start"] == [0, 1, 2]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[0]["message"]["content"] == []
    assert events[0]["message"]["usage"]["output_tokens"] == 1
    assert events[-2]["usage"]["output_tokens"] > events[-2]["usage"]["output_tokens_details"]["thinking_tokens"] > 0


def test_blocks_start_empty_as_the_api_sends_them(client):
    api = client([turn(think("Hm"), say("x"), use("Read", a=1))])
    starts = [event["content_block"] for event in api.events(api.body(thinking=SUMMARIZED)) if "content_block" in event]
    identifier = starts[2].pop("id")
    assert re.fullmatch(r"toolu_01[0-9a-f]{22}", identifier)
    assert starts == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "name": "Read", "input": {}, "caller": {"type": "direct"}},
    ]


def test_tool_input_is_cut_inside_escapes_and_begins_with_an_empty_piece(client):
    api = client([turn(use("Write", **AWKWARD), delta_chars=7)])
    parts = pieces(api.events(), "input_json_delta", "partial_json")
    assert parts[0] == ""
    assert all(parts[1:])
    assert json.loads("".join(parts)) == AWKWARD
    assert any(part.endswith("\\") for part in parts), parts
    assert max(map(len, parts)) <= 7


def test_a_call_without_input_is_one_empty_piece(client):
    parts = pieces(client([use("Now")]).events(), "input_json_delta", "partial_json")
    assert parts == [""]


def test_tool_input_can_be_scripted_piece_by_piece(client):
    events = client([turn(use_json("Write", '{"a": "\\', "u00", "e9 un"), stop_reason="max_tokens")]).events()
    assert pieces(events, "input_json_delta", "partial_json") == ["", '{"a": "\\', "u00", "e9 un"]
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"


def test_scripted_pieces_that_are_json_are_the_input_of_a_whole_answer(client):
    api = client([use_json("Write", '{"a"', ": 1}"), use_json("Write", '{"a"')])
    assert [api.post().json()["content"][0]["input"] for _ in range(2)] == [{"a": 1}, {}]


def test_text_is_cut_every_delta_chars(client):
    api = client([turn(say("abcdefgh"), delta_chars=3), say("abcdefgh")], delta_chars=5)
    assert pieces(api.events(), "text_delta", "text") == ["abc", "def", "gh"]
    assert pieces(api.events(), "text_delta", "text") == ["abcde", "fgh"]


def test_chunks_cut_multi_byte_characters(client):
    api = client([turn(say("日本語 😀 é" * 20), chunk_bytes=5)])
    body = {**api.body(), "stream": True}
    with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
        chunks = list(response.iter_raw())
    assert any(_is_cut_in_a_character(chunk) for chunk in chunks)
    assert json.dumps("日本語", ensure_ascii=False).strip('"').encode() in b"".join(chunks)


def _is_cut_in_a_character(chunk: bytes) -> bool:
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return True
    return False


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (None, [""]),
        ({"type": "adaptive"}, [""]),
        ({"type": "adaptive", "display": "omitted"}, [""]),
        (SUMMARIZED, ["Let me look."]),
    ],
)
def test_thinking_is_shown_as_the_request_asks(client, thinking, expected):
    api = client([turn(think("Let me look."), say("x"))])
    answer = api.post(api.body(thinking=thinking)).json()
    assert [block["thinking"] for block in answer["content"] if block["type"] == "thinking"] == expected
    assert answer["usage"]["output_tokens_details"]["thinking_tokens"] == 3


@pytest.mark.parametrize(
    ("model", "thinking"),
    [("claude-opus-5", {"type": "disabled"}), ("claude-opus-4-8", None), ("claude-haiku-4-5", None)],
)
def test_a_model_that_does_not_think_leaves_thinking_out(client, model, thinking):
    api = client([turn(think("Let me look."), say("x"))])
    assert [block["type"] for block in api.post(api.body(model=model, thinking=thinking)).json()["content"]] == ["text"]


def test_redacted_thinking(client):
    api = client([turn(think("secret", redacted=True), say("x"))])
    block = api.events()[1]["content_block"]
    assert block["type"] == "redacted_thinking"
    assert "secret" not in block["data"]


@pytest.mark.parametrize("stream", [True, False])
def test_the_turn_says_how_it_stopped(client, stream):
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    api = client([turn(say("No."), stop_reason="refusal", stop_details=details, usage={"output_tokens": 777})])
    if stream:
        event = api.events()[-2]
        answer = {**event["delta"], "usage": event["usage"]}
    else:
        answer = api.post().json()
    assert (answer["stop_reason"], answer["stop_details"]) == ("refusal", details)
    assert answer["usage"]["output_tokens"] == 777


def test_streamed_and_whole_answers_are_the_same(client):
    import anthropic

    script = [turn(think("Hm"), say("日本"), use("Read", **AWKWARD), use("Read"))] * 2
    api = client(script)
    body = api.body(thinking=SUMMARIZED)
    whole = api.post(body).json()
    sdk = anthropic.Anthropic(base_url=api.server.url, api_key=api.server.api_key, max_retries=0)
    with sdk, sdk.messages.stream(**body) as stream:
        streamed = stream.get_final_message().to_dict()
    for answer in (whole, streamed):
        answer.pop("id")
        for block in answer["content"]:
            block.pop("id", None)
    assert {name: whole[name] for name in streamed} == streamed
    assert whole["content"][2]["input"] == AWKWARD


def test_the_sdk_accumulates_what_was_scripted(client):
    import anthropic

    api = client(
        [turn(think("Hm"), say("Reading 日本 now."), use("Read", file_path='a"b\n'), use("Bash", command="ls"))]
    )

    async def ask() -> anthropic.types.Message:
        async with (
            anthropic.AsyncAnthropic(base_url=api.server.url, api_key=api.server.api_key, max_retries=0) as sdk,
            sdk.messages.stream(**api.body(thinking=SUMMARIZED)) as stream,
        ):
            texts = [event.text async for event in stream if event.type == "text"]
            assert "".join(texts) == "Reading 日本 now."
            assert stream.request_id == "req_011000000000000000000001"
            return await stream.get_final_message()

    message = asyncio.run(ask())
    thinking, text, read, bash = message.content
    assert (thinking.thinking, text.text) == ("Hm", "Reading 日本 now.")
    assert (read.name, read.input, bash.name, bash.input) == ("Read", {"file_path": 'a"b\n'}, "Bash", {"command": "ls"})
    assert message.stop_reason == "tool_use"


def test_a_gate_holds_the_stream_in_the_middle_of_a_text(client):
    gate = Gate()
    api = client([turn(say("Hello "), hold(gate), say("world"))], delta_chars=100)
    seen: list[str] = []
    body = {**api.body(), "stream": True}
    with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
        gate.wait_until_reached()
        assert not api.server.requests[0].finished
        for line in response.iter_lines():
            if line.startswith("data: ") and '"text_delta"' in line:
                seen.append(json.loads(line[6:])["delta"]["text"])
                gate.open()
            assert '"index":1' not in line, "one text block, not two"
    assert seen == ["Hello ", "world"]
    assert gate.is_open
    api.server.wait_for_finished(1)


def test_an_open_gate_holds_nothing(client):
    gate = Gate()
    gate.open()
    api = client([turn(say("a"), hold(gate), say("b"))])
    assert api.post().json()["content"] == [{"type": "text", "text": "ab"}]
    assert pieces(client([turn(say("a"), hold(gate), say("b"))]).events(), "text_delta", "text") == ["a", "b"]


def test_nobody_comes_to_a_gate():
    with pytest.raises(TimeoutError, match="no stream came to the gate"):
        Gate().wait_until_reached(timeout=0.01)


def test_a_gate_outlives_its_server(messages_server):
    gate = Gate()
    server = messages_server([turn(hold(gate), say("x"))])
    headers = {"x-api-key": server.api_key, "anthropic-version": "2026-10-21"}
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "stream": True}
    failed: list[Exception] = []

    def ask() -> None:
        try:
            httpx2.post(f"{server.url}/v1/messages", json=body, headers=headers)
        except httpx2.HTTPError as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    gate.wait_until_reached()
    server.stop()
    thread.join(60)
    gate.open()
    assert failed


@pytest.mark.parametrize("script", [turn(slow(0.02), say("abc")), turn(say("abc"), seconds_between_deltas=0.02)])
def test_a_slow_turn_takes_its_time(client, script):
    api = client([script], delta_chars=1)
    assert pieces(api.events(), "text_delta", "text") == ["a", "b", "c"]
    (request,) = api.server.wait_for_finished(1)
    assert request.finished_at - request.received_at >= 0.06


def test_many_events_go_out_in_few_writes(client):
    api = client([turn(say("x" * 1000), delta_chars=1, events_per_write=200)])
    body = {**api.body(), "stream": True}
    with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
        chunks = list(response.iter_raw())
    assert b"".join(chunks).count(b"text_delta") == 1000
    assert api.server.requests[0].events_sent == 1006
