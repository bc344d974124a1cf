"""Messages as they stream, on every way to the API."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import cellwright
from cellwright.errors import ApiError, ErrorCode
from cellwright.events import TextDelta, ThinkingDelta, ToolInputDelta, TurnEnd
from cellwright.model.provider import MessageStart, RequestOptions
from cellwright.model.retry import FailedAttempt, RetryPolicy, failure_of_event, failure_of_response
from cellwright.testing import Gate, fault, hold, say, think, turn, use, use_json
from row_tables import for_each_row

NOW = 1_000_000.0


def test_a_message_streams_and_arrives_whole(line):
    script = [turn(think("Let me look."), say("Ich schaue nach: 🎉"), use("Read", file_path="a b.txt"), delta_chars=3)]
    played = line(script).play()
    assert played.error is None
    assert "".join(delta.text for delta in played.of(ThinkingDelta)) == "Let me look."
    assert "".join(delta.text for delta in played.of(TextDelta)) == "Ich schaue nach: 🎉"
    inputs = played.of(ToolInputDelta)
    assert json.loads("".join(delta.partial_json for delta in inputs)) == {"file_path": "a b.txt"}
    [end] = played.of(TurnEnd)
    thinking, text, call = end.message["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "Let me look.")
    assert thinking["signature"]
    assert text == {"type": "text", "text": "Ich schaue nach: 🎉"}
    assert call["input"] == {"file_path": "a b.txt"}
    assert {delta.tool_use_id for delta in inputs} == {call["id"]}
    assert [delta.index for delta in (played.of(ThinkingDelta)[0], played.of(TextDelta)[0], inputs[0])] == [0, 1, 2]
    assert (end.stop_reason, end.model, end.message["role"]) == ("tool_use", "claude-opus-5-5", "assistant")
    assert played.events[-1] is end


def test_the_end_says_what_it_cost_and_which_request_it_was(line):
    figures = {
        "input_tokens": 1000,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4000,
        "output_tokens": 50,
    }
    playing = line([turn(say("hi"), usage=figures)])
    [end] = playing.play().of(TurnEnd)
    assert end.usage["output_tokens"] == 50
    assert end.usage["service_tier"] == "standard", "what only message_start says is kept"
    # 1000 at $4, 4000 at $0.20, 50 at $20 a million
    assert end.cost_usd == pytest.approx(0.004 + 0.0008 + 0.001)
    assert end.context_tokens == 5050
    assert end.message_id.startswith("msg_")
    assert end.request_id.startswith("req_")


def test_the_message_goes_back_as_it_came(line):
    """The strict server refuses a changed thinking block, an unknown field, an empty text."""
    playing = line([turn(think("hm", redacted=True), think("hm"), say(" "), use("Read")), say("done")])
    go = {"role": "user", "content": [{"type": "text", "text": "go"}]}

    async def two_turns() -> tuple[TurnEnd, TurnEnd]:
        async with playing.provider() as provider:
            [first] = [e async for e in provider.stream(playing.request(go)) if isinstance(e, TurnEnd)]
            call = first.message["content"][-1]
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "text of the file"}
            answer = {"role": "user", "content": [result]}
            request = playing.request(go, first.message, answer)
            [second] = [e async for e in provider.stream(request) if isinstance(e, TurnEnd)]
        return first, second

    first, second = asyncio.run(two_turns())
    assert [block["type"] for block in first.message["content"]] == ["redacted_thinking", "thinking", "tool_use"]
    assert first.message["content"][-1]["input"] == {}
    assert second.message["content"] == [{"type": "text", "text": "done"}]
    assert playing.server.rejected == []


def test_input_that_is_no_json_is_kept_for_the_answer(line):
    played = line([turn(use_json("Read", '{"file_path": "a', '\\"'))]).play()
    [end] = played.of(TurnEnd)
    assert end.message["content"][0]["input"] == {"INVALID_JSON": '{"file_path": "a\\"'}


def test_the_body_may_be_cut_anywhere(line):
    text = "naïve — 🎉🎉 — 漢字"
    played = line([turn(say(text), use("Read", file_path=text), chunk_bytes=1)]).play()
    assert "".join(delta.text for delta in played.of(TextDelta)) == text
    assert played.of(TurnEnd)[0].message["content"][1]["input"] == {"file_path": text}


def test_a_delta_costs_as_much_in_a_long_answer_and_those_that_come_together_are_one_event(key_line):
    word, here, calls = "some words of an answer ", str(Path(cellwright.__file__).parent / "model"), {}

    def calls_of(deltas: int) -> int:
        playing = key_line([turn(say(word * deltas), delta_chars=len(word), events_per_write=40)])
        calls[deltas] = 0

        def count(frame: FrameType, happened: str, argument: object) -> None:
            calls[deltas] += happened == "call" and frame.f_code.co_filename.startswith(here)

        sys.setprofile(count)
        try:
            played = playing.play()
        finally:
            sys.setprofile(None)
        shown = played.of(TextDelta)
        assert "".join(delta.text for delta in shown) == word * deltas
        assert len(shown) <= deltas / 4
        return calls[deltas]

    # how many come together is the machine's doing: at most each comes alone
    assert calls_of(4_000) < 8 * calls_of(1_000)


def test_what_came_before_a_failure_is_shown(line):
    playing = line([turn(say("begun "), fault("malformed", after=4))], retry=RetryPolicy(max_retries=0))
    played = playing.play()
    assert played.error is not None
    assert "".join(delta.text for delta in played.of(TextDelta)) == "begun "


def test_a_refusal_carries_its_details(line):
    details = {"type": "refusal", "category": "cyber", "explanation": "no"}
    [end] = line([turn(say("I"), stop_reason="refusal", stop_details=details)]).play().of(TurnEnd)
    assert (end.stop_reason, end.stop_details) == ("refusal", details)


def test_leaving_the_stream_closes_the_connection(line):
    gate = Gate()
    playing = line([turn(say("begin"), hold(gate), say("never"))])

    async def first_events() -> list[Any]:
        async with playing.provider() as provider, contextlib.aclosing(provider.stream(playing.request())) as events:
            return [await anext(events), await anext(events)]

    start, delta = asyncio.run(first_events())
    assert isinstance(start, MessageStart)
    assert (start.model, start.usage["input_tokens"] > 0) == ("claude-opus-5-5", True)
    assert delta == TextDelta("begin")
    assert len(playing.server.wait_for_disconnect()) == 1


def test_cancelling_the_task_closes_the_connection(line):
    gate = Gate()
    playing = line([turn(say("begin"), hold(gate), say("never"))])

    async def cancelled() -> None:
        async with playing.provider() as provider:
            seen = asyncio.Event()

            async def read() -> None:
                async for _ in provider.stream(playing.request()):
                    seen.set()

            task = asyncio.create_task(read())
            await seen.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # before the provider is closed
            await asyncio.to_thread(playing.server.wait_for_disconnect)

    asyncio.run(cancelled())


def test_cancelling_before_the_first_byte_closes_the_connection(line):
    playing = line([fault("stall")])

    async def cancelled() -> None:
        async with playing.provider() as provider:
            task = asyncio.create_task(anext(provider.stream(playing.request())))
            await asyncio.to_thread(playing.server.wait_for_requests, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(playing.server.wait_for_disconnect)

    asyncio.run(cancelled())


def test_one_provider_serves_several_loops(line):
    """A connection of one loop is of no use in another; the first goes on where it was."""
    playing = line([say("one"), say("two"), say("three")])
    provider = playing.provider()

    async def once() -> str:
        return "".join([e.text async for e in provider.stream(playing.request()) if isinstance(e, TextDelta)])

    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert [first.run(once()), second.run(once()), first.run(once())] == ["one", "two", "three"]
        first.run(provider.aclose())
        second.run(provider.aclose())


def test_requests_can_run_side_by_side(line):
    gate = Gate()
    playing = line([turn(say("a"), hold(gate), say("b")), say("c")])

    async def both() -> list[str]:
        async def text(provider: Any) -> str:
            return "".join([e.text async for e in provider.stream(playing.request()) if isinstance(e, TextDelta)])

        async with playing.provider() as provider:
            first = asyncio.create_task(text(provider))
            await asyncio.to_thread(gate.wait_until_reached)
            second = await text(provider)
            gate.open()
            return [await first, second]

    assert asyncio.run(both()) == ["ab", "c"]


def test_an_effort_that_the_model_does_not_take_is_said_before_anything_is_sent(key_line):
    playing = key_line([])
    played = playing.play(playing.request(model="claude-haiku-4-5", options=RequestOptions(effort="high")))
    assert isinstance(played.error, ApiError)
    assert played.error.code == ErrorCode.API_REQUEST_INVALID
    assert "does not take the effort high. It takes none." in played.error.message
    assert playing.server.all_requests == []


def of(status: int, body: Any = b"", **headers: str) -> FailedAttempt:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure_of_response(status, named, raw, model="claude-opus-5-5", now=NOW)


def api_error(error_type: str, message: str, **error: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": error_type, "message": message, **error}, "request_id": "req_9"}


@for_each_row(
    ("body", "words"),
    [
        (api_error("invalid_request_error", "max_tokens: bad"), "max_tokens: bad"),
        ({"message": "Malformed input"}, "Malformed input"),  # Bedrock
        ([{"error": {"code": 400, "message": "no such field", "status": "INVALID_ARGUMENT"}}], "no such field"),
        ({"error": "plain words"}, "plain words"),
        ({"detail": "Not here"}, "Not here"),
        (b"upstream said no", "upstream said no"),
        (b"<html><body>no</body></html>", "no reason was given"),
        (b"\xff\xfe", "\ufffd"),
        (b"", "no reason was given"),
        ([], "no reason was given"),
        ({"error": {"message": ["no", "text"]}}, "no reason was given"),
    ],
)
def test_every_form_of_error_is_read(body, words):
    failure = of(400, body)
    assert words in failure.message
    assert "invalid_request_error" not in failure.message
    assert str(failure.code) == "API_REQUEST_INVALID"


def test_a_type_is_named_once_and_an_overload_not_explained_by_itself():
    assert of(400, api_error("invalid_request_error", "")).message.count("invalid_request_error") == 1
    assert of(529, api_error("overloaded_error", "Overloaded")).message.startswith("The API is overloaded. [")


def test_long_words_are_cut():
    assert len(of(400, api_error("invalid_request_error", "x " * 5000)).message) < 700


def test_details_are_for_programs():
    details = {"error_code": "enforced_spend_limit_reached"}
    failure = of(429, api_error("rate_limit_error", "m", details=details), retry_after="5", request_id="req_1")
    assert failure.details == {
        "status": 429,
        "type": "rate_limit_error",
        "error_code": "enforced_spend_limit_reached",
        "request_id": "req_1",
    }
    assert not failure.retryable, "a spend limit is no matter of seconds, whatever the header says"


def test_the_clouds_throttle_without_saying_for_how_long():
    assert of(429, {"message": "Too many requests"}, x_amzn_errortype="ThrottlingException").retryable
    assert of(429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}).retryable


@for_each_row(
    ("error", "headers", "again"),
    [
        (api_error("rate_limit_error", "Number of requests has exceeded your rate limit"), {}, True),
        (api_error("rate_limit_error", "limit"), {"retry_after": "3"}, True),
        ({"detail": "Too many requests"}, {}, True),
        (b"slow down", {}, True),
        (api_error("rate_limit_error", "You have reached your monthly spend limit."), {}, False),
        (api_error("rate_limit_error", "Your credit balance is too low."), {"retry_after": "3"}, False),
        (api_error("rate_limit_error", "m", details={"error_code": "contract_spend_limit_reached"}), {}, False),
        (api_error("billing_error", "The workspace is at its limit."), {"retry_after": "3"}, False),
        (api_error("rate_limit_error", "You have reached your specified API usage limits."), {}, False),
        ({"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, {}, False),
    ],
)
def test_429_is_a_matter_of_money_only_where_its_code_or_words_say_so(error, headers, again):
    failure = of(429, error, **headers)
    assert failure.retryable is again
    assert ("money" in failure.message) is not again


@for_each_row(
    ("headers", "seconds"),
    [
        ({"retry_after": "3"}, 3.0),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after_ms": "soon", "retry_after": "9"}, 9.0),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "tomorrow"}, None),
        ({"retry_after": "Mon, 12 Jan 1970 13:46:50 GMT"}, 10.0),
        ({"retry_after": "Mon, 12 Jan 1970 13:00:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert of(529, **headers).retry_after == seconds


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("prompt is too long: 1000001 tokens > 1000000 maximum", "CONTEXT_TOO_LONG"),
        ("input length and `max_tokens` exceed context limit: 1 + 2 > 2", "CONTEXT_TOO_LONG"),
        ("Your credit balance is too low to access the Anthropic API.", "API_RATE_LIMITED"),
        ("You have reached your specified API usage limits. You will regain access on 2026-12-01.", "API_RATE_LIMITED"),
        ("tools.0: bad", "API_REQUEST_INVALID"),
    ],
)
def test_400_is_several_things(message, code):
    assert str(of(400, api_error("invalid_request_error", message)).code) == code


def test_404_is_the_model_or_the_address():
    assert "'claude-opus-5-5'" in of(404, api_error("not_found_error", "model: claude-opus-5-5")).message
    assert "ANTHROPIC_BASE_URL" in of(404, b"404 page not found").message
    assert "ANTHROPIC_BASE_URL" in of(404, {"detail": "Not Found"}).message


@for_each_row(
    ("error_type", "code", "again"),
    [
        ("overloaded_error", "API_OVERLOADED", True),
        ("api_error", "API_OVERLOADED", True),
        ("timeout_error", "API_OVERLOADED", True),
        ("rate_limit_error", "API_RATE_LIMITED", True),
        ("throttlingException", "API_RATE_LIMITED", True),
        ("ServiceUnavailableException", "API_OVERLOADED", True),
        ("modelStreamErrorException", "API_OVERLOADED", True),
        ("invalid_request_error", "API_REQUEST_INVALID", False),
        ("authentication_error", "API_KEY_INVALID", False),
        ("permission_error", "API_KEY_INVALID", False),
        ("billing_error", "API_RATE_LIMITED", False),
        ("something_new", "API_REQUEST_INVALID", False),
    ],
)
def test_errors_in_the_stream(error_type, code, again):
    data = json.dumps(api_error(error_type, "words")).encode()
    failure = failure_of_event(data, model="m", request_id="req_1")
    assert (str(failure.code), failure.retryable) == (code, again)
    assert "words" in failure.message
    assert "spend" not in failure.message or error_type == "billing_error"


def test_an_error_event_that_is_no_json_is_an_error_all_the_same():
    failure = failure_of_event(b"boom", model="m", request_id="")
    assert "boom" in failure.message
    assert not failure.retryable
