"""HTTP/1.1 straight to one address: asyncio's streams, with h11 for the protocol and OpenSSL for TLS.

It knows what a request with a plain key needs: connections that are kept, limits of time, an end at once. Proxies and
names and passwords in an address are left to httpx2, which takes 60 ms more to import and 0.4 ms more a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import sys
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import h11

from cellwright.model.provider import request_sent
from cellwright.model.retry import RequestFailed, broken_stream
from cellwright.model.transports.reply import (
    CONNECT_SECONDS,
    HttpReply,
    certificate_refused,
    connecting_took_too_long,
    connection_cut,
    unreachable,
    unsendable,
    went_silent,
)

READ_BYTES = 256 * 1024
WRITE_BYTES = 256 * 1024
"""The part of a body that is written at once: each may take the time of a silence, and the loop turns in between."""

JOINED_BYTES = 64 * 1024
"""The part of a body that is written together with the head."""


_OF_A_PATH = "%/:=&?~#+!$,;'@()*[]-._"
"""Characters that stand in an address as they are; everything else is written as %XX."""

_DECODERS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Encodings of a body that a gateway may use unasked, by what zlib calls them."""

_CERTIFICATE_FILES = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)
"""The places where systems keep the certificates they trust, for a Python that was built on another one."""


class DirectClient:
    """Requests to `url`, each with `headers`, on connections that are kept for `idle_seconds` between them.

    It belongs to one event loop. What keeps an answer from coming is raised as `RequestFailed`.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, idle_seconds: float) -> None:
        address = urlsplit(url)
        self._host = _ascii_name(address.hostname or "")
        self._port = address.port or (443 if address.scheme == "https" else 80)
        self._path = address.path
        self._tls = tls_context() if address.scheme == "https" else None
        host = f"[{self._host}]" if ":" in self._host else self._host
        port = "" if address.port is None else f":{address.port}"
        self._headers = {"host": host + port, "accept-encoding": "identity", **headers}
        self._idle_seconds = idle_seconds
        self._idle: list[_Connection] = []

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str], seconds: float
    ) -> AsyncIterator[HttpReply]:
        """The reply to a request for `path`, which may be silent for `seconds`. Leaving the context ends it: the
        connection is closed unless the body was read to its end.
        """
        sent = {**self._headers, **headers, **({"content-length": str(len(body))} if method == "POST" else {})}
        try:
            request = h11.Request(
                method=method, target=quote(self._path + path, safe=_OF_A_PATH), headers=[*sent.items()]
            )
        except h11.LocalProtocolError:
            raise RequestFailed(unsendable()) from None
        kept = self._idle_connection()
        connection = kept or await self._connected(seconds)
        try:
            response = None
            if kept is not None:
                # a server may close what was kept just as it is used: llama.cpp does so after each stream
                with contextlib.suppress(_Unanswered):
                    response = await kept.response(request, body, seconds)
                if response is None:
                    kept.close()
                    connection = await self._connected(seconds)
            if response is None:
                response = await connection.response(request, body, seconds)
            names = {name.decode(): value.decode("latin-1") for name, value in response.headers}
            async with contextlib.aclosing(_decoded(connection.body(seconds), names)) as chunks:
                yield HttpReply(response.status_code, names, chunks)
        finally:
            if connection.is_ready_again() and len(self._idle) < 10:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.close()

    async def aclose(self) -> None:
        """Close what is kept."""
        closing, self._idle = self._idle, []
        for connection in closing:
            connection.close()
        if closing:
            await asyncio.sleep(0)  # the loop's next turn lets go of the sockets

    def _idle_connection(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and time.monotonic() - connection.idle_since < self._idle_seconds:
                return connection
            connection.close()
        return None

    async def _connected(self, seconds: float) -> _Connection:
        loop = asyncio.get_running_loop()
        reader = _Reader(limit=READ_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            async with asyncio.timeout(min(CONNECT_SECONDS, seconds)):
                # so soon is a host's next address tried beside the last one (RFC
                # 8305), where IPv6 leads nowhere
                transport, _ = await loop.create_connection(
                    lambda: protocol,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            raise RequestFailed(connecting_took_too_long(self._host)) from None
        except ssl.SSLCertVerificationError as error:
            raise RequestFailed(certificate_refused(self._host, error)) from None
        except OSError as error:
            raise RequestFailed(unreachable(self._host, _in_plain_words(error))) from None
        except UnicodeError:  # of the resolver
            raise RequestFailed(unreachable(self._host, "No host has such a name")) from None
        return _Connection(self._host, reader, asyncio.StreamWriter(transport, protocol, reader, loop))


class _Reader(asyncio.StreamReader):
    """A reader that gives what came before an error, as the answer of who refuses a request, and counts what is unread."""

    def __init__(self, *, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=limit, loop=loop)
        self.unread = 0
        self.error: OSError | None = None

    def feed_data(self, data: Any) -> None:
        self.unread += len(data)
        super().feed_data(data)

    def set_exception(self, exc: Exception) -> None:
        if isinstance(exc, OSError):
            self.error = exc
            self.feed_eof()
        else:
            super().set_exception(exc)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self.unread -= len(data)
        return data


class _Unanswered(RequestFailed):
    """The connection was closed before the head of the answer came."""


class _Connection:
    """One connection, and what h11 knows about the request on it."""

    def __init__(self, host: str, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self.idle_since = 0.0
        self._host = host
        self._reader = reader
        self._writer = writer
        # more than the head of any answer has
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=100 * 1024)

    @property
    def is_open(self) -> bool:
        """False as well when something came that nobody asked for: it would be taken for the next request's answer."""
        return not (self._writer.is_closing() or self._reader.at_eof() or self._reader.unread)

    def is_ready_again(self) -> bool:
        """Return whether another request can go over it, and make it ready for that."""
        states = {self._protocol.our_state, self._protocol.their_state}
        if states != {h11.DONE} or not self.is_open or self._protocol.trailing_data[0]:
            return False
        self._protocol.start_next_cycle()
        return True

    def close(self) -> None:
        self._writer.transport.abort()  # at once: nobody waits for the other side's goodbye

    async def response(self, request: h11.Request, body: bytes, seconds: float) -> h11.Response:
        try:
            head = self._protocol.send(request) or b""
            for event in (h11.Data(data=body), h11.EndOfMessage()):
                self._protocol.send_with_data_passthrough(event)  # the length is in the head: the body goes as it is
            # a small request goes out at once; a long conversation is not copied on its way
            await self._write(head + body[:JOINED_BYTES], seconds)
            rest = memoryview(body)[JOINED_BYTES:]
            for start in range(0, len(rest), WRITE_BYTES):
                await self._write(rest[start : start + WRITE_BYTES], seconds)
        except h11.LocalProtocolError:  # a header of the user's contradicts the body
            raise RequestFailed(unsendable()) from None
        except OSError:  # a TimeoutError too
            # who refuses a request may have answered before the end of it
            if not self._reader.unread and not self._writer.is_closing():
                raise RequestFailed(went_silent(self._host, seconds)) from None
        request_sent.get()()
        while not isinstance(event := await self._next_event(seconds), h11.Response):
            pass  # 1xx: the answer follows
        return event

    async def _write(self, data: bytes | memoryview, seconds: float) -> None:
        self._writer.write(data)
        async with asyncio.timeout(seconds):
            await self._writer.drain()

    async def body(self, seconds: float) -> AsyncGenerator[bytes, None]:
        """The body as it comes: what one read brought is one chunk."""
        while True:
            event: Any = await self._next_event(seconds)
            chunks = []
            while type(event) is h11.Data:
                chunks.append(event.data)
                event = self._parsed()
            if chunks:
                yield bytes(chunks[0]) if len(chunks) == 1 else b"".join(chunks)
            if type(event) is h11.EndOfMessage:
                return

    async def _next_event(self, seconds: float) -> Any:
        while (event := self._parsed()) is h11.NEED_DATA:
            try:
                async with asyncio.timeout(seconds):
                    data = await self._reader.read(READ_BYTES)
            except TimeoutError:
                raise RequestFailed(went_silent(self._host, seconds)) from None
            unanswered = self._protocol.their_state is h11.SEND_RESPONSE
            if not data and (error := self._reader.error):
                failed = _Unanswered if unanswered else RequestFailed
                raise failed(connection_cut(self._host, _in_plain_words(error)))
            if not data and unanswered:
                raise _Unanswered(connection_cut(self._host, "It was closed before the answer came"))
            self._protocol.receive_data(data)
        return event

    def _parsed(self) -> Any:
        try:
            event = self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise RequestFailed(connection_cut(self._host, str(error))) from None
        return event


async def _decoded(chunks: AsyncGenerator[bytes, None], headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
    """The body as it was before it was encoded, which nobody asked for."""
    encoding = headers.get("content-encoding", "").strip().lower() or "identity"
    async with contextlib.aclosing(chunks):
        if encoding == "identity":
            async for chunk in chunks:
                yield chunk
            return
        if encoding not in _DECODERS:
            raise RequestFailed(broken_stream(f"The answer is encoded as {encoding}, which was not asked for.", ""))
        decoder = zlib.decompressobj(_DECODERS[encoding])
        try:
            async for chunk in chunks:
                if plain := decoder.decompress(chunk):
                    yield plain
        except zlib.error as error:
            raise RequestFailed(broken_stream(f"The answer could not be read ({error}).", "")) from None


def tls_context() -> ssl.SSLContext:
    """The certificates that the user's machine trusts, or `SSL_CERT_FILE` or `SSL_CERT_DIR` where one is set."""
    if (file := os.environ.get("SSL_CERT_FILE")) or (folder := os.environ.get("SSL_CERT_DIR")):
        return ssl.create_default_context(cafile=file) if file else ssl.create_default_context(capath=folder)
    if sys.platform in ("darwin", "win32"):
        import truststore  # these systems keep theirs where OpenSSL does not look

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # as httpx2 does it: without the strictness of `create_default_context`, which old certificates of companies fail
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    file, folder = trusted_certificates(paths.openssl_cafile, paths.openssl_capath)
    if file or folder:
        context.load_verify_locations(file, folder)
    return context


def trusted_certificates(file: str, folder: str) -> tuple[str | None, str | None]:
    """The file and the folder of certificates to trust: those that OpenSSL was built with, or where they hold none, the
    first that systems have elsewhere.
    """
    found_file = file if Path(file).is_file() else None
    # a folder counts by the names that OpenSSL looks for in it
    found_folder = folder if any(Path(folder).glob("[0-9a-fA-F]" * 8 + ".[0-9]")) else None
    if not found_file and not found_folder:
        found_file = next(filter(os.path.isfile, _CERTIFICATE_FILES), None)
    return found_file, found_folder


def _ascii_name(host: str) -> str:
    """The name of a host as it goes to the resolver and over the wire."""
    if host.isascii():
        return host
    import idna  # few have such a name

    return idna.encode(host, uts46=True).decode()


def _in_plain_words(error: OSError) -> str:
    """The system's words, without the addresses that asyncio puts in, and once where it said it of each."""
    if isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    number = error.errno or next((int(found) for found in re.findall(r"\[Errno (\d+)\]", str(error))), 0)
    return os.strerror(number) if number else str(error) or type(error).__name__
