"""Getting one page: over https if it can be, to public addresses only, at most so much, and never to another host.

A URL as text and the machine it reaches are two things: it is read strictly, the name is resolved first, every
address it has must be public, and the connection then goes to exactly that address, so that the name cannot mean
something else a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError
from cellwright.permissions.rules.domain_pattern import Address, is_public
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    import ssl

    import httpx2

PORTS = {"http": 80, "https": 443}
MAX_URL_CHARS = 4_000

_NUMBER = lazy_pattern(r"[0-9]+|0x[0-9a-f]*")


class WebAddress(Struct, frozen=True):
    """A URL taken apart. `host` is ASCII, lower case, without a final dot; `port` is set where the URL sets one."""

    scheme: str
    host: str
    port: int | None
    target: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{f':{self.port}' if self.port is not None else ''}{self.target}"

    @property
    def real_port(self) -> int:
        return PORTS[self.scheme] if self.port is None else self.port

    def encrypted(self) -> WebAddress:
        """The same over https, unless the URL names a port of its own."""
        if self.scheme == "http" and self.port in (None, 80):
            return replace(self, scheme="https", port=None)
        return self


def read_address(url: str) -> WebAddress:
    """Take `url` apart. Raises ToolError for what is no plain http(s) URL.

    >>> read_address("http://Example.COM./a?b#c").url
    'http://example.com/a?b'
    """
    if len(url) > MAX_URL_CHARS:
        raise _refused(url[:80] + "…", f"is longer than {MAX_URL_CHARS:,} characters")
    if any(character <= " " or character in "\\\x7f" for character in url):
        # readers of URLs disagree about them, and one would see another host than the other
        raise _refused(url, "has a blank, a control character or a backslash in it")
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused(url, f"is no URL ({error})") from error
    if parts.scheme.lower() not in PORTS:
        raise _refused(url, "is no http or https URL")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise _refused(url, "has a user name or password in it")
    target = urllib.parse.quote(parts.path or "/", safe="/:@!$&'()*+,;=-._~%")
    if parts.query:
        target += "?" + urllib.parse.quote(parts.query, safe="/:@!$&'()*+,;=-._~%?")
    return WebAddress(parts.scheme.lower(), _host(url, parts.hostname or ""), port, target)


def _host(url: str, host: str) -> str:
    if "%" in host:
        raise _refused(url, "has a zone or an escape in its host")
    if ":" in host:
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError as error:
            raise _refused(url, "has a host that is not an address") from error
    import idna

    try:
        name = host.removesuffix(".")
        encoded = name.lower() if name.isascii() else idna.encode(name, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise _refused(url, f"has a host that is no name ({error})") from error
    labels = encoded.split(".")
    if not encoded or len(encoded) > 253 or not all(_is_label(label) for label in labels):
        raise _refused(url, "has a host that is no name")
    if _NUMBER.fullmatch(labels[-1]) and not _is_plain_ipv4(encoded):
        # 2130706433, 0x7f.1, 0177.0.0.1: resolvers and proxies differ about which address that is
        raise _refused(url, "has a host that is a number, but no address of four decimal numbers")
    return encoded


def _is_plain_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _is_label(label: str) -> bool:
    return 0 < len(label) <= 63 and all(character.isalnum() or character in "-_" for character in label)


def _refused(url: str, why: str) -> ToolError:
    return ToolError(f"{url!r} {why}. Nothing was fetched.", code=ErrorCode.INVALID_PARAMETERS)


Resolve = Callable[[str, int], Awaitable[list[str]]]


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as this machine resolves it. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


async def public_address(address: WebAddress, resolver: Resolve, allowed: Callable[[Address], bool]) -> str:
    """The IP address to connect to. Raises ToolError when the name has none, or any that is not public."""
    try:
        found = [ipaddress.ip_address(text) for text in await resolver(address.host, address.real_port)]
    except (OSError, ValueError) as error:
        raise ToolError(f"{address.host} cannot be resolved: {error}.", code=ErrorCode.NETWORK_ERROR) from error
    if not found:
        raise ToolError(f"{address.host} has no address.", code=ErrorCode.NETWORK_ERROR)
    if private := [str(ip) for ip in found if not allowed(ip)]:
        raise ToolError(
            f"{address.host} is {private[0]}, which is not on the public internet; nothing was fetched. "
            "Use Bash (curl) for services of this machine or network, if the user allows it.",
            code=ErrorCode.PERMISSION_DENIED,
        )
    return str(found[0])


MAX_REDIRECTS = 10
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


class Network(Struct, frozen=True):
    """Name resolution, the addresses that may be reached, and whom to trust. Tests bring their own."""

    resolve: Resolve = resolve
    allowed: Callable[[Address], bool] = is_public
    tls: Callable[[], ssl.SSLContext] = tls_context
    proxy: Callable[[WebAddress], str | None] = system_proxy


class FetchedPage(Struct, frozen=True):
    """The answer to a fetch: `elsewhere` is where a redirect to another host leads, and then there is no body."""

    address: WebAddress
    status: int
    reason: str
    content_type: str
    body: bytes
    elsewhere: str = ""


async def fetch(address: WebAddress, network: Network, *, most_bytes: int) -> FetchedPage:
    """Get `address`, following redirects on the same host. Raises ToolError."""
    for _ in range(MAX_REDIRECTS):
        address = address.encrypted()
        async with _answer(address, network) as response:
            location = response.headers.get("location")
            if response.status_code not in REDIRECTS or not location:
                body = await _body(response, address, most_bytes)
                content_type = response.headers.get("content-type", "")
                return FetchedPage(address, response.status_code, response.reason_phrase, content_type, body)
            target = read_address(str(response.url.copy_with(host=address.host).join(location)))
            if target.host != address.host:
                # the user was asked about this host, not about that one
                return FetchedPage(address, response.status_code, response.reason_phrase, "", b"", target.url)
            if (target.scheme, address.scheme) == ("http", "https") and target.port not in (None, 80):
                raise ToolError(f"{address.url} leads to {target.url}, which is not encrypted.", code=_NETWORK)
        address = target
    raise ToolError(f"{address.url} redirects more than {MAX_REDIRECTS} times.", code=_NETWORK)


_NETWORK = ErrorCode.NETWORK_ERROR


@contextlib.asynccontextmanager
async def _answer(address: WebAddress, network: Network) -> AsyncIterator[httpx2.Response]:
    import httpx2  # 60 ms; the provider may have imported it already

    proxy = network.proxy(address)
    tls = await asyncio.to_thread(network.tls)
    host = f"[{address.host}]" if ":" in address.host else address.host
    headers = {
        "user-agent": USER_AGENT,
        "accept": ACCEPT,
        "accept-encoding": "gzip, deflate",
        "host": host if address.port is None else f"{host}:{address.port}",
    }
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
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(address.host)
        await public_address(address, network.resolve, network.allowed)
    if address.host == "localhost" or address.host.endswith((".localhost", ".local", ".internal")):
        message = f"{address.host} is not on the public internet; nothing was fetched."
        raise ToolError(message, code=ErrorCode.PERMISSION_DENIED)


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
