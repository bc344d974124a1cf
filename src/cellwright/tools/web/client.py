"""Getting one page: over https where it can be, to public addresses only, at most so much, and never to another host."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.web_addresses import (
    Address,
    Resolve,
    WebAddress,
    is_public,
    public_address,
    read_address,
    resolve,
)

if TYPE_CHECKING:
    import ssl

    import httpx2

MOST_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
USER_AGENT = "Claude-User (Cellwright)"
ACCEPT = "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.5"


@functools.cache
def tls_context() -> ssl.SSLContext:
    """The certificates that this machine trusts; 45 ms, so it is made once, and not on a loop."""
    import httpx2

    return httpx2.create_ssl_context()


def system_proxy(address: WebAddress) -> str | None:
    """The proxy that the user's environment names for `address`, if any."""
    import urllib.request

    proxy = urllib.request.getproxies().get(address.scheme)
    return proxy if proxy and not urllib.request.proxy_bypass(address.host) else None


@dataclass(frozen=True, slots=True)
class Network:
    """How names are resolved, which addresses may be reached, whom to trust. Tests bring their own."""

    resolve: Resolve = resolve
    allowed: Callable[[Address], bool] = is_public
    tls: Callable[[], ssl.SSLContext] = tls_context
    proxy: Callable[[WebAddress], str | None] = system_proxy


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came: `elsewhere` is where a redirect to another host leads, and then there is no body."""

    address: WebAddress
    status: int
    reason: str
    content_type: str
    body: bytes
    elsewhere: str = ""


async def fetch(address: WebAddress, network: Network, *, most_bytes: int) -> Fetched:
    """Get `address`, following redirects on the same host. Raises ToolError."""
    for _ in range(MOST_REDIRECTS):
        address = address.encrypted()
        async with _answer(address, network) as response:
            location = response.headers.get("location")
            if response.status_code not in REDIRECTS or not location:
                body = await _body(response, address, most_bytes)
                content_type = response.headers.get("content-type", "")
                return Fetched(address, response.status_code, response.reason_phrase, content_type, body)
            target = read_address(str(response.url.copy_with(host=address.host).join(location)))
            if target.host != address.host:
                # the user was asked about this host, not about that one
                return Fetched(address, response.status_code, response.reason_phrase, "", b"", target.url)
            if (target.scheme, address.scheme) == ("http", "https") and target.port not in (None, 80):
                raise ToolError(f"{address.url} leads to {target.url}, which is not encrypted.", code=_NETWORK)
        address = target
    raise ToolError(f"{address.url} redirects more than {MOST_REDIRECTS} times.", code=_NETWORK)


_NETWORK = ErrorCode.NETWORK_ERROR


@contextlib.asynccontextmanager
async def _answer(address: WebAddress, network: Network) -> AsyncIterator[httpx2.Response]:
    import httpx2  # 60 ms; the provider may have imported it already

    proxy = network.proxy(address)
    tls = await asyncio.to_thread(network.tls)
    headers = {"user-agent": USER_AGENT, "accept": ACCEPT, "accept-encoding": "gzip, deflate", "host": _host(address)}
    extensions = {"sni_hostname": address.host}
    if proxy is None:
        ip = await public_address(address, network.resolve, network.allowed)
        url = httpx2.URL(address.url).copy_with(host=ip)
    else:
        # the proxy resolves the name, and decides about addresses; what is private by its own words is refused here
        await _refuse_private_literal(address, network)
        url = httpx2.URL(address.url)
    client = httpx2.AsyncClient(verify=tls, trust_env=False, proxy=proxy, follow_redirects=False)
    try:
        async with client:
            request = client.build_request("GET", url, headers=headers, extensions=extensions)
            response = await client.send(request, stream=True)
            async with contextlib.aclosing(response):
                yield response
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        words = str(error) or type(error).__name__
        raise ToolError(f"{address.url} cannot be fetched: {words}.", code=_NETWORK) from error


async def _refuse_private_literal(address: WebAddress, network: Network) -> None:
    import ipaddress

    with contextlib.suppress(ValueError):
        ipaddress.ip_address(address.host)
        await public_address(address, network.resolve, network.allowed)
    if address.host == "localhost" or address.host.endswith((".localhost", ".local", ".internal")):
        message = f"{address.host} is not on the public internet; nothing was fetched."
        raise ToolError(message, code=ErrorCode.PERMISSION_DENIED)


def _host(address: WebAddress) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return host if address.port is None else f"{host}:{address.port}"


async def _body(response: httpx2.Response, address: WebAddress, most_bytes: int) -> bytes:
    whole = bytearray()
    async for chunk in response.aiter_bytes():
        whole += chunk
        if len(whole) > most_bytes:
            raise ToolError(
                f"{address.url} is larger than {most_bytes:,} bytes; it was not read further. "
                "Download it with Bash (curl -o), if the user allows it.",
                code=_NETWORK,
                details={"limit_bytes": most_bytes},
            )
    return bytes(whole)
