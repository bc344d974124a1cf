"""The hosts that a sandboxed command may reach, as `sandbox.network.allowedDomains` names them.

    example.com         this host, at any port            example.com:8443    at this port alone
    *.example.com       its subdomains, not itself        *                   every host

What stands before the port is read as in a rule `WebFetch(domain:…)`.
"""

from __future__ import annotations

from msgspec import Struct

from cellwright.permissions.rules.domain_pattern import AddressProblem, DomainPattern, read_domain
from cellwright.text import lazy_pattern

_HOST_AND_PORT = lazy_pattern(r"(?P<host>\[[^\]]*\]|[^:\[\]]+)(?::(?P<port>\d{1,5}))?")
_LAST_PORT = 65_535


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
    if port is not None and not 0 < port <= _LAST_PORT:
        raise AddressProblem("has a port that there is not")
    host = found["host"]
    domain = read_domain(f"domain:{host}")
    wild = "*" in host
    return HostPattern(domain, port, exact=not wild and (port is not None or names_itself(host)))


def names_itself(host: str) -> bool:
    """Return whether `host` says by itself which machine it is: an IP address, or this one."""
    lowered = host.lower().removesuffix(".")
    return lowered == "localhost" or lowered.startswith("[") or lowered.rpartition(".")[2].isdecimal()
