"""The comm target `cellwright.notebook`: cheap until the first page opens it. See docs/protocol/notebook.md."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cellwright.kernel.pages.kernel_comms import comm_manager

if TYPE_CHECKING:
    import asyncio

    from cellwright.kernel.pages.pages import Pages

TARGET = "cellwright.notebook"


class NotebookTarget:
    """Lets pages connect. `loop` gives the agent's loop; it is called when a page wants something."""

    def __init__(self, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._loop = loop
        self._making = threading.Lock()
        self._pages: Pages | None = None
        self._expected = ""

    def open(self) -> None:
        """Let pages connect."""
        comm_manager().register_target(TARGET, self._on_open)

    def close(self) -> None:
        """End all connections, and take no new ones."""
        comm_manager().unregister_target(TARGET, self._on_open)
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
