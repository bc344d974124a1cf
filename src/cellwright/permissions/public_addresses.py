"""The IP addresses of the public internet: what WebFetch and the sandbox's proxy connect to where nothing else is named."""

from __future__ import annotations

import ipaddress

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
