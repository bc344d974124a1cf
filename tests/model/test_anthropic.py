"""Servers that speak almost as the API does: what they send besides is passed by, what they send wrong is one error."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import pytest

from cellwright.errors import ApiError
from cellwright.events import Retrying, TextDelta, TurnEnd
from cellwright.model.anthropic import AnthropicProvider
from cellwright.model.message_stream import MAX_EVENT_BYTES
from cellwright.model.pricing import MAX_COUNT
from cellwright.model.provider import Request
from cellwright.model.retry import Clock, RetryPolicy
from cellwright.model.transports.reply import HttpReply
from eventual import growth
from row_tables import for_each_row

REQUEST = Request(model="m", system=b"[]", tools=b"[]", messages=[b'{"role":"user","content":"go"}'], max_tokens=9)


class OneBody:
    """A transport whose server answers everything with one body, a stream unless `content_type` says something else."""

    def __init__(self, *chunks: bytes, content_type: str = "text/event-stream") -> None:
        self.chunks = chunks
        self.content_type = content_type
        self.asked = 0

    def redact(self, text: str) -> str:
        return text

    async def prepare(self) -> None: ...

    async def aclose(self) -> None: ...

    @contextlib.asynccontextmanager
    async def post(self, body: bytes, *, stall_seconds: float, betas: Sequence[str] = ()) -> AsyncIterator[HttpReply]:
        async def chunks() -> AsyncGenerator[bytes, None]:
            for chunk in self.chunks:
                yield chunk

        self.asked += 1
        yield HttpReply(200, {"content-type": self.content_type}, chunks())

    @contextlib.asynccontextmanager
    async def get(self, path: str, *, seconds: float) -> AsyncIterator[HttpReply]:
        raise AssertionError("nobody asks")
        yield


def sse(**event: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())


def whole(usage: Any = None) -> bytes:
    return (
        sse(type="message_start", message={"id": "m", "model": "m", "usage": {"input_tokens": 1}})
        + sse(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
        + sse(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "hello"})
        + sse(type="content_block_stop", index=0)
        + sse(type="message_delta", delta={"stop_reason": "end_turn"}, usage=usage or {"output_tokens": 1})
        + sse(type="message_stop")
    )


async def answers(*chunks: bytes) -> list[Any]:
    async with contextlib.aclosing(AnthropicProvider(OneBody(*chunks)).stream(REQUEST)) as stream:
        return [event async for event in stream]


async def at_once(seconds: float) -> None:
    """Wait no time at all."""


def failed(body: OneBody) -> ApiError:
    """The error of a request to `body`, which is tried twice where it may be."""
    provider = AnthropicProvider(body, retry=RetryPolicy(max_retries=1), clock=Clock(sleep=at_once))

    async def ask() -> None:
        async with contextlib.aclosing(provider.stream(REQUEST)) as stream:
            async for _ in stream:
                pass

    with pytest.raises(ApiError) as raised:
        asyncio.run(ask())
    return raised.value


def streamed(*events: dict[str, Any], usage: Any = None) -> TurnEnd:
    """The message that these events of blocks come to."""
    start = sse(type="message_start", message={"id": "m", "model": "claude-opus-5-5", "usage": {"input_tokens": 1}})
    end = sse(type="message_delta", delta={"stop_reason": "end_turn"}, usage=usage or {"output_tokens": 1})
    told = asyncio.run(answers(start, *(sse(**event) for event in events), end, sse(type="message_stop")))
    assert isinstance(told[-1], TurnEnd)
    shown = "".join(event.text for event in told if isinstance(event, TextDelta))
    assert shown == "".join(block["text"] for block in told[-1].message["content"]), "what was shown is what is kept"
    return told[-1]


def begin(index: Any, text: str = "") -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": text}}


def more(index: Any, text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


@for_each_row(
    "after",
    [
        b"data: [DONE]\n\n",
        b"event: error\ndata: {}\n\n",
        sse(type="message_start", message={}),
        b"data: \xff\n\n",
        b"rest",
    ],
)
def test_what_comes_after_the_end_is_passed_by(after):
    for chunks in ([whole() + after], [whole(), after]):
        events = asyncio.run(answers(*chunks))
        assert isinstance(events[-1], TurnEnd)
        assert events[-1].message["content"] == [{"type": "text", "text": "hello"}]
        assert not [event for event in events if isinstance(event, Retrying)]


def test_a_usage_of_ten_is_one_error_that_names_it():
    with pytest.raises(ApiError, match="output_tokens is 'ten'"):
        asyncio.run(answers(whole(usage={"output_tokens": "ten"})))


@for_each_row("count", [10**400, 10**30, 1e308, float("inf"), MAX_COUNT + 1])
@for_each_row("place", ["start", "end", "nested", "unknown"])
def test_counts_that_no_request_has_say_nothing(count, place):
    """They would end the sums, fill the context for ever, or be no JSON."""
    usage = {
        "start": {"input_tokens": count, "output_tokens": 3},
        "end": {"output_tokens": count},
        "nested": {"output_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": count}},
        "unknown": {"output_tokens": 3, "carbon": count},
    }[place]
    end = streamed(begin(0, "hello"), stop(0), usage=usage)
    json.dumps(end.usage, allow_nan=False)
    assert end.context_tokens < 100
    assert end.cost_usd is None or end.cost_usd < 1


@for_each_row(
    ("events", "texts"),
    [
        ([begin("0"), more(0, "a"), stop("0"), begin(1.0), more(1, "b"), stop("1")], ["a", "b"]),
        ([begin(0.0), begin("1"), more("0", "a"), more(1.0, "b")], ["a", "b"]),
        # all blocks of some gateways have the same number
        ([begin(0), more(0, "a"), stop(0), begin(0), more(0, "b"), stop(0)], ["a", "b"]),
        ([begin(0), more(0, "a"), begin(1), more(1, "b"), begin(0), more(0, "c")], ["a", "b", "c"]),
        ([begin(0), more(0, "a"), stop(0), more(0, "b"), stop(0), more(0, "c")], ["abc"]),
    ],
)
def test_blocks_are_kept_as_they_were_shown(events, texts):
    assert [block["text"] for block in streamed(*events).message["content"]] == texts


@for_each_row("index", [None, True, [0], "first", "9" * 400, 1e308, {}])
def test_a_number_of_a_block_that_is_none_is_one_error_that_names_it(index):
    error = failed(OneBody(sse(**begin(0)), sse(**begin(index))))
    assert "index is" in error.message
    assert "ANTHROPIC_BASE_URL" in error.message


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Too many bees"}}


@for_each_row(
    ("error", "code", "tries"),
    [
        (OVERLOADED, "API_OVERLOADED", 2),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "Too many bees"}}, "API_RATE_LIMITED", 2),
        ({"error": {"message": "Too many bees", "code": 503}}, "API_OVERLOADED", 2),
        ({"error": {"message": "Too many bees", "code": "429"}}, "API_RATE_LIMITED", 2),
        ({"error": {"message": "Too many bees", "type": "server_error"}}, "API_OVERLOADED", 2),
        ({"error": {"message": "Too many bees", "status": "UNAVAILABLE"}}, "API_OVERLOADED", 2),
        ({"error": {"message": "Too many bees", "code": 401}}, "API_KEY_INVALID", 1),
        ({"error": "Too many bees"}, "API_REQUEST_INVALID", 1),
        ({"type": "error", "message": "Too many bees"}, "API_REQUEST_INVALID", 1),
        ({"error": {"message": "Too many bees", "type": "invalid_request_error"}}, "API_REQUEST_INVALID", 1),
    ],
)
@for_each_row(
    "way", ["a JSON body", "JSON where a stream was announced", "data alone", "data behind the start", "an event"]
)
def test_an_error_is_told_in_its_words_and_tried_again_by_its_kind_however_it_comes(error, code, tries, way):
    data = json.dumps(error).encode()
    body = {
        "a JSON body": OneBody(data, content_type="application/json"),
        "JSON where a stream was announced": OneBody(data[:9], data[9:]),
        "data alone": OneBody(b"data: %b\n\n" % data),
        "data behind the start": OneBody(sse(type="message_start", message={"id": "m"}), b"data: %b\n\n" % data),
        "an event": OneBody(b"event: error\ndata: %b\n\n" % data),
    }[way]
    told = failed(body)
    assert "Too many bees" in told.message
    assert (str(told.code), body.asked) == (code, tries)


def test_a_line_without_an_end_is_given_up():
    chunk = b"x" * 1_000_000
    body = OneBody(b"data: ", *[chunk] * (MAX_EVENT_BYTES // len(chunk) + 2))
    assert "32 MB" in failed(body).message
    assert body.asked == 1


def test_a_long_line_takes_time_in_proportion():
    piece = b"data: " + b"x" * 994
    assert growth(lambda chunks: failed(OneBody(*[piece] * chunks, b"\n\n")), 4_000, 12) < 12
