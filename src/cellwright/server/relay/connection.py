"""One connection of the server to one kernel: requests with their replies, and what the kernel publishes.

Jupyter's messages: https://jupyter-client.readthedocs.io/en/stable/messaging.html
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_client.session import Session

from cellwright.server.relay.channels import KernelLost, Message, channels_of

NUDGE_SECONDS = 0.5
AGAIN_SECONDS = 3.0
SUBSHELLS = "kernel subshells"


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
        """What the kernel runs, in small letters: `python`."""
        return str((self.info.get("language_info") or {}).get("name", "")).lower()

    async def open(self, seconds: float) -> None:
        """Connect, and wait until the kernel answers and what it publishes arrives. Raises TimeoutError, OSError."""
        await self._channels.open(self._heard, self._lost)
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
                    reply = await self.request("control", "create_subshell_request", {}, seconds=AGAIN_SECONDS)
                    subshell: str | None = reply["content"].get("subshell_id")
                    return subshell

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

    def _heard(self, channel: str, message: Message) -> None:
        if channel == "iopub":
            self._something_published.set()
            self._on_published(message)
            return
        waiting = self._waiting.get((message.get("parent_header") or {}).get("msg_id", ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def _lost(self) -> None:
        self._give_up()
        self._on_lost()

    def _give_up(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(KernelLost())
