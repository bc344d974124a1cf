"""One HTTP/1.1 connection: requests are read whole, answers are written in pieces, a client that leaves is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import h11

MAX_BODY = 32 * 1024 * 1024


class HttpRequest:
    """A request as it came over the wire. `too_large`: the body was read off but not kept."""

    def __init__(self, event: h11.Request, arrived_at: float) -> None:
        self.method = event.method.decode("ascii")
        self.path, _, self.query = event.target.decode("latin-1").partition("?")
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        self.arrived_at = arrived_at
        self.body = b""
        self.too_large = False


class HttpResponse(Protocol):
    """The writer of an answer; every method raises when the connection is gone."""

    async def start(self, status: int, headers: Mapping[str, str]) -> None: ...
    async def write(self, data: bytes) -> None: ...
    async def end(self) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


Handler = Callable[[HttpRequest, HttpResponse], Awaitable[None]]
OnGone = Callable[[HttpRequest], None]


class HttpConnection:
    """Serves one client until either side closes. `handle` answers a request; `on_gone` hears of one that was left."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Handler, on_gone: OnGone
    ) -> None:
        self._http = h11.Connection(h11.SERVER)
        self._reader = reader
        self._writer = writer
        self._handle = handle
        self._on_gone = on_gone
        self._first_byte_at = 0.0

    async def serve(self) -> None:
        try:
            while (request := await self._next_request()) is not None:
                await self._answer(request)
                if self._http.our_state is not h11.DONE:
                    break
                self._http.start_next_cycle()
        except (ConnectionError, h11.RemoteProtocolError):
            pass  # the client broke the connection or does not speak HTTP: nobody is left to tell
        finally:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()

    async def _next_request(self) -> HttpRequest | None:
        request: HttpRequest | None = None
        chunks: list[bytes] = []
        size = 0
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                await self._receive()
            elif isinstance(event, h11.Request):
                request = HttpRequest(event, self._first_byte_at or time.monotonic())
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if size <= MAX_BODY:
                    chunks.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                request.too_large = size > MAX_BODY
                request.body = b"" if request.too_large else b"".join(chunks)
                self._first_byte_at = 0.0
                return request
            else:
                return None

    async def _receive(self) -> bool:
        data = await self._reader.read(256 * 1024)
        if data and not self._first_byte_at:
            self._first_byte_at = time.monotonic()
        self._http.receive_data(data)
        return bool(data)

    async def _answer(self, request: HttpRequest) -> None:
        """Run the handler, but drop it as soon as the client goes away."""

        async def client_leaves() -> None:
            with contextlib.suppress(ConnectionError):
                while await self._receive():
                    pass

        handling = asyncio.ensure_future(self._handle(request, self))
        watching = asyncio.ensure_future(client_leaves())
        try:
            await asyncio.wait((handling, watching), return_when=asyncio.FIRST_COMPLETED)
            if not handling.done():
                self._on_gone(request)
        finally:
            for task in (handling, watching):
                task.cancel()
            outcomes = await asyncio.gather(handling, watching, return_exceptions=True)
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        pairs = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        await self._send(h11.Response(status_code=status, headers=pairs))

    async def write(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    def reset(self) -> None:
        """Break the connection with a TCP RST, as a machine that dies does."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    def close(self) -> None:
        """Close the connection in the ordinary way (TCP FIN), whatever of the answer is missing."""
        self._writer.close()
