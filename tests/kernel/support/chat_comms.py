"""Panels at the other end of comms that are none: what the kernel sends is kept here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellwright.agent.thread import AgentThread
from cellwright.conversation.message_chunks import JoinedMessages
from cellwright.kernel.chat.connections import Connections, PanelConnection
from cellwright.kernel.chat.conversation_log import ConversationLog, LoggedRun
from cellwright.kernel.pages.comm import CommLink
from cellwright.sessions.session import Session

Json = dict[str, Any]


class KeptComm:
    """The kernel's end of a comm; what is sent is kept, whole."""

    comm_id = "kept"

    def __init__(self, sent: Callable[[], object] = lambda: None) -> None:
        self.sent: list[Json] = []
        self._tell = sent
        self.closed = False
        self._parts = JoinedMessages()

    def send(self, data: Json) -> None:
        assert not self.closed, "sent to a comm that is closed"
        if (message := self._parts.add(data)) is not None:
            self.sent.append(message)
            self._tell()

    def close(self) -> None:
        self.closed = True


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Panels:
    """A conversation's log and the panels that read it, on the loop that is running."""

    def __init__(self, log: ConversationLog | None = None) -> None:
        self.clock = Clock()
        self.session: Session | None = None
        self.log = log or ConversationLog(AgentThread(), lambda: self.session)
        self.connections = Connections()
        self.log.watch(self)
        self._happened = asyncio.Event()
        self.comms: dict[PanelConnection, KeptComm] = {}

    def connect(self, said: Mapping[str, Any] = {}) -> PanelConnection:
        comm = KeptComm(self._happened.set)
        connection = PanelConnection(CommLink(comm), said, self.log, self.clock)
        self.comms[connection] = comm
        self.connections.add(connection)
        if connection.view == "lines":
            self.log.keep_lines()
        connection.begin([{"type": "welcome"}])
        return connection

    def sent(self, connection: PanelConnection, kind: str = "") -> list[Json]:
        """What the panel got, of one type or all."""
        return [message for message in self.comms[connection].sent if kind in ("", message["type"])]

    async def until(self, found: Callable[[], Any]) -> None:
        """Wait for something to be there; it is looked for with all that is sent, and with all news of the log."""
        async with asyncio.timeout(60):
            while not found():
                self._happened.clear()
                await self._happened.wait()

    def run_changed(self, run: LoggedRun) -> None:
        self.connections.run_changed(run)
        self._happened.set()

    def runs_removed(self, ids: Sequence[str]) -> None:
        self.connections.runs_removed(ids)

    def moved(self) -> None:
        self._happened.set()
