"""The server's connection to one kernel: requests and replies, what the kernel publishes, one comm, our extension.

Jupyter's messages: https://jupyter-client.readthedocs.io/en/stable/messaging.html

Jupyter's comms: https://jupyter-client.readthedocs.io/en/stable/messaging.html#custom-messages

The comm is on the kernel's subshell if it has one: its messages go out in order and come in whole. Cellwright's
extension is loaded, or an error says why not and what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import queue
import uuid
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

from cellwright.conversation.message_chunks import JoinedMessages, pieces
from cellwright.server.api_error import RouteError

Message = Mapping[str, Any]
OnMessage = Callable[[str, Message], None]
"""Called with the name of the channel and what came over it."""

NAMES = ("shell", "control", "iopub")

NUDGE_SECONDS = 0.5
SUBSHELLS = "kernel subshells"


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
            # bytes of one message
            self._socket = await websocket_connect(request, max_message_size=100_000_000)
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


def settle_reply(reply: asyncio.Future[Any] | None, message: Mapping[str, Any]) -> None:
    """Give `reply` the result in a kernel's `reply` message, or its error; one that nobody waits for is passed over."""
    if reply is None or reply.done():
        return
    error = message.get("error")
    if isinstance(error, dict):
        code, text = str(error.get("code", "failed")), str(error.get("message", ""))
        reply.set_exception(RouteError.of_kernel(code, text, error.get("details")))
    else:
        reply.set_result(message.get("result"))


class KernelConnection:
    """Opened once, closed once. `on_published` is called with every message that the kernel publishes, `on_lost` when
    the connection breaks.
    """

    def __init__(self, manager: Any, on_published: Callable[[Message], None], on_lost: Callable[[], None]) -> None:
        self._on_published = on_published
        self._on_lost = on_lost
        # an own session: two connections with the same identity would take each other's replies
        self._session = Session(
            config=manager.session.config,
            key=manager.session.key,
            signature_scheme=manager.session.signature_scheme,
            username="cellwright",
        )
        self._channels = channels_of(manager, self._session)
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._something_published = asyncio.Event()
        self.info: Mapping[str, Any] = {}

    @property
    def has_subshells(self) -> bool:
        return SUBSHELLS in (self.info.get("supported_features") or ())

    @property
    def language(self) -> str:
        """The language that the kernel runs, in small letters: `python`."""
        return str((self.info.get("language_info") or {}).get("name", "")).lower()

    async def open(self, seconds: float) -> None:
        """Connect, and wait until the kernel answers and what it publishes arrives. Raises TimeoutError, OSError."""

        def lost() -> None:
            self._give_up()
            self._on_lost()

        await self._channels.open(self._on_message, lost)
        async with asyncio.timeout(seconds):
            await self._nudge()

    async def _nudge(self) -> None:
        """Ask until there is an answer and something was published: what came before the subscription is lost."""
        while not (self.info and self._something_published.is_set()):
            with contextlib.suppress(TimeoutError):
                # the control channel answers while a cell runs
                reply = await self.request("control", "kernel_info_request", {}, seconds=NUDGE_SECONDS)
                self.info = reply["content"]
                await asyncio.wait_for(self._something_published.wait(), NUDGE_SECONDS)

    async def create_subshell(self, seconds: float) -> str | None:
        """The id of a new subshell; None where the kernel gives none. Raises TimeoutError, KernelLost.

        A kernel that has just started answers on its control channel before it can make subshells, and such a request is
        lost in it (ipykernel 7): so it is asked again.
        """
        async with asyncio.timeout(seconds):
            while True:
                with contextlib.suppress(TimeoutError):
                    reply = await self.request("control", "create_subshell_request", {}, seconds=3.0)
                    subshell: str | None = reply["content"].get("subshell_id")
                    return subshell

    def hear_only(self, *topics: str) -> None:
        """Have the kernel send only what it publishes under topics that begin so, where its channels can be told."""
        self._channels.hear_only(topics)

    async def close(self) -> None:
        """End the connection; the kernel goes on."""
        self._give_up()
        await self._channels.close()

    def send(self, channel: str, kind: str, content: Message, subshell: str | None = None) -> str:
        """Send a message without waiting for a reply; gives its id. Raises KernelLost."""
        message = self._session.msg(kind, content=dict(content))
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self._channels.send(channel, message)
        return str(message["header"]["msg_id"])

    async def request(
        self, channel: str, kind: str, content: Message, subshell: str | None = None, seconds: float | None = None
    ) -> Message:
        """Send a request and wait for its reply. Raises TimeoutError, KernelLost."""
        message_id = self.send(channel, kind, content, subshell)
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = reply
        try:
            return await asyncio.wait_for(reply, seconds)
        finally:
            self._waiting.pop(message_id, None)

    def _on_message(self, channel: str, message: Message) -> None:
        if channel == "iopub":
            self._something_published.set()
            self._on_published(message)
            return
        waiting = self._waiting.get((message.get("parent_header") or {}).get("msg_id", ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def _give_up(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(KernelLost())


BYE = {"type": "bye"}


class KernelComm:
    """Opened once, closed once, with the connection that it goes over. `target` is what the kernel knows it as."""

    def __init__(self, connection: KernelConnection, subshell: str | None, target: str) -> None:
        self.closed = False
        """The kernel has closed it: it does not know the target, or wants no more of it."""
        self._connection = connection
        self._subshell = subshell
        self._target = target
        self._id = uuid.uuid4().hex
        self._parts = JoinedMessages()
        self._sending = asyncio.Lock()

    @property
    def comm_id(self) -> str:
        return self._id

    def open(self, data: Mapping[str, Any]) -> None:
        """Say what it begins with. Raises KernelLost."""
        self._send("comm_open", {"target_name": self._target, "data": dict(data)})

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message of any size, after those that are on their way. Raises KernelLost."""
        async with self._sending:  # the pieces of one message in order
            for piece in pieces(message):
                self.send_now(piece.message)
                if piece.pause:
                    await asyncio.sleep(piece.pause)

    def send_now(self, message: Mapping[str, Any]) -> None:
        """Send a small message at once. Raises KernelLost."""
        self._send("comm_msg", {"data": dict(message)})

    def close(self) -> None:
        """Take leave. Raises KernelLost."""
        if not self.closed:
            self.send_now(BYE)
            self._send("comm_close", {"data": {}})

    def concerns(self, published: Message) -> bool:
        """Return whether what the kernel published came over this comm."""
        kind, content = published["header"]["msg_type"], published["content"]
        return kind in ("comm_msg", "comm_close") and content.get("comm_id") == self._id

    def take(self, published: Message) -> Mapping[str, Any] | None:
        """The message that is whole with what came over this comm; None where more is to come, or it was closed."""
        if published["header"]["msg_type"] == "comm_close":
            self.closed = True
            return None
        return self._parts.add(published["content"].get("data"))

    def _send(self, kind: str, content: Message) -> None:
        self._connection.send("shell", kind, {"comm_id": self._id, **content}, self._subshell)


LOAD = "%load_ext cellwright"
LOAD_WHILE_BUSY = "from cellwright.kernel.pages.load_on_completion import LOADED"
"""Completed, not executed: see the module that it names."""
EXECUTABLE = "__import__('sys').executable"


async def load_extension(
    connection: KernelConnection,
    subshell: str | None,
    seconds: float | None,
    kernel_id: str,
    on_wait: Callable[[], None],
) -> None:
    """Load it, by that subshell if there is one; its answer may take `seconds`.

    Where that does not do, the main shell is asked, which answers when its cell has ended; `on_wait` is called where that
    takes a moment. Raises ApiError, with the command that installs it.
    """

    async def execute(code: str, expressions: Mapping[str, str]) -> Mapping[str, Any]:
        content = {
            "code": code,
            "silent": True,
            "store_history": False,
            "user_expressions": dict(expressions),
            "allow_stdin": False,
            "stop_on_error": False,
        }
        reply = await connection.request("shell", "execute_request", content)
        return reply["content"]  # type: ignore[no-any-return]

    if subshell is not None:
        content = {"code": LOAD_WHILE_BUSY, "cursor_pos": len(LOAD_WHILE_BUSY)}
        completed = await connection.request("shell", "complete_request", content, subshell, seconds)
        if "LOADED" in completed["content"].get("matches", ()):
            return
    # a main shell that has not answered by then runs a cell
    notice = asyncio.get_running_loop().call_later(1.0, on_wait)
    try:
        loaded = await execute(LOAD, {})
    finally:
        notice.cancel()
    if loaded["status"] == "ok":
        return
    told = await execute("", {"executable": EXECUTABLE})
    data = told.get("user_expressions", {}).get("executable", {}).get("data", {})
    executable = str(data.get("text/plain", "'python'")).strip("'\"")
    install = f"{executable} -m pip install cellwright"
    if loaded.get("ename") == "ModuleNotFoundError":
        message = f"The environment of kernel {kernel_id} has no Cellwright. Install it there: {install}"
        raise RouteError(409, "EXTENSION_MISSING", message, {"install": install})
    message = f"Cellwright could not be loaded in kernel {kernel_id}: {loaded.get('evalue', '')}"
    raise RouteError(409, "EXECUTION_ERROR", message)
