"""Addresses on the web: read strictly, and kept away from what is not public.

What a URL says and what it reaches are two things: the name is resolved first, every address it has must be public, and
the connection then goes to exactly that address, so that the name cannot mean something else a moment later.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode

PORTS = {"http": 80, "https": 443}
MOST_URL_CHARS = 4_000

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC = (
    ipaddress.ip_network("168.63.129.16/32"),  # public by its number, yet a cloud's service for its machines (Azure)
    ipaddress.ip_network("192.0.0.0/24"),  # Pythons differ about it; another cloud's service is in it (Oracle)
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class WebAddress:
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
    import urllib.parse

    if len(url) > MOST_URL_CHARS:
        raise _refused(url[:80] + "…", f"is longer than {MOST_URL_CHARS:,} characters")
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
            raise _refused(url, "has a host that is no address") from error
    import idna

    try:
        name = host.removesuffix(".")
        encoded = name.lower() if name.isascii() else idna.encode(name, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise _refused(url, f"has a host that is no name ({error})") from error
    if not encoded or len(encoded) > 253 or not all(_is_label(label) for label in encoded.split(".")):
        raise _refused(url, "has a host that is no name")
    return encoded


def _is_label(label: str) -> bool:
    return 0 < len(label) <= 63 and all(character.isalnum() or character in "-_" for character in label)


def _refused(url: str, why: str) -> ToolError:
    return ToolError(f"{url!r} {why}. Nothing was fetched.", code=ErrorCode.INVALID_PARAMETERS)


def is_public(address: Address) -> bool:
    """Whether `address` is one of the public internet, also behind what IPv6 wraps around an IPv4 address.

    >>> is_public(ipaddress.ip_address("169.254.169.254")), is_public(ipaddress.ip_address("::ffff:10.0.0.1"))
    (False, False)
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


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
