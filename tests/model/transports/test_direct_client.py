"""Requests straight to an address: connections that are kept or lost, bodies in every form, and what is said of failures."""

import asyncio
import contextlib
import gzip
import socket
import ssl
import subprocess
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import h11
import httpx2
import pytest

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.anthropic import connect
from cellwright.model.retry import RequestFailed
from cellwright.model.transports.direct_client import WRITE_BYTES, DirectClient, tls_context, trusted_certificates
from cellwright.model.transports.transport import KeyTransport, http_client
from cellwright.testing import say
from row_tables import for_each_row

Answer = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool | None]]


@contextlib.asynccontextmanager
async def served(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that plays `answer` for the head of each request, until one returns False: its address, connections."""
    opened = [0]
    tasks: set[Any] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        opened[0] += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if await answer(head, reader, writer) is False:
                    break
                await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield (f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"), opened
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def plain(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def asked(client: DirectClient, *, seconds: float = 30.0, body: bytes = b"") -> bytes:
    async with client.send("POST" if body else "GET", "/v1", body=body, headers={}, seconds=seconds) as reply:
        return await reply.body()


def client_of(url: str, **options: Any) -> DirectClient:
    return DirectClient(url, {"x-own": "1"}, **{"idle_seconds": 60.0, **options})


DEFLATE = zlib.compress(b"whole")
BODIES = {
    "of a length": plain(b"whole"),
    "in chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nwh\r\n3\r\nole\r\n0\r\n\r\n",
    "after an early hint": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + plain(b"whole"),
    "gzip, unasked": plain(gzip.compress(b"whole"), "content-encoding: gzip"),
    "deflate, unasked": plain(DEFLATE, "content-encoding: deflate"),
    "with an encoding left empty": plain(b"whole", "content-encoding: "),
    "with extensions and trailers": (
        b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a=b;c="d"\r\nwhole\r\n0;z\r\nx-trailer: 1\r\n\r\n'
    ),
}


@pytest.mark.parametrize("form", BODIES)
def test_a_body_arrives_in_every_form_on_one_connection(form):
    async def answer(head, reader, writer):
        assert b"x-own: 1\r\n" in head
        writer.write(BODIES[form])

    async def main() -> None:
        async with served(answer) as (url, opened):
            client = client_of(url)
            assert [await asked(client) for _ in range(3)] == [b"whole"] * 3
            assert opened == [1]
            await client.aclose()

    asyncio.run(main())


def test_a_body_that_ends_with_its_connection_is_whole_and_the_next_request_has_another():
    async def answer(head, reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nwhole")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        return False

    async def main() -> None:
        async with served(answer) as (url, opened):
            client = client_of(url)
            assert [await asked(client) for _ in range(2)] == [b"whole"] * 2
            assert opened == [2]

    asyncio.run(main())


def test_a_connection_that_was_closed_while_idle_is_not_used_again():
    closed = asyncio.Event()

    async def answer(head, reader, writer):
        writer.write(plain(b"whole"))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()
        return False

    async def main() -> None:
        async with served(answer) as (url, opened):
            client = client_of(url)
            assert await asked(client) == b"whole"
            await closed.wait()
            while client._idle and client._idle[0].is_open:  # until the loop has read the end
                await asyncio.sleep(0)
            assert await asked(client) == b"whole"
            assert opened == [2]

    asyncio.run(main())


def test_a_request_on_a_kept_connection_that_closes_as_it_comes_is_sent_on_another():
    requests = 0

    async def answer(head, reader, writer):
        nonlocal requests
        requests += 1
        writer.write(plain(b"whole") if requests != 2 else b"")
        return requests != 2  # the second came on the kept connection, which the server closes just then

    async def main() -> None:
        async with served(answer) as (url, opened):
            client = client_of(url)
            assert [await asked(client, body=b"{}") for _ in range(2)] == [b"whole"] * 2
            assert (requests, opened) == (3, [2])

    asyncio.run(main())


def test_a_new_connection_that_closes_without_an_answer_is_not_tried_again():
    async def answer(head, reader, writer):
        return False

    async def main() -> None:
        async with served(answer) as (url, opened):
            with pytest.raises(RequestFailed, match="was cut"):
                await asked(client_of(url))
            assert opened == [1]

    asyncio.run(main())


UNASKED = {
    "an answer that has no request": plain(b"stale"),
    "the farewell of a server that waited long enough": b"HTTP/1.1 408 Timeout\r\nconnection: close\r\n\r\n",
    "something else": b"GARBAGE\r\n\r\n",
}


@pytest.mark.parametrize("when", ["with the answer", "after it"])
@pytest.mark.parametrize("what", UNASKED)
def test_what_nobody_asked_for_is_no_answer_to_the_next_request(what, when):
    read, written = asyncio.Event(), asyncio.Event()

    async def answer(head, reader, writer):
        if when == "with the answer":
            writer.write(plain(b"whole") + UNASKED[what])
        else:
            writer.write(plain(b"whole"))
            await read.wait()
            writer.write(UNASKED[what])
        await writer.drain()
        written.set()

    async def main() -> None:
        async with served(answer) as (url, opened):
            client = client_of(url)
            assert await asked(client) == b"whole"
            read.set()
            await written.wait()
            for _ in range(3):
                await asyncio.sleep(0)  # the loop reads it
            assert await asked(client) == b"whole"
            assert opened == [2]
            await client.aclose()

    asyncio.run(main())


def test_a_connection_is_kept_for_so_long_and_no_longer():
    async def answer(head, reader, writer):
        writer.write(plain(b"whole"))

    async def main() -> None:
        async with served(answer) as (url, opened):
            client = client_of(url, idle_seconds=0.0)
            assert [await asked(client) for _ in range(2)] == [b"whole"] * 2
            assert opened == [2]
            await client.aclose()

    asyncio.run(main())


def test_leaving_an_answer_closes_its_connection():
    begun, left = asyncio.Event(), asyncio.Event()

    async def answer(head, reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbegun")
        await writer.drain()
        begun.set()
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
        left.set()
        return False

    async def main() -> None:
        async with served(answer) as (url, _):
            client = client_of(url)
            async with client.send("GET", "/", headers={}, seconds=30) as reply:
                assert await anext(reply.chunks) == b"begun"
            await left.wait()
            left.clear()
            begun.clear()
            task = asyncio.create_task(asked(client))
            await begun.wait()
            task.cancel()
            await left.wait()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_who_refuses_a_long_request_before_its_end_is_heard():
    async def answer(head, reader, writer):
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlong")
        await writer.drain()
        await reader.read(100_000)
        writer.close()
        await writer.wait_closed()
        return False

    async def main() -> None:
        async with served(answer) as (url, _):
            client = client_of(url)
            async with client.send("POST", "/", body=b"x" * 150_000, headers={}, seconds=30) as reply:
                assert (reply.status, await reply.body()) == (413, b"long")

    asyncio.run(main())


def test_who_refuses_a_request_unread_is_heard():
    async def answer(head, reader, writer):
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlong")
        await writer.drain()
        writer.close()  # with much unread, which resets the connection
        await writer.wait_closed()
        return False

    async def main() -> None:
        async with served(answer) as (url, _):
            client = client_of(url)
            async with client.send("POST", "/", body=b"x" * 30_000_000, headers={}, seconds=30) as reply:
                assert (reply.status, await reply.body()) == (413, b"long")

    asyncio.run(main())


def test_a_long_body_is_written_as_it_is_taken():
    taking = asyncio.Event()
    length = 30_000_000

    async def answer(head, reader, writer):
        await taking.wait()
        await reader.readexactly(length)
        writer.write(plain(b"whole"))

    async def main() -> None:
        async with served(answer) as (url, _):
            client = client_of(url)
            connection = await client._connected(30)
            head = [("host", "h"), ("content-length", str(length))]
            request = h11.Request(method="POST", target="/", headers=head)
            task = asyncio.create_task(connection.response(request, b"x" * length, 30))
            while not (waiting := connection._writer.transport.get_write_buffer_size()):
                await asyncio.sleep(0)
            assert waiting <= 2 * WRITE_BYTES
            taking.set()
            assert (await task).status_code == 200
            connection.close()

    asyncio.run(main())


async def _nothing(head, reader, writer):
    await reader.read()
    return False


async def _cut_in_body(head, reader, writer):
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbegun")
    await writer.drain()
    return False


async def _cut_at_once(head, reader, writer):
    return False


async def _silent_in_body(head, reader, writer):
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbegun")
    await writer.drain()
    await reader.read()
    return False


async def _other_protocol(head, reader, writer):
    writer.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")


async def _endless_head(head, reader, writer):
    writer.write(b"HTTP/1.1 200 OK\r\n" + b"x-y: z\r\n" * 50_000)


async def _unknown_encoding(head, reader, writer):
    writer.write(plain(b"whole", "content-encoding: br"))


async def _no_gzip(head, reader, writer):
    writer.write(plain(b"whole", "content-encoding: gzip"))


FAILURES = [
    (_nothing, "Nothing came from 127.0.0.1 for 0.3 s."),
    (_silent_in_body, "Nothing came from 127.0.0.1 for 0.3 s."),
    (_cut_at_once, "The connection to 127.0.0.1 was cut (It was closed before the answer came)."),
    (_cut_in_body, "The connection to 127.0.0.1 was cut"),
    (_other_protocol, "The connection to 127.0.0.1 was cut"),
    (_endless_head, "The connection to 127.0.0.1 was cut"),
    (_unknown_encoding, "encoded as br"),
    (_no_gzip, "could not be read"),
]


@for_each_row("answer, words", FAILURES)
def test_what_keeps_an_answer_from_coming_is_said(answer, words):
    async def main() -> None:
        async with served(answer) as (url, _):
            with pytest.raises(RequestFailed) as caught:
                await asked(client_of(url), seconds=0.3)
            assert words in caught.value.failure.message
            assert caught.value.failure.retryable

    asyncio.run(main())


def test_an_address_where_nobody_is_says_what_the_system_says():
    async def main() -> None:
        for url, words in (
            ("http://127.0.0.1:9", "127.0.0.1 cannot be reached (Connection refused)."),
            ("http://localhost:9", "localhost cannot be reached (Connection refused)."),
            ("http://nowhere.invalid", "nowhere.invalid cannot be reached ("),
            ("http://no..where", "no..where cannot be reached (No host has such a name)."),
        ):
            with pytest.raises(RequestFailed) as caught:
                await asked(client_of(url))
            assert words in caught.value.failure.message

    asyncio.run(main())


def test_a_header_that_would_be_two_is_not_sent_and_not_quoted():
    async def main() -> None:
        client = DirectClient("http://127.0.0.1:9", {"x-key": "secret\r\nx-other: 1"}, idle_seconds=1)
        with pytest.raises(RequestFailed) as caught:
            await asked(client)
        assert "secret" not in caught.value.failure.message
        assert not caught.value.failure.retryable

    asyncio.run(main())


def test_an_odd_address_is_written_as_http_has_it():
    seen = []

    async def answer(head, reader, writer):
        seen.append(head.split(b"\r\n")[0])
        writer.write(plain(b""))

    async def main() -> None:
        async with served(answer) as (url, _):
            client = client_of(f"{url}/a b/ü%20")
            await asked(client)
            await client.aclose()

    asyncio.run(main())
    assert seen == [b"GET /a%20b/%C3%BC%20/v1 HTTP/1.1"]


NAMES = [
    ("127.0.0.1", "127.0.0.1"),
    ("LOCALHOST", "localhost"),
    ("ｌｏｃａｌｈｏｓｔ", "localhost"),
    ("straße.example", "xn--strae-oqa.example"),
    ("[::1]", "[::1]"),
]


@for_each_row("written, sent", NAMES)
def test_a_host_is_named_as_the_resolver_knows_it(written, sent):
    assert client_of(f"http://{written}:81")._headers["host"] == f"{sent}:81"
    assert client_of(f"http://{written}")._headers["host"] == sent


def test_headers_of_the_user_win_and_one_that_contradicts_the_body_is_said():
    seen = []

    async def answer(head, reader, writer):
        seen.append(head)
        writer.write(plain(b""))

    async def main() -> None:
        async with served(answer) as (url, _):
            client = DirectClient(url, {"accept-encoding": "gzip", "host": "other"}, idle_seconds=1)
            await asked(client)
            await client.aclose()
            with pytest.raises(RequestFailed) as caught:
                await asked(DirectClient(url, {"content-length": "5"}, idle_seconds=1))
            assert "ANTHROPIC_CUSTOM_HEADERS" in caught.value.failure.message

    asyncio.run(main())
    assert b"accept-encoding: gzip\r\n" in seen[0]
    assert b"host: other\r\n" in seen[0]
    assert seen[0].count(b"host:") == seen[0].count(b"accept-encoding:") == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """A certificate for localhost that nobody has signed, with its key."""
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.mark.parametrize("trusted", [True, False])
def test_a_certificate_is_checked(certificate, trusted, monkeypatch):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))

    async def answer(head, reader, writer):
        writer.write(plain(b"whole"))

    async def main() -> None:
        async with served(answer, tls) as (url, opened):
            client = client_of(url)
            if trusted:
                assert [await asked(client) for _ in range(2)] == [b"whole"] * 2
                assert opened == [1]
                await client.aclose()
            else:
                with pytest.raises(RequestFailed) as caught:
                    await asked(client)
                assert not caught.value.failure.retryable
                assert "set SSL_CERT_FILE" in caught.value.failure.message

    asyncio.run(main())


def test_a_folder_without_the_names_that_openssl_looks_for_holds_no_certificates(certificate, tmp_path):
    file, folder = str(certificate / "cert.pem"), str(tmp_path)
    assert trusted_certificates(file, folder) == (file, None)
    (tmp_path / "notes").touch()
    elsewhere, none = trusted_certificates("nowhere", folder)
    assert none is None
    assert elsewhere != "nowhere"
    (tmp_path / "0a1b2c3d.0").touch()
    assert trusted_certificates("nowhere", folder) == (None, folder)


def test_certificates_are_trusted_and_judged_as_by_httpx2(monkeypatch):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    ours, theirs = tls_context(), httpx2.create_ssl_context()
    assert ours.verify_flags == theirs.verify_flags
    assert ours.get_ca_certs() == theirs.get_ca_certs()


UNUSABLE = [
    ({"SSL_CERT_FILE": "/nowhere"}, "SSL_CERT_FILE"),
    ({"HTTPS_PROXY": "gopher://u:secret@h"}, "The proxy that the environment names cannot be used"),
]


@for_each_row("variables, words", UNUSABLE)
def test_what_the_environment_names_and_cannot_be_used_is_said(variables, words, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CellwrightError) as caught:
        asyncio.run(KeyTransport(token="k", base_url="https://h").prepare())
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert words in caught.value.message
    assert "secret" not in caught.value.message


NO_ADDRESSES = [
    ("ftp://h", "must begin with https"),
    ("http:///path", "names no host"),
    ("http://h:0", "no port"),
    ("http://h:99999", "Port out of range"),
    ("http://u:secret@h:x", "Port could not be cast"),
    ("http://[::1", "Invalid IPv6 URL"),
    ("http://h/a\nb", "a line break, perhaps"),
    ("http://h/?version=1", "nothing may follow its path"),
]


@for_each_row("url, words", NO_ADDRESSES)
def test_an_address_that_no_request_can_go_to_is_refused(url, words):
    with pytest.raises(CellwrightError) as caught:
        KeyTransport(token="k", base_url=url)
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert words in caught.value.message
    assert "secret" not in caught.value.message


def test_a_name_that_no_host_can_have_is_refused():
    with pytest.raises(CellwrightError, match="no host can have this name"):
        asyncio.run(KeyTransport(token="k", base_url="http://*é.example").prepare())


WAYS = [
    ({}, "http://h", "DirectClient"),
    ({"no_proxy": "localhost"}, "http://h", "DirectClient"),
    ({"https_proxy": "http://127.0.0.1:9"}, "https://h", "HttpxClient"),
    ({"https_proxy": "http://127.0.0.1:9"}, "http://h", "DirectClient"),
    ({"http_proxy": "127.0.0.1:9", "no_proxy": " other , h "}, "http://h", "DirectClient"),
    ({"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3:80", "DirectClient"),
    ({"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "10.0.0.0/8"}, "http://11.1.2.3:80", "HttpxClient"),
    ({"all_proxy": "socks5h://127.0.0.1:9", "no_proxy": "*"}, "http://h", "DirectClient"),
    ({"ALL_PROXY": "http://127.0.0.1:9"}, "http://h", "HttpxClient"),
    ({}, "http://user:word@h", "HttpxClient"),
]


@for_each_row("variables, url, kind", WAYS)
def test_proxies_and_names_in_addresses_are_left_to_httpx2(variables, url, kind, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert type(http_client(url, {}, idle_seconds=1)).__name__ == kind


def test_a_socks_proxy_is_gone_through_and_the_address_user_leaves_the_key(key_line, monkeypatch):
    playing = key_line([say("Hello."), say("Hello again.")])
    with socks_proxy() as (address, asked):
        monkeypatch.setenv("ALL_PROXY", f"socks5://{address}")
        url = playing.server.url.replace("http://", "http://user:word@")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)

        async def ask() -> None:
            async with connect() as provider:
                assert [event async for event in provider.stream(playing.request())]

        asyncio.run(ask())
        assert len(asked) == 1
        monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
        asyncio.run(ask())
        assert len(asked) == 1
    for request in playing.server.requests:
        assert request.headers["authorization"].startswith("Basic ")
        assert request.headers["x-api-key"] == playing.server.api_key


@contextlib.contextmanager
def socks_proxy() -> Iterator[tuple[str, list[bytes]]]:
    """A SOCKS 5 proxy without a password: its address, and the addresses that were asked for."""
    listening = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def relay(source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        client.recv(100)
        client.sendall(b"\x05\x00")
        request = client.recv(300)
        asked.append(request)
        target = socket.create_connection((socket.inet_ntoa(request[4:8]), int.from_bytes(request[8:10])))
        client.sendall(b"\x05\x00\x00\x01" + bytes(6))
        threading.Thread(target=relay, args=(client, target), daemon=True).start()
        relay(target, client)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}", asked
    finally:
        listening.close()
