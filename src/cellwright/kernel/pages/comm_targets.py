"""The comms that the loaded extension has: where pages and panels connect, and where pages say what is unsaved in them.

Targets are `cellwright.notebook` and `cellwright.chat`, cheap until the first one connects (docs/protocol/notebook.md and
chat.md). On `cellwright.documents` (docs/protocol/documents.md) each page says which files it has open with changes that
are not on disk, again and again while there is something to say; what was not said again for a while is forgotten, since a
page that is closed does not say so.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cellwright.errors import CellwrightError
from cellwright.kernel.run.ipykernel_api import comm_manager, create_comm, isolate_from_shell
from cellwright.version import VERSION

if TYPE_CHECKING:
    import asyncio

    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.pages.pages import Pages


NOTEBOOK_TARGET = "cellwright.notebook"

CHAT_TARGET = "cellwright.chat"
PRESENCE = "cellwright.present"

DOCUMENTS_TARGET = "cellwright.documents"
FORGOTTEN_SECONDS = 60.0


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
        from cellwright.kernel.pages.comm import PROTOCOL, CommLink  # loading the extension needs none

        hello = message["content"]["data"]
        link = CommLink(comm, hello)
        if not isinstance(hello, dict) or hello.get("protocol") != PROTOCOL:
            link.refuse({"type": "unsupported", "protocol": PROTOCOL, "version": VERSION})
            return
        try:
            with self._making:
                if self._chat is None:
                    self._chat = self._make()
                chat = self._chat
        except CellwrightError as error:
            link.refuse({"type": "failed", "code": str(error.code), "message": error.message})
            return
        connection = chat.connect(link, hello)
        comm.on_msg(lambda message: chat.on_loop(chat.on_message, connection, message["content"]["data"]))
        comm.on_close(lambda _: chat.on_loop(chat.connections.remove, connection))


def _is_asked_by_page(request: Mapping[str, Any]) -> bool:
    """Return whether a page sent the request that loads us: it names a cell, answers `input()`, is not seen by its user, or
    is the completion by which a busy kernel is reached.

    nbclient, papermill and voila do nothing of this, and what loads a kernel's own configuration is no request.
    """
    content, metadata = request.get("content", {}), request.get("metadata", {})
    completes = request.get("header", {}).get("msg_type") == "complete_request"
    return bool(completes or metadata.get("cellId") or content.get("allow_stdin") or content.get("silent"))


class OpenDocuments:
    """The documents open in this kernel's pages, as these said. From any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[float, frozenset[str]]] = {}
        self._comm: Any = None

    def open(self, kernel: Any) -> None:
        """Open the comm, on which each page that shows a notebook of this kernel answers.

        Programs that run notebooks know no such comm, and warn of it: without a page it is only there to be found.
        """
        has_page = _is_asked_by_page(kernel.get_parent("shell"))
        self._comm = create_comm(DOCUMENTS_TARGET, data={"protocol": 1}, primary=has_page)
        if not has_page:
            comm_manager().register_comm(self._comm)
        isolate_from_shell(self._comm)
        self._comm.on_msg(lambda message: self.on_message(message["content"]["data"]))

    def close(self) -> None:
        """Close the comm; what the pages said is forgotten."""
        if self._comm is not None:
            self._comm.close()
        with self._lock:
            self._pages.clear()

    def on_message(self, message: object) -> None:
        """A page said which of its documents are unsaved. What makes no sense is passed over."""
        if not isinstance(message, dict) or message.get("type") != "unsaved":
            return
        # loading the extension needs none
        from cellwright.kernel.pages.pages import relative_path, served_folder

        page, root, paths = message.get("page"), message.get("root"), message.get("paths")
        if not (isinstance(page, str) and isinstance(root, str) and isinstance(paths, list)):
            return
        valid = [path for path in paths[:1_000] if isinstance(path, str) and "\0" not in path]
        folder = served_folder(root, valid)
        found = frozenset(os.path.realpath(folder / relative_path(path)) for path in valid)
        with self._lock:
            self._pages[page] = self._clock(), found

    def is_unsaved(self, path: Path) -> bool:
        """Return whether some page has `path`, a real path, open with unsaved changes."""
        now = self._clock()
        with self._lock:
            for page, (reported_at, _) in list(self._pages.items()):
                if now - reported_at > FORGOTTEN_SECONDS:
                    del self._pages[page]
            return any(str(path) in paths for _, paths in self._pages.values())
