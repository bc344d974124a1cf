"""The host in `WebFetch(domain:…)` and in a URL, in one spelling: compared label by label, not by how a text starts.

    domain:example.com       this host alone
    domain:*.example.com     its subdomains, at any depth, not the host itself
    domain:api-*.example.com a `*` elsewhere stays inside its label
    domain:*                 every host

A URL is read strictly: what two readers of it could take for different hosts is no URL here.
"""

from __future__ import annotations

import ipaddress

from msgspec import Struct

from cellwright.permissions.rules.name_pattern import glob_match
from cellwright.text import lazy_pattern

_URL = lazy_pattern(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?:[/?#].*)?")
_PORT = lazy_pattern(r":\d{0,5}\Z")
_UNSAFE = lazy_pattern(r"[\x00-\x20\x7f\\]")
_HOST = lazy_pattern(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMERIC = lazy_pattern(r"(?:\d+|0x[0-9a-f]*)\Z")
_LABEL_PATTERN = lazy_pattern(r"[a-z0-9_*-]{1,63}")

_HOST_AND_PORT = lazy_pattern(r"(?P<host>\[[^\]]*\]|[^:\[\]]+)(?::(?P<port>\d{1,5}))?")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# IANA's special-purpose registries, written out, since Pythons differ about them
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # public by its number, yet a cloud's service for its machines (Azure)
        *("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
    )
)
_IPV6_PUBLIC = ipaddress.ip_network("2000::/3")
"""All that is given out of IPv6: outside there are this machine, links, sites, multicast, and wrapped IPv4 addresses."""
_IPV6_WITH_IPV4_AT_THE_END = (ipaddress.ip_network("::ffff:0:0/96"), ipaddress.ip_network("64:ff9b::/96"))


class AddressProblem(Exception):
    """A URL or host that cannot be read for certain: why, as the end of a sentence."""


def host_of(url: str) -> str:
    """The host that `url` is fetched from: lower case, ASCII, no trailing dot. Raises AddressProblem."""
    if _UNSAFE.search(url):
        raise AddressProblem("has a blank, a control character or a backslash")
    found = _URL.fullmatch(url)
    if found is None:
        raise AddressProblem("does not start with https:// and a host")
    if found["scheme"].lower() not in ("http", "https"):
        raise AddressProblem(f"has the scheme `{found['scheme']}`, and only http and https are fetched")
    if "@" in found["authority"]:
        raise AddressProblem("has a user name before its host, which hides where it leads")
    return normal_host(_PORT.sub("", found["authority"]))


def normal_host(host: str) -> str:
    """One spelling for a host, IP addresses included. Raises AddressProblem."""
    if host.startswith("["):
        return _ip_version_6(host)
    if not host.isascii():
        host = _in_ascii(host)
    host = host.lower().removesuffix(".")
    # DNS has no longer names
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise AddressProblem("has no proper host")
    if _NUMERIC.match(host.rpartition(".")[2]):
        return _ip_version_4(host)
    return host


def _in_ascii(host: str) -> str:
    import idna  # needed for few hosts; read as WebFetch reads it

    try:
        return idna.encode(host, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise AddressProblem("has a host that no domain can be called") from error


def _ip_version_6(host: str) -> str:
    try:
        if not host.endswith("]") or "%" in host:
            raise ValueError(host)
        address = ipaddress.IPv6Address(host[1:-1])
    except ValueError as error:
        raise AddressProblem("has no proper IP address") from error
    return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{address.compressed}]"


def _ip_version_4(host: str) -> str:
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError as error:
        # 127.1, 0x7f000001 and 2130706433 are 127.0.0.1 for some programs and a name for others
        raise AddressProblem("has an IP address in an unusual spelling") from error


class DomainPattern(Struct, frozen=True):
    """A compiled `domain:…`: `labels` with wildcards; `below`: any labels may stand before them."""

    labels: tuple[tuple[str, ...], ...]
    below: bool = False

    def matches(self, host: str) -> bool:
        """Return whether the normal `host` falls under the pattern."""
        names = host.split(".") if not host.startswith("[") else [host]
        if not (len(names) > len(self.labels) if self.below else len(names) == len(self.labels)):
            return False
        last = names[len(names) - len(self.labels) :]
        return all(glob_match(pieces, name) for pieces, name in zip(self.labels, last, strict=True))


def read_domain(specifier: str) -> DomainPattern:
    """Compile what stands in `WebFetch(…)`. Raises AddressProblem."""
    key, colon, domain = specifier.partition(":")
    domain = domain.strip()
    if not colon or key.strip().lower() != "domain" or not domain:
        raise AddressProblem("is not of the form `domain:example.com`")
    if domain == "*":
        return DomainPattern((), below=True)
    if domain.startswith("["):
        return DomainPattern(((normal_host(domain),),))
    below = domain.startswith("*.")
    labels = [
        label.lower() if "*" in label or label.isascii() else _in_ascii(label)
        for label in domain.removeprefix("*.").removesuffix(".").split(".")
    ]
    if not any("*" in label for label in labels):
        return DomainPattern(tuple((label,) for label in normal_host(".".join(labels)).split(".")), below)
    if not all(_LABEL_PATTERN.fullmatch(label) for label in labels):
        raise AddressProblem("has no proper host after `domain:`")
    return DomainPattern(tuple(tuple(label.split("*")) for label in labels), below)


class HostPattern(Struct, frozen=True):
    """A compiled entry: `port` None stands for every port.

    `exact`: it names one machine so plainly (an IP address, `localhost`, a name with its port) that a private address can be
    meant; a name alone is one of the public internet.
    """

    domain: DomainPattern
    port: int | None
    exact: bool

    def matches(self, host: str, port: int) -> bool:
        """Return whether the normal `host` at `port` falls under the pattern."""
        return self.port in (None, port) and self.domain.matches(host)


def read_host(text: str) -> HostPattern:
    """Compile one entry. Raises AddressProblem."""
    found = _HOST_AND_PORT.fullmatch(text.strip())
    if found is None:
        raise AddressProblem("is not of the form `example.com`, `*.example.com` or `example.com:443`")
    port = None if found["port"] is None else int(found["port"])
    if port is not None and not 0 < port <= 65_535:
        raise AddressProblem("has a port that there is not")
    host = found["host"]
    domain = read_domain(f"domain:{host}")
    wild = "*" in host
    return HostPattern(domain, port, exact=not wild and (port is not None or names_itself(host)))


def names_itself(host: str) -> bool:
    """Return whether `host` says by itself which machine it is: an IP address, or this one."""
    lowered = host.lower().removesuffix(".")
    return lowered == "localhost" or lowered.startswith("[") or lowered.rpartition(".")[2].isdecimal()


def is_public(address: Address) -> bool:
    """Return whether `address` is one of the public internet, also behind what IPv6 wraps around an IPv4 address.

    >>> is_public(ipaddress.ip_address("169.254.169.254")), is_public(ipaddress.ip_address("::ffff:10.0.0.1"))
    (False, False)
    """
    if isinstance(address, ipaddress.IPv6Address):
        if any(address in network for network in _IPV6_WITH_IPV4_AT_THE_END):
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _IPV6_PUBLIC or (address.sixtofour is not None and not is_public(address.sixtofour)):
            return False
    # what a newer Python's registries hold besides is refused as well
    return not any(address in network for network in _NOT_PUBLIC) and not address.is_private
