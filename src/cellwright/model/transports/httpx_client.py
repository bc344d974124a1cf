"""HTTP by httpx2: through proxies, and under the SDK's clients."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any

import anyio
import httpcore2  # noqa: F401  httpx2 imports it at its first request
import httpx2

from cellwright.model.provider import request_sent
from cellwright.model.retry import FailedAttempt, RequestFailed, broken_stream
from cellwright.model.transports.library_logs import guard_logs
from cellwright.model.transports.reply import (
    CONNECT_SECONDS,
    HttpReply,
    certificate_refused,
    connecting_took_too_long,
    connection_cut,
    unreachable,
    unsendable,
    went_silent,
)


def import_httpx() -> None:
    """Import all of httpx2: parts come at their first use, and the loop would stand still for them."""
    guard_logs()
    asyncio.run(anyio.sleep(0))  # its asyncio part takes 25 ms


class HttpxClient:
    """Requests to `url`, each with `headers`, through `proxy` (`http://…`, `socks5://…`) if there is one.

    Redirects are not followed. It belongs to one event loop.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, idle_seconds: float, proxy: str | None = None) -> None:
        import_httpx()
        self._url = url
        if proxy is not None and "://" not in proxy:
            proxy = f"http://{proxy}"
        # given as it is, so that it reads certificates and no proxies from the environment: which one counts is known
        transport = httpx2.AsyncHTTPTransport(limits=limits(idle_seconds), proxy=proxy)
        self._client = httpx2.AsyncClient(headers=headers, transport=transport, follow_redirects=False)

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str], seconds: float
    ) -> AsyncIterator[HttpReply]:
        """The reply to a request for `path`, which may be silent for `seconds`; leaving the context ends it."""
        request = self._client.build_request(
            method,
            self._url + path,
            content=body or None,
            headers=headers,
            timeout=stall_timeout(seconds),
            extensions={"trace": _when_written(request_sent.get())},
        )
        with as_failures(request.url.host, seconds):
            response = await self._client.send(request, stream=True)
        async with contextlib.aclosing(response), contextlib.aclosing(reply_of(response, seconds)) as reply:
            yield reply

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        await self._client.aclose()


def _when_written(call: Callable[[], None]) -> Callable[[str, Mapping[str, object]], Coroutine[Any, Any, None]]:
    """Have httpcore2 call `call` when a request is written to its end."""

    async def trace(step: str, _about: Mapping[str, object]) -> None:
        if step == "http11.send_request_body.complete":
            call()

    return trace


def limits(idle_seconds: float) -> httpx2.Limits:
    return httpx2.Limits(max_keepalive_connections=10, keepalive_expiry=idle_seconds)


def stall_timeout(stall_seconds: float) -> httpx2.Timeout:
    return httpx2.Timeout(stall_seconds, connect=min(CONNECT_SECONDS, stall_seconds))


def reply_of(response: httpx2.Response, stall_seconds: float) -> HttpReply:
    """The answer with its body still to come, whose failures are raised as `RequestFailed`."""
    # without an encoding there is nothing to decode, and the raw chunks come with less in between;
    # the SDK has read an error's body already
    plain = "content-encoding" not in response.headers and not response.is_stream_consumed
    chunks = response.aiter_raw() if plain else response.aiter_bytes()
    failing = _failing(chunks, response.request.url.host, stall_seconds)
    return HttpReply(response.status_code, dict(response.headers), failing)


async def _failing(chunks: AsyncGenerator[bytes, None], host: str, stall_seconds: float) -> AsyncGenerator[bytes, None]:
    with as_failures(host, stall_seconds):
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                yield chunk


@contextlib.contextmanager
def as_failures(host: str, stall_seconds: float) -> Iterator[None]:
    """Raise httpx2's errors as `RequestFailed`; their own tracebacks, which hold headers, go no further."""
    try:
        yield
    except httpx2.TransportError as error:
        raise RequestFailed(network_failure(error, host, stall_seconds)) from None
    except (httpx2.StreamError, httpx2.DecodingError) as error:
        raise RequestFailed(broken_stream(f"The answer could not be read ({error}).", "")) from None


def network_failure(error: BaseException, host: str, stall_seconds: float) -> FailedAttempt:
    """Explain a network error of httpx2 to people. Its own words are quoted from its innermost cause."""
    cause = _innermost(error)
    reason = str(cause) or type(cause).__name__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return certificate_refused(host, cause)
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        return unsendable()
    if isinstance(error, httpx2.ConnectTimeout):
        return connecting_took_too_long(host)
    if isinstance(error, httpx2.TimeoutException):
        return went_silent(host, stall_seconds)
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return unreachable(host, reason)
    return connection_cut(host, reason)


def _innermost(error: BaseException) -> BaseException:
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__ or error.__context__ or error
        if isinstance(error, BaseExceptionGroup):  # one for each address that was tried
            error = error.exceptions[0]
    return error
