"""The events of a streamed message: order, shape, pieces, pace."""

from __future__ import annotations

import asyncio
import json
import re
import threading

import httpx2
import pytest

from cellwright.testing import Gate, fault, hold, say, slow, think, turn, use, use_json
from row_tables import for_each_row

SUMMARIZED = {"type": "adaptive", "display": "summarized"}
AWKWARD = {"path": 'a"b\\c\n', "text": "é日本😀", "n": 1.5, "flags": [True, None]}

HELLO = {"role": "user", "content": "Hello"}


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


def stream_lines(api, seen):
    """Read a streamed answer line by line into `seen`; what breaks it is raised."""
    body = {**api.body(), "stream": True}
    with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
        for line in response.iter_lines():
            seen.append(line)


def event_names(lines):
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


def sdk_message(api, **changes):
    import anthropic

    with (
        anthropic.Anthropic(base_url=api.server.url, api_key=api.server.api_key, max_retries=0, timeout=60) as sdk,
        sdk.messages.stream(**api.body(**changes)) as stream,
    ):
        return stream.get_final_message()


@for_each_row(
    ("status", "error_type", "sdk_error"),
    [
        (400, "invalid_request_error", "BadRequestError"),
        (401, "authentication_error", "AuthenticationError"),
        (403, "permission_error", "PermissionDeniedError"),
        (404, "not_found_error", "NotFoundError"),
        (413, "request_too_large", "APIStatusError"),
        (429, "rate_limit_error", "RateLimitError"),
        (500, "api_error", "InternalServerError"),
        (502, "api_error", "InternalServerError"),
        (503, "api_error", "InternalServerError"),
        (504, "timeout_error", "InternalServerError"),
        (529, "overloaded_error", "InternalServerError"),
    ],
)
def test_status(client, status, error_type, sdk_error):
    import anthropic

    api = client([fault("status", status=status), fault("status", status=status, message="Not now."), say("fine")])
    response = api.post()
    assert response.status_code == status
    assert response.json()["error"]["type"] == error_type
    assert response.json()["request_id"] == response.headers["request-id"]
    with pytest.raises(getattr(anthropic, sdk_error), match=r"Not now\."):
        sdk_message(api)
    assert sdk_message(api).content[0].text == "fine"
    assert [request.status for request in api.server.requests] == [status, status, 200]
    assert api.server.rejected == [], "a scripted fault is no broken rule"


def test_status_with_retry_headers(client):
    api = client([fault("status", status=429, retry_after=2.5, retry_after_ms=120, headers={"x-should-retry": "true"})])
    headers = api.post().headers
    assert (headers["retry-after"], headers["retry-after-ms"], headers["x-should-retry"]) == ("2.5", "120", "true")
    assert "anthropic-ratelimit-requests-remaining" in headers


def test_status_without_retry_headers(client):
    headers = client([fault("status", status=429)]).post().headers
    assert "retry-after" not in headers
    assert "retry-after-ms" not in headers


def test_status_with_a_proxy_page(client):
    api = client([fault("status", status=502, body="<html>Bad Gateway</html>")])
    response = api.post()
    assert (response.status_code, response.text) == (502, "<html>Bad Gateway</html>")
    assert response.headers["content-type"] == "text/html"


def test_cut_before_the_head(client):
    import anthropic

    api = client([fault("cut"), fault("cut"), say("fine")])
    with pytest.raises(httpx2.NetworkError):
        api.post()
    with pytest.raises(anthropic.APIConnectionError):
        sdk_message(api)
    assert [request.status for request in api.server.requests] == [None, None]
    assert sdk_message(api).content[0].text == "fine"


@pytest.mark.parametrize("scripted", [fault("cut", after=3), turn(say("x"), fault("cut", after=3))])
def test_cut_after_events(client, scripted):
    api = client([scripted, scripted])
    seen: list[str] = []
    with pytest.raises(httpx2.NetworkError):
        stream_lines(api, seen)
    assert event_names(seen) == ["message_start", "content_block_start", "ping"]
    with pytest.raises(httpx2.NetworkError):
        sdk_message(api)
    assert api.server.requests[0].events_sent == 3
    assert not api.server.requests[0].disconnected, "the server cut, not the client"


def test_cut_at_its_place_in_the_turn(client):
    seen: list[str] = []
    with pytest.raises(httpx2.NetworkError):
        stream_lines(client([turn(say("half"), fault("cut"), say("never"))]), seen)
    assert event_names(seen) == ["message_start", "content_block_start", "ping", "content_block_delta"]
    assert '"half"' in seen[-2]


def test_close_in_the_middle(client):
    api = client([fault("close"), turn(say("half"), fault("close"))])
    with pytest.raises(httpx2.RemoteProtocolError, match="disconnected without"):
        api.post()
    seen: list[str] = []
    with pytest.raises(httpx2.RemoteProtocolError, match="incomplete"):
        stream_lines(api, seen)
    assert event_names(seen)[-1] == "content_block_delta"


def test_truncated(client):
    api = client([fault("truncated"), fault("truncated")])
    seen: list[str] = []
    stream_lines(api, seen)
    assert event_names(seen)[0] == "message_start"
    assert event_names(seen)[-1] == "content_block_delta"
    assert sdk_message(api).stop_reason is None


def test_truncated_just_before_the_end(client):
    events = client([turn(use("Read", a=1), fault("truncated"))]).events()
    assert events[-1]["type"] == "content_block_delta", "the call's block is not closed either"
    last = client([turn(say("x"), fault("truncated", after=6))]).events()[-1]
    assert (last["type"], last["delta"]["stop_reason"]) == ("message_delta", "end_turn")


def test_malformed(client):
    api = client([fault("malformed"), fault("malformed")])
    seen: list[str] = []
    stream_lines(api, seen)
    assert event_names(seen)[-1] == "content_block_delta"
    with pytest.raises(json.JSONDecodeError):
        json.loads(seen[-2].removeprefix("data: "))
    with pytest.raises(json.JSONDecodeError):
        sdk_message(api)


@pytest.mark.parametrize("error_type", ["overloaded_error", "api_error"])
def test_error_event(client, error_type):
    import anthropic

    api = client(
        [fault("error_event", error_type=error_type), turn(say("x"), fault("error_event", error_type=error_type))]
    )
    assert api.events()[-1]["error"]["type"] == error_type
    with pytest.raises(anthropic.APIStatusError) as caught:
        sdk_message(api)
    assert (caught.value.type, caught.value.status_code) == (error_type, 200)


def test_stall_ends_after_its_seconds(client):
    api = client([fault("stall", seconds=0.01), fault("stall", seconds=0.01, after=2)])
    with pytest.raises(httpx2.NetworkError):
        api.post()
    seen: list[str] = []
    with pytest.raises(httpx2.NetworkError):
        stream_lines(api, seen)
    assert len(event_names(seen)) == 2


def test_stall_ends_when_it_is_released(client):
    gate = Gate()
    api = client([turn(say("half"), fault("stall", gate=gate))])
    seen: list[str] = []
    failures: list[Exception] = []

    def read() -> None:
        try:
            stream_lines(api, seen)
        except httpx2.HTTPError as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    gate.wait_until_reached()
    assert thread.is_alive()
    gate.open()
    thread.join(60)
    assert isinstance(failures[0], httpx2.NetworkError)
    assert event_names(seen)[-1] == "content_block_delta"


@pytest.mark.parametrize("stalled", [fault("stall"), fault("stall", after=2)])
def test_a_client_that_leaves_a_stall_is_noticed(client, stalled):
    api = client([stalled])
    body = {**api.body(), "stream": True}
    read_timeout = httpx2.Timeout(60, read=0.05)
    with pytest.raises(httpx2.ReadTimeout), httpx2.Client(verify=False) as impatient:
        impatient.post(f"{api.server.url}/v1/messages", json=body, headers=api.headers, timeout=read_timeout)
    (request,) = api.server.wait_for_disconnect()
    assert request.disconnected
    assert not request.finished


def test_a_client_that_leaves_a_running_stream_is_noticed(client):
    gate = Gate()
    api = client([turn(say("x" * 500), hold(gate), say("y")), say("next")], delta_chars=1)
    body = {**api.body(), "stream": True}
    with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
        lines = response.iter_lines()  # kept: a dropped iterator closes the response
        assert next(lines) == "event: message_start"
        gate.wait_until_reached()
    assert api.server.wait_for_disconnect()[0] is api.server.requests[0]
    assert api.post().json()["content"][0]["text"] == "next"


@pytest.mark.parametrize("kind", ["cut", "close"])
def test_a_whole_answer_that_breaks_off(client, kind):
    api = client([turn(say("half"), fault(kind))])
    with pytest.raises((httpx2.NetworkError, httpx2.RemoteProtocolError)):
        api.post()


def test_a_whole_answer_that_is_truncated_malformed_or_an_error(client):
    api = client([fault("truncated"), fault("malformed"), fault("error_event", error_type="overloaded_error")])
    with pytest.raises((httpx2.NetworkError, httpx2.RemoteProtocolError)):
        api.post()
    with pytest.raises(json.JSONDecodeError):
        api.post().json()
    response = api.post()
    assert (response.status_code, response.json()["error"]["type"]) == (529, "overloaded_error")


def test_the_sdk_gets_over_faults_by_its_own_retries(client):
    import anthropic

    api = client(
        [fault("status", status=529), fault("cut"), fault("status", status=429, retry_after_ms=1), say("fine")]
    )
    with anthropic.Anthropic(base_url=api.server.url, api_key=api.server.api_key, max_retries=3) as sdk:
        assert sdk.messages.create(**api.body()).content[0].text == "fine"
    assert len(api.server.requests) == 4


def test_a_fault_after_more_events_than_there_are_happens_at_the_end(client):
    seen: list[str] = []
    with pytest.raises(httpx2.NetworkError):
        stream_lines(client([turn(say("x"), fault("cut", after=99))]), seen)
    assert event_names(seen)[-1] == "message_stop"
