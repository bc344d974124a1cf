"""The IP addresses of the public internet: what WebFetch and the sandbox's proxy connect to where nothing else is named."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC = (
    ipaddress.ip_network("168.63.129.16/32"),  # public by its number, yet a cloud's service for its machines (Azure)
    ipaddress.ip_network("192.0.0.0/24"),  # Pythons differ about it; another cloud's service is in it (Oracle)
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Return whether `address` is one of the public internet, also behind what IPv6 wraps around an IPv4 address.

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
