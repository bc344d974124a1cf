"""Which URLs are read, and which addresses may be reached."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import ErrorCode, ToolError
from cellwright.permissions.rules.domain_pattern import is_public
from cellwright.tools.web.client import public_address, read_address
from row_tables import for_each_row


@for_each_row(
    ("url", "expected"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com./A?b=C#d", "https://example.com/A?b=C"),
        ("http://example.com:8080/x", "http://example.com:8080/x"),
        ("https://bücher.example/straße?q=ä", "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%A4"),
        ("https://example.com/a%20b", "https://example.com/a%20b"),
        ("https://[2001:db8::1]/x", "https://[2001:db8::1]/x"),
        ("https://１２７.0.0.1/", "https://127.0.0.1/"),
    ],
)
def test_urls_that_are_read(url: str, expected: str) -> None:
    assert read_address(url).url == expected


@for_each_row(
    "url",
    [
        *("file:///etc/passwd", "ftp://example.com/", "javascript:alert(1)", "example.com", "//example.com", ""),
        *(
            "https://",
            "https:///x",
            "https://user@example.com/",
            "https://user:pass@example.com/",
            "https://@example.com/",
        ),
        *("https://good.example\\@evil.example/", "https://good.example\\.evil.example/", "https://exa mple.com/"),
        *("https://example.com/\n", "https://example.com/\tx", "https://example.com\0/", "https://example.com:99999/"),
        *(
            "https://example.com:x/",
            "https://[::1%25eth0]/",
            "https://[fe80::1%eth0]/",
            "https://[::g]/",
            "https://[::1/",
        ),
        *(
            "https://a..b/",
            "https://exa%6dple.com/",
            "https://" + "a" * 64 + ".com/",
            "https://example.com/" + "x" * 4_000,
        ),
        # other spellings of an address, which resolvers and proxies read differently
        *("http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/"),
        *(
            "http://1.2.3.4.5/",
            "http://256.1.1.1/",
            "http://127.0.0.1.0x/",
            "http://example.0x1f/",
            "http://１２７.１/",
        ),
        *("http://①②⑦.1/", "http://[::127.0.0.1.]/", "http://[0:0:0:0:0:ffff:7f.1]/"),
        *("https://-\u202e.com/", "https://a\u200bb.com/\u00a0 "),
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_address(url)
    assert caught.value.code == ErrorCode.INVALID_PARAMETERS


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"http://example.com{text}"):
        try:
            address = read_address(url)
        except ToolError:
            continue
        assert read_address(address.url) == address


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com/x", "https://example.com/x"),
        ("http://example.com:80/x", "https://example.com/x"),
        ("http://example.com:8000/x", "http://example.com:8000/x"),
        ("https://example.com/x", "https://example.com/x"),
    ],
)
def test_http_becomes_https(url: str, expected: str) -> None:
    assert read_address(url).encrypted().url == expected


SPECIAL_IPV4 = """
0.0.0.0 0.1.2.3 10.1.2.3 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.9.9.9 169.254.0.1
169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.9 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1
192.88.99.1 192.168.1.1 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.5 224.0.0.1 239.255.255.250
240.0.0.1 254.1.1.1 255.255.255.255 168.63.129.16
"""
SPECIAL_IPV6 = """
:: ::1 ::2 ::127.0.0.1 ::8.8.8.8 ::ffff:0:8.8.8.8 64:ff9b:1::8.8.8.8 64:ff9b:1:ffff::1 64:ff9a::1 100::1 100:0:0:1::1
200::1 400::1 5f00::1 1fff:ffff::1 2001::1 2001:0:4136:e378:8000:63bf:f5ff:fffe 2001:1::1 2001:2::1 2001:3::1
2001:4:112::1 2001:10::1 2001:20::1 2001:30::1 2001:1ff:ffff::1 2001:db8::1 2002:7f00:1:: 2002:a00:1::
2002:a9fe:a9fe:: 2002:c0a8:101::1 2620:4f:8000::1 3fff::1 3fff:fff:ffff::1 4000::1 8000::1 fc00::1 fd00:ec2::254
fdff::1 fe00::1 fe80::1 fe80::1%eth0 fe80::1%1 febf::1 fec0::1 fed0::1 feff:ffff::1 ff00::1 ff02::1 ff0e::1
::1%lo fec0::1%2
"""
PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 93.184.216.34 100.63.255.255 100.128.0.1 128.0.0.1 169.253.1.1 172.15.1.1
172.32.0.1 192.0.1.1 192.167.1.1 192.169.1.1 198.17.1.1 198.20.0.1 223.255.255.255 168.63.129.17
2606:4700:4700::1111 2001:200::1 2001:4860:4860::8888 2a00:1450:4001::1 2002:808:808::1 2400:cb00::1 3ffe::1
"""


@for_each_row(
    ("address", "expected"),
    [
        *((address, True) for address in PUBLIC.split()),
        *((address, False) for address in (*SPECIAL_IPV4.split(), *SPECIAL_IPV6.split())),
        # what IPv6 wraps around IPv4 addresses is as public as they are
        *((f"{prefix}{address}", False) for address in SPECIAL_IPV4.split() for prefix in ("::ffff:", "64:ff9b::")),
        *((f"{prefix}8.8.8.8", True) for prefix in ("::ffff:", "64:ff9b::")),
    ],
)
def test_what_is_public(address: str, expected: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is expected


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6, network="2000::/3"))
def test_nothing_is_public_that_python_calls_private(address: ipaddress.IPv4Address) -> None:
    if is_public(address):
        assert not any((address.is_private, address.is_loopback, address.is_link_local, address.is_multicast))


def test_a_name_with_one_private_address_is_refused() -> None:
    async def resolver(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(ToolError, match=r"10\.0\.0\.1, which is not on the public internet") as caught:
        asyncio.run(public_address(read_address("https://example.com"), resolver, is_public))
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


@pytest.mark.parametrize("url", ["http://localhost/", "http://LOCALHOST./", "http://ip6-localhost/"])
def test_names_of_this_machine_are_resolved_and_refused(url: str) -> None:
    from cellwright.tools.web.client import resolve

    with pytest.raises(ToolError) as caught:
        asyncio.run(public_address(read_address(url), resolve, is_public))
    assert caught.value.code in (ErrorCode.PERMISSION_DENIED, ErrorCode.NETWORK_ERROR)
