"""Which URLs are read, and which addresses may be reached."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import ErrorCode, ToolError
from cellwright.permissions.public_addresses import is_public
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


@for_each_row(
    ("address", "expected"),
    [
        *((public, True) for public in ("93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8")),
        *(
            (private, False)
            for private in ("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1")
        ),
        *((link, False) for link in ("169.254.169.254", "169.254.0.1", "fe80::1", "fd00:ec2::254", "168.63.129.16")),
        *((other, False) for other in ("100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "203.0.113.5")),
        *((special, False) for special in ("224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "ff02::1")),
        # what IPv6 wraps around them
        *(
            (wrapped, False)
            for wrapped in ("::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::a00:1")
        ),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", False),
    ],
)
def test_what_is_public(address: str, expected: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is expected


def test_a_name_with_one_private_address_is_refused() -> None:
    async def resolver(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(ToolError, match=r"10\.0\.0\.1, which is not on the public internet") as caught:
        asyncio.run(public_address(read_address("https://example.com"), resolver, is_public))
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    "url", ["http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://localhost/", "http://127.1/"]
)
def test_other_spellings_of_this_machine_are_resolved_and_refused(url: str) -> None:
    from cellwright.tools.web.client import resolve

    with pytest.raises(ToolError) as caught:
        asyncio.run(public_address(read_address(url), resolve, is_public))
    assert caught.value.code in (ErrorCode.PERMISSION_DENIED, ErrorCode.NETWORK_ERROR)
