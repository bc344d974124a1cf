"""The comm targets that pages and panels open, `cellwright.notebook` and `cellwright.chat`: cheap until the first one does.

See docs/protocol/notebook.md and chat.md.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cellwright.kernel.pages.kernel_comms import comm_manager

if TYPE_CHECKING:
    import asyncio

    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.pages.comm import CommLink
    from cellwright.kernel.pages.pages import Pages

NOTEBOOK_TARGET = "cellwright.notebook"

CHAT_TARGET = "cellwright.chat"
PRESENCE = "cellwright.present"


class NotebookTarget:
    """Lets pages connect. `loop` gives the agent's loop; it is called when a page wants something."""

    def __init__(self, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._loop = loop
        self._making = threading.Lock()
        self._pages: Pages | None = None
        self._expected = ""

    def open(self) -> None:
        """Let pages connect."""
        comm_manager().register_target(NOTEBOOK_TARGET, self._on_open)

    def close(self) -> None:
        """End all connections, and take no new ones."""
        comm_manager().unregister_target(NOTEBOOK_TARGET, self._on_open)
        if self._pages is not None:
            self._pages.close()

    def expect(self, session: str) -> None:
        """Hold a page whose messages carry `session` for one that connects, if it has not yet."""
        self._expected = session

    def pages(self) -> Pages:
        """The pages that are there. From any thread."""
        with self._making:
            if self._pages is None:
                # loading the extension needs none
                from cellwright.kernel.pages.pages import Pages

                self._pages = Pages(self._loop, lambda session: session == self._expected)
            return self._pages

    def _on_open(self, comm: Any, message: Mapping[str, Any]) -> None:
        self.pages().on_open(comm, message)


class Presence(NamedTuple):
    """A comm that nobody opened and nobody hears of: `comm_info_request` lists it, on the control channel even while a
    cell runs. So the server learns whether this kernel has Cellwright without loading it.
    """

    comm_id: str
    target_name: str = PRESENCE

    def handle_msg(self, _message: object) -> None:
        """Do nothing."""

    def handle_close(self, _message: object) -> None:
        """Do nothing."""


class ChatTarget:
    """Lets panels connect. `make` makes the chat, when the first one does; it raises CellwrightError for broken settings."""

    def __init__(self, make: Callable[[], Chat]) -> None:
        self._make = make
        self._making = threading.Lock()
        self._chat: Chat | None = None
        self._presence = Presence(uuid.uuid4().hex)

    def open(self) -> None:
        """Let panels connect."""
        comm_manager().register_target(CHAT_TARGET, self._on_open)
        comm_manager().comms[self._presence.comm_id] = self._presence

    def close(self) -> None:
        """End all connections, and take no new ones."""
        comm_manager().unregister_target(CHAT_TARGET, self._on_open)
        comm_manager().comms.pop(self._presence.comm_id, None)
        if self._chat is not None:
            self._chat.close()

    def _on_open(self, comm: Any, message: Mapping[str, Any]) -> None:
        # loading the extension needs none
        from cellwright.errors import CellwrightError
        from cellwright.kernel.pages.comm import PROTOCOL, CommLink
        from cellwright.version import VERSION

        hello = message["content"]["data"]
        link = CommLink(comm, hello)
        if not isinstance(hello, dict) or hello.get("protocol") != PROTOCOL:
            _refuse(link, {"type": "unsupported", "protocol": PROTOCOL, "version": VERSION})
            return
        try:
            chat = self._create_chat()
        except CellwrightError as error:
            _refuse(link, {"type": "failed", "code": str(error.code), "message": error.message})
            return
        connection = chat.connect(link, hello)
        comm.on_msg(lambda message: chat.on_loop(chat.on_message, connection, message["content"]["data"]))
        comm.on_close(lambda _: chat.on_loop(chat.connections.remove, connection))

    def _create_chat(self) -> Chat:
        with self._making:
            if self._chat is None:
                self._chat = self._make()
            return self._chat


def _refuse(link: CommLink, message: Mapping[str, Any]) -> None:
    from cellwright.conversation.message_chunks import Piece

    link.put(Piece(message, 0.0))
    link.close()
