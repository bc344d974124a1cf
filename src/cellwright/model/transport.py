"""Transports to the Messages API: the interface they share, and the one for a plain key over httpx2.

`sdk_transport.py` has the other one, for credentials that only the SDK's clients can sign with. httpx2 is imported
when it is needed (60 ms), and the TLS context is made then (45 ms), both in a worker thread: neither holds up an
event loop.

An async client belongs to the event loop that it was first used in: there is one for each loop, made off the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.provider import request_sent
from cellwright.model.retry import Clock, FailedAttempt, RequestFailed, broken_stream
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    import ssl

    import httpx2

Client = TypeVar("Client")


class LoopClients(Generic[Client]):
    """A client for each event loop, since its connections belong to the loop. Built in a worker thread at first use."""

    def __init__(self, build: Callable[[], Client]) -> None:
        self._build = build
        self._building: dict[asyncio.AbstractEventLoop, asyncio.Task[Client]] = {}

    async def get(self) -> Client:
        """The running loop's client. Who is cancelled while he waits for it does not end the building of it."""
        loop = asyncio.get_running_loop()
        task = self._building.get(loop)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            for closed in [other for other in self._building if other.is_closed()]:
                del self._building[closed]
            task = self._building[loop] = loop.create_task(asyncio.to_thread(self._build))
        return task.result() if task.done() else await asyncio.shield(task)

    def pop(self) -> Client | None:
        """The running loop's client, if there is one; the next `get` builds another."""
        task = self._building.pop(asyncio.get_running_loop(), None)
        finished = task is not None and task.done() and not task.cancelled() and task.exception() is None
        return task.result() if task is not None and finished else None


API_VERSION = "2026-10-21"
DEFAULT_BASE_URL = "https://api.anthropic.com"
MESSAGES_PATH = "/v1/messages"
BETA_HEADER = "anthropic-beta"
CONNECT_SECONDS = 5.0
KEEP_WARM_SECONDS = 120.0
"""The time an idle connection is kept: a turn's tools may take as long, and a new one costs a TLS handshake."""

MIN_SECRET = 8
"""Characters: a shorter word of a header is no secret, and taking it out of texts would garble them."""

_HEADER_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class HttpReply(Struct, frozen=True):
    """An answer whose body is still coming. Header names are lower case; the body of a 200 is server-sent events."""

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
        import httpx2

        # whatever happens here, the message was complete before it
        with contextlib.suppress(TimeoutError, httpx2.HTTPError, RequestFailed):
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


QUICK_WAITS = 32
"""From so many waits for the connection on, a body is a long answer; tool calls come in shorter ones."""

READ_SECONDS = 0.02
"""The time between two reads of a long answer that comes quickly."""

WAIT_SECONDS = 0.0002
"""A chunk that takes longer was waited for; one that the last read brought is there at once."""


async def paced(chunks: AsyncGenerator[bytes, None], clock: Clock) -> AsyncGenerator[bytes, None]:
    """The `chunks` of a body, read in fewer turns where they come one by one and quickly.

    A wait for the connection wakes the loop and passes httpx2's and anyio's layers: that costs 150 µs, ten times what is
    done with a delta, and nobody sees deltas one by one. So after `QUICK_WAITS` the connection gathers for
    `READ_SECONDS` what comes.
    """
    waits = 0
    asked = clock.now()
    async for chunk in chunks:
        waited = clock.now() - asked
        yield chunk
        if WAIT_SECONDS < waited < READ_SECONDS:
            waits += 1
            if waits > QUICK_WAITS:
                await clock.sleep(READ_SECONDS)
        asked = clock.now()


class Transport(Protocol):
    """One credential at one address. Only the transport knows the credential; `redact` takes it out of a text.

    Both methods give the reply as a context manager: leaving it, or cancelling, closes the connection to the server
    unless the body was read to its end. What keeps an answer from coming is raised as `RequestFailed`.
    """

    def post(
        self, body: bytes, *, stall_seconds: float, betas: Sequence[str] = (), path: str = MESSAGES_PATH
    ) -> AbstractAsyncContextManager[HttpReply]:
        """Send a request for a message, or another to `path`, with the `betas` that it makes use of. The answer fails when
        nothing comes for `stall_seconds`.
        """
        ...

    def get(self, path: str, *, seconds: float) -> AbstractAsyncContextManager[HttpReply]:
        """Ask for `path` of the API (`/v1/models/…`)."""
        ...

    def redact(self, text: str) -> str: ...

    async def prepare(self) -> None:
        """Do ahead what the first request would have to wait for."""
        ...

    async def aclose(self) -> None:
        """Close the connections that were opened in the running loop."""
        ...


def import_http_library() -> None:
    """Import what sends requests, all of it: parts come at their first use, and the loop would stand still for them."""
    import anyio
    import httpcore2  # noqa: F401
    import httpx2  # noqa: F401  60 ms

    asyncio.run(anyio.sleep(0))  # its asyncio part takes 25 ms


class KeyTransport:
    """A key or a token over httpx2, with the headers that the SDK sends for it.

    `custom_headers` win over ours. Redirects are not followed: neither the key nor the conversation goes to an address
    that the user did not name.
    """

    def __init__(
        self,
        *,
        token: str | None,
        base_url: str = DEFAULT_BASE_URL,
        custom_headers: Mapping[str, str] | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            message = f"ANTHROPIC_BASE_URL is {base_url!r}: it must begin with https:// or http://."
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        self._url = base_url.rstrip("/")
        values = " ".join([token or "", *(custom_headers or {}).values()])
        self._secrets = [word for word in values.split() if len(word) >= MIN_SECRET]
        self._headers = _checked_headers(token, custom_headers or {})
        self._clients = LoopClients(self._build_client)

    def __repr__(self) -> str:
        return f"KeyTransport({self._url!r})"

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text

    async def prepare(self) -> None:
        await self._clients.get()

    async def aclose(self) -> None:
        client = self._clients.pop()
        if client is not None:
            await client.aclose()

    def _beta_header(self, betas: Sequence[str]) -> dict[str, str]:
        users = [name.strip() for name in self._headers.get(BETA_HEADER, "").split(",") if name.strip()]
        return {BETA_HEADER: ",".join(dict.fromkeys([*users, *betas]))} if betas else {}

    @contextlib.asynccontextmanager
    async def post(
        self, body: bytes, *, stall_seconds: float, betas: Sequence[str] = (), path: str = MESSAGES_PATH
    ) -> AsyncIterator[HttpReply]:
        client = await self._clients.get()
        request = client.build_request(
            "POST",
            self._url + path,
            content=body,
            headers=self._beta_header(betas),
            timeout=stall_timeout(stall_seconds),
            extensions={"trace": _when_written(request_sent.get())},
        )
        async with _sent(client, request, stall_seconds) as reply:
            yield reply

    @contextlib.asynccontextmanager
    async def get(self, path: str, *, seconds: float) -> AsyncIterator[HttpReply]:
        client = await self._clients.get()
        async with _sent(client, client.build_request("GET", self._url + path, timeout=seconds), seconds) as reply:
            yield reply

    def _build_client(self) -> httpx2.AsyncClient:
        import_http_library()
        import httpx2

        return httpx2.AsyncClient(
            headers=self._headers,
            verify=_tls_context() if self._needs_tls() else False,
            limits=httpx2.Limits(max_keepalive_connections=10, keepalive_expiry=KEEP_WARM_SECONDS),
            follow_redirects=False,
        )

    def _needs_tls(self) -> bool:
        import urllib.request  # 17 ms; httpx2 needs it too

        return self._url.startswith("https://") or any(
            proxy.startswith("https://") for proxy in urllib.request.getproxies().values()
        )


def _when_written(call: Callable[[], None]) -> Callable[[str, Mapping[str, object]], Coroutine[Any, Any, None]]:
    """Have httpcore2 call `call` when the body of a request is written."""

    async def trace(step: str, _about: Mapping[str, object]) -> None:
        if step == "http11.send_request_body.complete":
            call()

    return trace


@contextlib.asynccontextmanager
async def _sent(client: httpx2.AsyncClient, request: httpx2.Request, stall_seconds: float) -> AsyncIterator[HttpReply]:
    with as_failures(request.url.host, stall_seconds):
        response = await client.send(request, stream=True)
        async with contextlib.aclosing(response), contextlib.aclosing(reply_of(response)) as reply:
            yield reply


@contextlib.contextmanager
def as_failures(host: str, stall_seconds: float) -> Iterator[None]:
    """Raise httpx2's errors as `RequestFailed`; their own tracebacks, which hold headers, go no further."""
    import httpx2

    try:
        yield
    except httpx2.TransportError as error:
        raise RequestFailed(network_failure(error, host, stall_seconds)) from None
    except (httpx2.StreamError, httpx2.DecodingError) as error:
        raise RequestFailed(broken_stream(f"The answer could not be read ({error}).", "")) from None


def reply_of(response: httpx2.Response) -> HttpReply:
    # without an encoding there is nothing to decode, and the raw chunks come with less in between;
    # the SDK has read an error's body already
    plain = "content-encoding" not in response.headers and not response.is_stream_consumed
    chunks = response.aiter_raw() if plain else response.aiter_bytes()
    return HttpReply(response.status_code, dict(response.headers), chunks)


def stall_timeout(stall_seconds: float) -> httpx2.Timeout:
    import httpx2

    return httpx2.Timeout(stall_seconds, connect=min(CONNECT_SECONDS, stall_seconds))


def network_failure(error: BaseException, host: str, stall_seconds: float) -> FailedAttempt:
    """Explain a network error of httpx2 to people. Its own words are quoted from its innermost cause."""
    import ssl

    import httpx2

    cause = _innermost(error)
    words = str(cause).rstrip(".") or type(cause).__name__
    if isinstance(cause, ssl.SSLCertVerificationError):
        message = (
            f"The certificate of {host} cannot be verified ({cause.verify_message}). "
            "If a proxy inspects the traffic, set SSL_CERT_FILE to its certificate."
        )
        return FailedAttempt(ErrorCode.API_NETWORK_ERROR, message, retryable=False)
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        # its words can quote a header
        message = "The request cannot be sent as it is. Check ANTHROPIC_BASE_URL and ANTHROPIC_CUSTOM_HEADERS."
        return FailedAttempt(ErrorCode.API_REQUEST_INVALID, message, retryable=False)
    if isinstance(error, httpx2.ConnectTimeout):
        message = f"{host} did not accept a connection within {CONNECT_SECONDS:g} s. Check the network and the proxy."
    elif isinstance(error, httpx2.TimeoutException):
        message = f"Nothing came from {host} for {stall_seconds:g} s."
    elif isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        message = f"{host} cannot be reached ({words}). Check the network, the proxy and ANTHROPIC_BASE_URL."
    else:
        message = f"The connection to {host} was cut ({words})."
    return FailedAttempt(ErrorCode.API_NETWORK_ERROR, message, retryable=True)


def _innermost(error: BaseException) -> BaseException:
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__ or error.__context__ or error
        if isinstance(error, BaseExceptionGroup):  # one for each address that was tried
            error = error.exceptions[0]
    return error


def _checked_headers(token: str | None, custom_headers: Mapping[str, str]) -> dict[str, str]:
    headers = {
        "accept": "application/json",
        "content-type": "application/json",
        "anthropic-version": API_VERSION,
        "user-agent": "cellwright",
    }
    if token is not None:
        if not _is_header_value(token):
            message = "The API key holds a character that no key has (a line break, perhaps). Set it again."
            raise CellwrightError(ErrorCode.API_KEY_INVALID, message)
        headers["authorization"] = f"Bearer {token}"
    for name, value in custom_headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _is_header_value(value)):
            message = f"ANTHROPIC_CUSTOM_HEADERS: {name!r} cannot be sent as a header. Write `Name: value`, one a line."
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        headers[name.lower()] = value
    return headers


def _is_header_value(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _tls_context() -> ssl.SSLContext:
    return _tls_context_of(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.lru_cache(maxsize=1)
def _tls_context_of(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()
