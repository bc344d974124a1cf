"""An answer over HTTP whose body is still coming, whichever library brings it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping

from msgspec import Struct

from cellwright.model.retry import RequestFailed


class HttpReply(Struct, frozen=True):
    """An answer whose body is still coming. Header names are lower case; the body of a 200 is server-sent events.

    `chunks` is the body, decoded; what cuts it short is raised as `RequestFailed`.
    """

    status: int
    headers: Mapping[str, str]
    chunks: AsyncGenerator[bytes, None]

    @property
    def is_stream(self) -> bool:
        """False for what stands in a stream's place: a page to sign in, or JSON of a server that cannot stream."""
        return not self.headers.get("content-type", "").startswith(("text/html", "application/json"))

    async def aclose(self) -> None:
        await self.chunks.aclose()

    async def read_to_end(self, seconds: float) -> None:
        """Pass over the rest of the body, for at most `seconds`. Read to its end, the connection can be used again."""
        # whatever happens here, the message was complete before it
        with contextlib.suppress(TimeoutError, RequestFailed):
            async with asyncio.timeout(seconds):
                async for _ in self.chunks:
                    pass

    async def body(self, limit: int = 1_000_000) -> bytes:
        """The whole body, or its first `limit` bytes."""
        whole = bytearray()
        async for chunk in self.chunks:
            whole += chunk
            if len(whole) >= limit:
                break
        return bytes(whole[:limit])
