"""One connection of the server to one kernel: requests on its channels, and comms in both directions.

It goes through the client of the server's own kernel manager, so kernels on this machine, remote ones and those behind a
gateway are reached the same way. Jupyter's messages: https://jupyter-client.readthedocs.io/en/stable/messaging.html
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import Callable, Mapping
from typing import Any

import zmq.asyncio
from jupyter_client.session import Session
from jupyter_core.utils import ensure_async

Message = Mapping[str, Any]

NUDGE_SECONDS = 0.5
QUEUE_SECONDS = 0.02
"""How often a gateway's queues are looked at: they cannot be awaited."""
SUBSHELLS = "kernel subshells"


class KernelLost(Exception):
    """The connection ended, or the kernel: nothing more comes over it."""


class KernelConnection:
    """Opened once, closed once. `on_published` is called with every message that the kernel publishes, `on_lost` at most
    once, when the connection breaks.
    """

    def __init__(self, manager: Any, on_published: Callable[[Message], None], on_lost: Callable[[], None]) -> None:
        self._on_published = on_published
        self._on_lost = on_lost
        # an own session: two connections with the same identity would take each other's replies
        session = Session(
            config=manager.session.config,
            key=manager.session.key,
            signature_scheme=manager.session.signature_scheme,
            username="cellwright",
        )
        self._context = zmq.asyncio.Context()
        self._client = manager.client(session=session, context=self._context)
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._heard = asyncio.Event()
        self.info: Mapping[str, Any] = {}

    @property
    def has_subshells(self) -> bool:
        return SUBSHELLS in (self.info.get("supported_features") or ())

    @property
    def language(self) -> str:
        """What the kernel runs, in small letters: `python`."""
        return str((self.info.get("language_info") or {}).get("name", "")).lower()

    async def open(self, seconds: float) -> None:
        """Connect, and wait until the kernel answers and what it publishes arrives. Raises TimeoutError."""
        await ensure_async(self._client.start_channels(stdin=False, hb=False))
        for name, heard in (("shell", self._replied), ("control", self._replied), ("iopub", self._published)):
            channel = getattr(self._client, f"{name}_channel")
            self._tasks.append(asyncio.create_task(self._read(channel, heard)))
        async with asyncio.timeout(seconds):
            await self._nudge()

    async def _nudge(self) -> None:
        """Ask until there is an answer and something was published: what came before the subscription is lost."""
        while not (self.info and self._heard.is_set()):
            with contextlib.suppress(TimeoutError):
                # the control channel answers while a cell runs
                reply = await self.request("control", "kernel_info_request", {}, seconds=NUDGE_SECONDS)
                self.info = reply["content"]
                await asyncio.wait_for(self._heard.wait(), NUDGE_SECONDS)

    async def close(self) -> None:
        """End the connection; the kernel goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._give_up()
        self._client.stop_channels()
        self._context.destroy(linger=0)

    def send(self, channel: str, kind: str, content: Message, subshell: str | None = None) -> str:
        """Send a message without waiting for a reply; gives its id. Raises KernelLost."""
        message = self._client.session.msg(kind, content=dict(content))
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        message["channel"] = channel  # a gateway's connection has one socket for all channels
        try:
            getattr(self._client, f"{channel}_channel").send(message)
        except (OSError, AttributeError) as error:  # the socket of a gateway; a channel that was closed
            raise KernelLost from error
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

    async def _read(self, channel: Any, heard: Callable[[Message], None]) -> None:
        try:
            while True:
                heard(await _next_message(channel))
        except (KernelLost, zmq.ZMQError):
            self._give_up()
            self._on_lost()

    def _replied(self, message: Message) -> None:
        waiting = self._waiting.get((message.get("parent_header") or {}).get("msg_id", ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def _published(self, message: Message) -> None:
        self._heard.set()
        self._on_published(message)

    def _give_up(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(KernelLost())


async def _next_message(channel: Any) -> Message:
    """The next message of a channel. Raises KernelLost."""
    if isinstance(channel, queue.Queue):
        return await _next_in_queue(channel)
    while True:
        with contextlib.suppress(queue.Empty, ValueError):  # a message whose signature is wrong is not the kernel's
            return await channel.get_msg(timeout=None)  # type: ignore[no-any-return]


async def _next_in_queue(channel: Any) -> Message:
    """A gateway's channel is a queue that a thread fills; its own waiting would keep a processor busy."""
    while True:
        try:
            return channel.get_nowait()  # type: ignore[no-any-return]
        except queue.Empty:
            if channel.response_router_finished:
                raise KernelLost from None
            await asyncio.sleep(QUEUE_SECONDS)
