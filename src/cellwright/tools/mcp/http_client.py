"""The HTTP client for servers that are reached by an address: bounded in what it takes, and sending nothing elsewhere.

Environment variables for proxies count as usual. Nothing compressed is asked for or taken: a bound on what arrives would
be none on what it becomes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx2  # heavy: this module is imported where a connection is made

if TYPE_CHECKING:
    from httpx2 import AsyncByteStream, Auth, Response

MAX_BODY_BYTES = 16_000_000
"""Of an answer, and of one event of a stream; more is an error of the call."""

STREAM_BYTES_A_SECOND = 32_000_000
"""More than this of a stream of events waits for the next second."""

CONNECT_SECONDS = 30.0
READ_SECONDS = 300.0


class TooMuch(httpx2.StreamError):
    """An answer that is larger than anybody here takes, or compressed although nobody asked for that."""


def http_client(
    headers: Mapping[str, str], auth: Auth | None = None, answered: Callable[[int], object] | None = None
) -> httpx2.AsyncClient:
    """A client that sends `headers` and what `auth` says with each request, and follows no redirect by itself.

    `answered` is called with the status of each answer.
    """

    async def note_status(response: Response) -> None:
        if answered is not None:
            answered(response.status_code)

    return httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS),
        auth=auth,
        event_hooks={"response": [note_status, _bound]},
    )


async def _bound(response: Response) -> None:
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise TooMuch("the server answered with compressed data although it was asked not to")
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    stream: Any = response.stream
    response.stream = _BoundedEvents(stream) if is_stream and response.is_success else _BoundedBody(stream)


class _BoundedBody(httpx2.AsyncByteStream):
    """A body of which no more than `MAX_BODY_BYTES` are taken."""

    def __init__(self, stream: AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._stream:
            count += len(chunk)
            if count > MAX_BODY_BYTES:
                raise TooMuch(f"the server answered with more than {MAX_BODY_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedEvents(_BoundedBody):
    """A stream of events without an end, of which so much a second is taken; what reads it bounds each event."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        second, count = time.monotonic(), 0
        async for chunk in self._stream:
            count += len(chunk)
            if count > STREAM_BYTES_A_SECOND:
                await asyncio.sleep(max(0.0, second + 1 - time.monotonic()))
                second, count = time.monotonic(), 0
            elif time.monotonic() - second >= 1:
                second, count = time.monotonic(), 0
            yield chunk
