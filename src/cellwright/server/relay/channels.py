"""The channels of a kernel: sockets if Jupyter Server has the kernel itself, a websocket if a gateway has it.

Both belong to the server's kernel manager: its client for the one, its `GatewayClient` (with its credentials) for the
other. Jupyter Server's own client for gateways sends no credentials, and keeps a processor busy while it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import zmq.asyncio
from jupyter_client.session import Session
from jupyter_core.utils import ensure_async
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager
from jupyter_server.utils import url_path_join
from tornado.escape import url_escape
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

Message = Mapping[str, Any]
OnMessage = Callable[[str, Message], None]
"""Called with the name of the channel and what came over it."""

NAMES = ("shell", "control", "iopub")
MAX_BYTES = 100_000_000
"""Of one message over a websocket."""


class KernelLost(Exception):
    """The connection ended, or the kernel: nothing more comes over it."""


class Channels(Protocol):
    """Opened once, closed once. `lost` is called when the connection breaks."""

    async def open(self, on_message: OnMessage, lost: Callable[[], None]) -> None:
        """Connect. Raises OSError."""

    def send(self, channel: str, message: dict[str, Any]) -> None:
        """Send without waiting. Raises KernelLost."""

    def hear_only(self, topics: Sequence[str]) -> None:
        """Take of what the kernel publishes only what has such a topic; a wish that a gateway cannot fulfil."""

    async def close(self) -> None: ...


def channels_of(manager: Any, session: Session) -> Channels:
    """The channels of the kernel that `manager` has."""
    return GatewayChannels(manager) if isinstance(manager, GatewayKernelManager) else SocketChannels(manager, session)


class SocketChannels:
    """ZeroMQ sockets, through the client of the server's kernel manager."""

    def __init__(self, manager: Any, session: Session) -> None:
        self._context = zmq.asyncio.Context()
        self._client = manager.client(session=session, context=self._context)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, on_message: OnMessage, lost: Callable[[], None]) -> None:
        await ensure_async(self._client.start_channels(stdin=False, hb=False))
        self._tasks = [asyncio.create_task(self._read(name, on_message, lost)) for name in NAMES]

    def send(self, channel: str, message: dict[str, Any]) -> None:
        try:
            getattr(self._client, f"{channel}_channel").send(message)
        except (zmq.ZMQError, AttributeError) as error:  # a socket that is closed
            raise KernelLost from error

    def hear_only(self, topics: Sequence[str]) -> None:
        socket = self._client.iopub_channel.socket
        for topic in topics:
            socket.setsockopt(zmq.SUBSCRIBE, topic.encode())
        socket.setsockopt(zmq.UNSUBSCRIBE, b"")

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._client.stop_channels()
        self._context.destroy(linger=0)

    async def _read(self, name: str, on_message: OnMessage, lost: Callable[[], None]) -> None:
        channel = getattr(self._client, f"{name}_channel")
        while True:
            try:
                message = await channel.get_msg(timeout=None)
            except (queue.Empty, ValueError):
                continue  # a message whose signature is wrong is not the kernel's
            except zmq.ZMQError:
                lost()
                return
            on_message(name, message)


class GatewayChannels:
    """One websocket for all channels, as browsers have it to Jupyter Server."""

    def __init__(self, manager: Any) -> None:
        self._kernel_id = str(manager.kernel_id)
        self._socket: WebSocketClientConnection | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, on_message: OnMessage, lost: Callable[[], None]) -> None:
        gateway = GatewayClient.instance()
        address = url_path_join(
            gateway.ws_url or "", gateway.kernels_endpoint or "", url_escape(self._kernel_id), "channels"
        )
        request = HTTPRequest(address, **gateway.load_connection_args())  # type: ignore[no-untyped-call]
        try:
            self._socket = await websocket_connect(request, max_message_size=MAX_BYTES)
        except HTTPClientError as error:
            raise OSError(f"the gateway refuses the connection: {error}") from error
        self._task = asyncio.create_task(self._read(self._socket, on_message, lost))

    def send(self, channel: str, message: dict[str, Any]) -> None:
        if self._socket is None:
            raise KernelLost
        text = json.dumps({**message, "channel": channel}, default=_time)
        try:
            sent = self._socket.write_message(text)
        except WebSocketClosedError as error:
            raise KernelLost from error
        sent.add_done_callback(lambda done: done.exception())  # the reader finds out that it is closed

    def hear_only(self, topics: Sequence[str]) -> None:
        """Do nothing: a gateway sends everything."""

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    async def _read(self, socket: WebSocketClientConnection, on_message: OnMessage, lost: Callable[[], None]) -> None:
        while (raw := await socket.read_message()) is not None:
            with contextlib.suppress(ValueError):  # a message with buffers is binary, and none of ours
                message = json.loads(raw)
                if message.get("channel") in NAMES:
                    on_message(message["channel"], message)
        lost()


def _time(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not valid JSON")
