"""Servers that speak almost as the API does: what they send besides is passed by, what they send wrong is one error."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import pytest

from cellwright.errors import ApiError
from cellwright.events import Retrying, TurnEnd
from cellwright.model.anthropic import AnthropicProvider
from cellwright.model.provider import Request
from cellwright.model.transports.reply import HttpReply
from row_tables import for_each_row

REQUEST = Request(model="m", system=b"[]", tools=b"[]", messages=[b'{"role":"user","content":"go"}'], max_tokens=9)


class OneBody:
    """A transport whose server answers everything with one stream."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks

    def redact(self, text: str) -> str:
        return text

    async def prepare(self) -> None: ...

    async def aclose(self) -> None: ...

    @contextlib.asynccontextmanager
    async def post(self, body: bytes, *, stall_seconds: float, betas: Sequence[str] = ()) -> AsyncIterator[HttpReply]:
        async def chunks() -> AsyncGenerator[bytes, None]:
            for chunk in self.chunks:
                yield chunk

        yield HttpReply(200, {"content-type": "text/event-stream"}, chunks())

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
