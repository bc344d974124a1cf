"""The connection from the proxy to the API, with the key that only the server has.

The kernels' own client and not tornado's: leaving a request closes its connection at once (tornado's cannot be told to
stop), little is read that was not asked for (so a slow kernel slows the API's side, and nothing piles up here), and
connections to the API are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.betas import is_anthropics_address
from cellwright.model.retry import RequestFailed
from cellwright.model.transports.transport import API_VERSION, DEFAULT_BASE_URL, HttpClient, LoopClients, http_client
from cellwright.server.proxy.limits import Refusal

STALL_SECONDS = 600.0
"""The time the API may be silent, as the SDK has it; it sends pings meanwhile."""

KEEP_WARM_SECONDS = 120.0

PASSED_ON = ("anthropic-version", "anthropic-beta")
"""The headers of a kernel that go to the API; everything else the proxy says itself."""

PASSED_BACK = ("content-type", "cache-control", "retry-after", "retry-after-ms", "request-id", "x-should-retry")
PASSED_BACK_PREFIXES = ("anthropic-ratelimit-", "anthropic-fast-")
"""Prefixes of the API's headers that go to the kernel: never cookies, nor whose account it is."""


class UpstreamReply(Struct, frozen=True):
    """An answer whose body is still coming. Header names are lower case, and only those that may be passed back."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Upstream:
    """The Messages API at `base_url`, for who has `key`."""

    def __init__(self, key: str, base_url: str = "") -> None:
        url = (base_url.strip() or DEFAULT_BASE_URL).rstrip("/")
        if not url.startswith(("https://", "http://")):
            message = f"The proxy's upstream is {url!r}: it must begin with https:// or http://."
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        if not key or not (key.isascii() and key.isprintable()) or " " in key:
            message = "The proxy's key is missing, or holds a character that no key has. Set it again."
            raise CellwrightError(ErrorCode.API_KEY_MISSING, message)
        self.url = url
        self._key = key
        self._clients = LoopClients(self._build_client)

    def __repr__(self) -> str:
        return f"Upstream({self.url!r})"

    def is_anthropic(self) -> bool:
        """Return whether this leads to Anthropic's own address, perhaps by another proxy of ours. May block for a moment."""
        return is_anthropics_address({"ANTHROPIC_BASE_URL": self.url})

    def holds_key(self, text: str) -> bool:
        """Return whether `text` has the key in it."""
        return self._key in text

    def without_key(self, body: bytes) -> bytes:
        return body.replace(self._key.encode(), b"[secret]")

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[UpstreamReply]:
        """Send a request; leaving the context ends it. `headers` have lower case names. Raises `Refusal` 502."""
        own = {name: headers[name] for name in PASSED_ON if name in headers}
        async with contextlib.AsyncExitStack() as stack:
            try:
                client = await self._clients.get()
                sending = client.send(method, path, body=body or b"", headers=own, seconds=STALL_SECONDS)
                reply = await stack.enter_async_context(sending)
            except (RequestFailed, CellwrightError) as error:
                raise Refusal(502, f"This server does not reach the API: {error}", retry_after=1) from None
            back = {name: value for name, value in reply.headers.items() if _is_passed_back(name)}
            yield UpstreamReply(reply.status, back, reply.chunks)

    async def aclose(self) -> None:
        if (client := self._clients.pop()) is not None:
            await client.aclose()

    def _build_client(self) -> HttpClient:
        headers = {
            "authorization": f"Bearer {self._key}",
            "anthropic-version": API_VERSION,
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "cellwright-proxy",
        }
        return http_client(self.url, headers, idle_seconds=KEEP_WARM_SECONDS)


def _is_passed_back(name: str) -> bool:
    return name in PASSED_BACK or name.startswith(PASSED_BACK_PREFIXES)
