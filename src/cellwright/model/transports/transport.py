"""Transports to the Messages API: the interface they share, and the one for a plain key.

The other one, for credentials that only the SDK's clients can sign with, is in `sdk_transport.py`. What speaks HTTP is
imported when it is needed, and the TLS context is made then (45 ms), both in a worker thread: neither holds up an event
loop.

An async client belongs to the event loop that it was first used in: there is one for each loop, made off the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.retry import Clock
from cellwright.model.transports.reply import HttpReply
from cellwright.text import lazy_pattern

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
KEEP_WARM_SECONDS = 120.0
"""The time an idle connection is kept: a turn's tools may take as long, and a new one costs a TLS handshake."""


_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")

_HEADER_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


QUICK_WAITS = 32
"""From so many waits for the connection on, a body is a long answer; tool calls come in shorter ones."""

READ_SECONDS = 0.02
"""The time between two reads of a long answer that comes quickly."""


async def paced(chunks: AsyncGenerator[bytes, None], clock: Clock) -> AsyncGenerator[bytes, None]:
    """The `chunks` of a body, read in fewer turns where they come one by one and quickly.

    A wait for the connection wakes the loop and passes the layers of what speaks HTTP: that costs several times what is
    done with a delta, and nobody sees deltas one by one. So after `QUICK_WAITS` the connection gathers for
    `READ_SECONDS` what comes.
    """
    waits = 0
    asked = clock.now()
    async for chunk in chunks:
        waited = clock.now() - asked
        yield chunk
        # a chunk that takes longer was waited for; one that the last read brought is there at once
        if 0.0002 < waited < READ_SECONDS:
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


class HttpClient(Protocol):
    """A client of HTTP for one address, with the headers that each request has. It belongs to one event loop."""

    def send(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str], seconds: float
    ) -> AbstractAsyncContextManager[HttpReply]:
        """Ask for `path` below the address; the reply may be silent for `seconds`."""
        ...

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        ...


def import_http_library() -> None:
    """Import what a request with a plain key needs, all of it: the loop would stand still for what comes at first use."""
    if has_proxies():
        from cellwright.model.transports.httpx_client import import_httpx

        import_httpx()
    else:
        import cellwright.model.transports.direct_client  # noqa: F401


def has_proxies() -> bool:
    """Return whether the environment names a proxy for some address, or the system's settings where those count."""
    if sys.platform in ("darwin", "win32"):
        import urllib.request  # 17 ms

        return bool(urllib.request.getproxies())
    return any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXY_VARIABLES)


def proxy_of(url: str) -> str | None:
    """The proxy that requests to `url` go through, as the environment or the system says; None: straight there."""
    if not has_proxies():
        return None
    import urllib.request  # 17 ms

    address = urlsplit(url)
    host = address.hostname or ""
    port = address.port or (443 if address.scheme == "https" else 80)
    proxies = urllib.request.getproxies()
    exempt = proxies.get("no", "")
    if urllib.request.proxy_bypass(f"{host}:{port}") or _is_in_networks(host, exempt):
        return None
    return proxies.get(address.scheme) or proxies.get("all")


def _is_in_networks(host: str, exempt: str) -> bool:
    """Return whether `host`, an address, is in a network that NO_PROXY names (`10.0.0.0/8`)."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        for name in filter(None, (each.strip() for each in exempt.split(","))):
            with contextlib.suppress(ValueError):
                if address in ipaddress.ip_network(name, strict=False):
                    return True
    return False


def http_client(url: str, headers: Mapping[str, str], *, idle_seconds: float) -> HttpClient:
    """The client for `url`: straight to it, or by httpx2 through a proxy, and where the address holds a user's name.

    Raises `CellwrightError` CONFIG_INVALID where the environment's certificates or proxies, or the address, cannot be used.
    """
    try:
        if (proxy := proxy_of(url)) is not None or "@" in urlsplit(url).netloc:
            from cellwright.model.transports.httpx_client import HttpxClient

            return HttpxClient(url, headers, idle_seconds=idle_seconds, proxy=proxy)
        from cellwright.model.transports.direct_client import DirectClient

        return DirectClient(url, headers, idle_seconds=idle_seconds)
    except OSError as error:  # `ssl.SSLError` is one
        message = f"The certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read ({error})."
    except UnicodeError as error:
        message = f"ANTHROPIC_BASE_URL: no host can have this name ({error})."
    except ImportError:
        message = (
            "The environment names a SOCKS proxy, which needs the package socksio: `pip install socksio`. "
            "NO_PROXY names hosts that are reached without it."
        )
    except ValueError as error:  # of httpx2, whose words hide a proxy's password
        message = f"The proxy that the environment names cannot be used ({error})."
    raise CellwrightError(ErrorCode.CONFIG_INVALID, message)


class KeyTransport:
    """A key or a token, with the headers that the SDK sends for it: straight to the address, or by httpx2 where a proxy
    stands in between.

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
        _check_address(base_url)
        self._url = base_url.rstrip("/")
        values = " ".join([token or "", urlsplit(base_url).password or "", *(custom_headers or {}).values()])
        # a shorter word of a header is no secret, and taking it out of texts would garble them
        self._secrets = [word for word in values.split() if len(word) >= 8]
        self._headers = _checked_headers(token, custom_headers or {}, has_user="@" in urlsplit(base_url).netloc)
        self._clients: LoopClients[HttpClient] = LoopClients(
            lambda: http_client(self._url, self._headers, idle_seconds=KEEP_WARM_SECONDS)
        )

    def __repr__(self) -> str:
        scheme, _, rest = self._url.partition("://")
        return f"KeyTransport({scheme + '://' + rest.rpartition('@')[2]!r})"  # a password can stand before the @

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

    @contextlib.asynccontextmanager
    async def post(
        self, body: bytes, *, stall_seconds: float, betas: Sequence[str] = (), path: str = MESSAGES_PATH
    ) -> AsyncIterator[HttpReply]:
        client = await self._clients.get()
        users = [name.strip() for name in self._headers.get(BETA_HEADER, "").split(",") if name.strip()]
        headers = {BETA_HEADER: ",".join(dict.fromkeys([*users, *betas]))} if betas else {}
        async with client.send("POST", path, body=body, headers=headers, seconds=stall_seconds) as reply:
            yield reply

    @contextlib.asynccontextmanager
    async def get(self, path: str, *, seconds: float) -> AsyncIterator[HttpReply]:
        client = await self._clients.get()
        async with client.send("GET", path, headers={}, seconds=seconds) as reply:
            yield reply


def _check_address(url: str) -> None:
    """Raise `CellwrightError` CONFIG_INVALID where a request's path cannot be put behind `url`."""
    try:
        fault = _fault_of(url)
    except ValueError as error:  # of the port, or of brackets
        fault = str(error)
    if fault:
        shown = "" if "@" in url else f" is {url!r}"  # what stands before the @ can be a password
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"ANTHROPIC_BASE_URL{shown}: {fault}.")


def _fault_of(url: str) -> str:
    address = urlsplit(url)
    if not url.startswith(("http://", "https://")):
        return "it must begin with https:// or http://"
    if not url.isprintable():
        return "it holds a character that no address has (a line break, perhaps)"
    if not address.hostname or address.port == 0:
        return "it names no host or no port"
    return "nothing may follow its path" if address.query or address.fragment else ""


def _checked_headers(token: str | None, custom_headers: Mapping[str, str], *, has_user: bool) -> dict[str, str]:
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
        # the user whom the address names signs in with the other header
        headers |= {"x-api-key": token} if has_user else {"authorization": f"Bearer {token}"}
    for name, value in custom_headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _is_header_value(value)):
            message = f"ANTHROPIC_CUSTOM_HEADERS: {name!r} cannot be sent as a header. Write `Name: value`, one a line."
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        headers[name.lower()] = value
    return headers


def _is_header_value(value: str) -> bool:
    return value.isascii() and value.isprintable()
