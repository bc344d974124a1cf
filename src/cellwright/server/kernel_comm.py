"""One comm of the server to a kernel, on the kernel's subshell where it has one: messages out in order, messages in whole.

Jupyter's comms: https://jupyter-client.readthedocs.io/en/stable/messaging.html#custom-messages
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from cellwright.conversation.message_chunks import Joined, pieces
from cellwright.server.relay.channels import Message
from cellwright.server.relay.connection import KernelConnection

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
        self._parts = Joined()
        self._sending = asyncio.Lock()

    def open(self, data: Mapping[str, Any]) -> None:
        """Say what it begins with. Raises KernelLost."""
        self._send("comm_open", {"target_name": self._target, "data": dict(data)})

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message of any size, after those that are on their way. Raises KernelLost."""
        async with self._sending:  # the pieces of one message in order
            for piece in pieces(message):
                self.say(piece.message)
                if piece.pause:
                    await asyncio.sleep(piece.pause)

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a small message at once. Raises KernelLost."""
        self._send("comm_msg", {"data": dict(message)})

    def close(self) -> None:
        """Take leave. Raises KernelLost."""
        if not self.closed:
            self.say(BYE)
            self._send("comm_close", {"data": {}})

    def concerns(self, published: Message) -> bool:
        """Whether what the kernel published came over this comm."""
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
