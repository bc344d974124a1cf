"""The server's notebooks at one kernel, for as long as the server is connected to it: the comm, and its requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from cellwright.errors import log_fault
from cellwright.server.notebooks.server_page import TARGET, Send, ServerPage
from cellwright.server.relay.channels import KernelLost, Message
from cellwright.server.relay.connection import KernelComm, KernelConnection

UPDATE_SECONDS = 3.0
"""The time between looks, during a run, whether a notebook was opened, closed or renamed, or is shared now."""

logger = logging.getLogger(__name__)

PageOf = Callable[[str, Send], ServerPage]
"""Makes the page for the kernel of that id."""


class NotebookLink:
    """Opened and closed with each connection to the kernel `kernel_id`. Where it fails, runs go on without it.

    `busy` says whether a run goes on there.
    """

    def __init__(self, page_of: PageOf, kernel_id: str, busy: Callable[[], bool]) -> None:
        self._page_of = page_of
        self._kernel_id = kernel_id
        self._busy = busy
        self._comm: KernelComm | None = None
        self._page: ServerPage | None = None
        self._watch: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self, connection: KernelConnection, subshell: str | None) -> None:
        """Say what the server has. What is asked of the kernel after that finds it there."""
        self.forget()
        comm = KernelComm(connection, subshell, TARGET)
        page = self._page_of(self._kernel_id, comm.send)
        try:
            hello = await page.hello()
            comm.open(hello)
        except KernelLost:
            return
        except Exception:  # noqa: BLE001  sessions come from any session manager: without them the kernel has no server's page
            log_fault(logger, "kernel %s has no link to the server's notebooks", self._kernel_id)
            return
        self._comm, self._page = comm, page
        self._watch = asyncio.create_task(self._keep_updating(page))

    async def refresh(self) -> None:
        """Say what the server has, if it is something else now."""
        if self._page is not None:
            await self._update(self._page)

    def take(self, published: Message) -> bool:
        """Serve what the kernel published if it was for this comm; return whether it was."""
        if self._comm is None or self._page is None or not self._comm.concerns(published):
            return False
        message = self._comm.take(published)
        if self._comm.closed:  # an older kernel: it knows no such comm, or another protocol
            self.forget()
        elif message is not None:
            task = asyncio.create_task(_unless_lost(self._page.take(message)))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        return True

    def close(self) -> None:
        """Take leave of the kernel. Raises KernelLost."""
        comm = self._comm
        self.forget()
        if comm is not None:
            comm.close()

    def forget(self) -> None:
        """The connection ended, or the kernel wants no more."""
        for task in (self._watch, *self._serving):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._comm = self._page = self._watch = None

    async def _keep_updating(self, page: ServerPage) -> None:
        while True:
            await asyncio.sleep(UPDATE_SECONDS)
            if self._busy():
                await self._update(page)

    async def _update(self, page: ServerPage) -> None:
        try:
            await _unless_lost(page.send_hello_if_changed())
        except Exception:  # noqa: BLE001  a session manager's fault; it is asked again in a while
            log_fault(logger, "kernel %s was not notified of changes to the server's notebooks", self._kernel_id)


async def _unless_lost(work: Coroutine[Any, Any, None]) -> None:
    """Await `work`, unless the connection is lost: then there is nobody who waits for it."""
    try:
        await work
    except KernelLost:
        logger.debug("a kernel left while it was told of notebooks")
