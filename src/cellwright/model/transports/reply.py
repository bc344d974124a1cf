"""An answer over HTTP whose body is still coming, whichever library brings it, and the network's failures in words."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Mapping

from msgspec import Struct

from cellwright.errors import ErrorCode
from cellwright.model.retry import FailedAttempt, RequestFailed

CONNECT_SECONDS = 5.0
"""The time a connection may take to come about."""


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


def certificate_refused(host: str, error: ssl.SSLCertVerificationError) -> FailedAttempt:
    """The certificate of `host` does not hold: trying again would not help."""
    message = (
        f"The certificate of {host} cannot be verified ({error.verify_message}). "
        "If a proxy inspects the traffic, set SSL_CERT_FILE to its certificate."
    )
    return FailedAttempt(ErrorCode.API_NETWORK_ERROR, message, retryable=False)


def unsendable() -> FailedAttempt:
    """The address or a header is not of a form that can be sent. Nothing is quoted, since it can be the key."""
    message = "The request cannot be sent as it is. Check ANTHROPIC_BASE_URL and ANTHROPIC_CUSTOM_HEADERS."
    return FailedAttempt(ErrorCode.API_REQUEST_INVALID, message, retryable=False)


def connecting_took_too_long(host: str) -> FailedAttempt:
    """`host` has not taken the connection."""
    return _retryable(
        f"{host} did not accept a connection within {CONNECT_SECONDS:g} s. Check the network and the proxy."
    )


def went_silent(host: str, seconds: float) -> FailedAttempt:
    """The connection stands, and nothing came for `seconds`."""
    return _retryable(f"Nothing came from {host} for {seconds:g} s.")


def unreachable(host: str, reason: str) -> FailedAttempt:
    """There is no connection, for the `reason` that the system gives."""
    return _retryable(
        f"{host} cannot be reached ({reason.rstrip('.')}). Check the network, the proxy and ANTHROPIC_BASE_URL."
    )


def connection_cut(host: str, reason: str) -> FailedAttempt:
    """The connection ended before the answer did."""
    return _retryable(f"The connection to {host} was cut ({reason.rstrip('.')}).")


def _retryable(message: str) -> FailedAttempt:
    return FailedAttempt(ErrorCode.API_NETWORK_ERROR, message, retryable=True)
