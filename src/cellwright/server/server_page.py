"""The server as a page of one kernel: the notebooks it has, for kernels that nobody looks at (docs/protocol/notebook.md).

`page_maker` puts it together from a Jupyter Server and the extensions that it has loaded; a `NotebookLink` carries it to
a kernel, for as long as the server is connected to it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from jupyter_server.utils import ensure_async

from cellwright.errors import log_fault
from cellwright.server.kernel_connection import KernelComm, KernelConnection, KernelLost, Message
from cellwright.server.notebooks import Json, NotebookRefusal, ServedNotebooks

TARGET = "cellwright.notebook"
PROTOCOL = 1
FRONT_END = "Jupyter Server"

logger = logging.getLogger(__name__)

Send = Callable[[Mapping[str, Any]], Awaitable[None]]

COLLABORATION = "jupyter_server_ydoc"
"""The extension of jupyter-collaboration that keeps the shared documents."""


class ServerPage:
    """`send` takes a message to the kernel `kernel_id`; `sessions` is the server's session manager, `root` its folder."""

    def __init__(self, served: ServedNotebooks, sessions: Any, root: str, kernel_id: str, send: Send) -> None:
        self._served = served
        self._sessions = sessions
        self._root = root
        self._kernel_id = kernel_id
        self._send = send
        self._page = uuid.uuid4().hex
        self._last_hello: Json = {}
        methods: dict[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            "cells": served.cells,
            "change": served.change,
            "outputs": served.outputs,
        }
        self._methods = methods

    async def hello(self) -> Json:
        """The data that opens the comm."""
        sessions = await ensure_async(self._sessions.list_sessions())
        notebooks = [session for session in sessions if session.get("type") == "notebook" and session.get("path")]
        self._last_hello = {
            "protocol": PROTOCOL,
            "page": self._page,
            "front_end": FRONT_END,
            "root": self._root,
            "notebooks": [await self._notebook(session) for session in notebooks[:200]],
        }
        return self._last_hello

    async def send_hello_if_changed(self) -> None:
        """Say what is there, if it is something else than before."""
        before = self._last_hello
        if before and await self.hello() != before:
            await self._send({"type": "hello", **self._last_hello})

    async def take(self, message: Mapping[str, Any]) -> None:
        """A message of the kernel."""
        if message.get("type") != "request":
            return
        answer = await self._answer(str(message.get("method")), message.get("params") or {})
        if message.get("id"):
            await self._send({"type": "reply", "id": message["id"], **answer})

    async def _answer(self, method: str, params: Mapping[str, Any]) -> Json:
        if method in ("ping", "propose", "withdraw"):
            return {"result": False if method == "propose" else None}  # nobody looks at a cell here
        serve = self._methods.get(method)
        try:
            if serve is None:
                raise NotebookRefusal("unknown_method", f"The server does not know {method}.")
            return {"result": await serve(params)}
        except NotebookRefusal as refused:
            return {"error": {"code": refused.code, "message": refused.message, "details": refused.details}}
        except Exception as error:  # noqa: BLE001  the kernel waits for an answer, whatever the fault is
            log_fault(logger, "%s of a kernel failed", method)
            return {"error": {"code": "failed", "message": f"{type(error).__name__}: {error}", "details": {}}}

    async def _notebook(self, session: Mapping[str, Any]) -> Json:
        shared = await self._served.is_shared(session["path"])
        return {
            "path": session["path"],
            "own": session["kernel"]["id"] == self._kernel_id,
            "session": "",
            "trusted": False,  # who trusts it is the user, in a page
            "unsaved": False,
            "route": "shared" if shared else "contents",
        }


class LoadedCollaboration:
    """The shared documents of `serverapp`, whose extensions are loaded in any order, and may fail to be."""

    def __init__(self, serverapp: Any) -> None:
        self._serverapp = serverapp

    async def get_document(self, **which: Any) -> Any:
        """As the extension's own; None where the server has no such extension, or it could not begin."""
        if "file_id_manager" not in self._serverapp.web_app.settings:
            return None  # rooms are named by its ids: there can be none
        for app in self._serverapp.extension_manager.extension_apps.get(COLLABORATION, ()):
            if hasattr(app, "get_document") and hasattr(app, "ywebsocket_server"):
                return await app.get_document(**which)
        return None


def served_notebooks(serverapp: Any) -> ServedNotebooks:
    """The notebooks of `serverapp`, a `jupyter_server.serverapp.ServerApp`."""
    return ServedNotebooks(serverapp.contents_manager, LoadedCollaboration(serverapp))


def page_maker(serverapp: Any) -> PageOf:
    """Makes the pages of `serverapp`, a `jupyter_server.serverapp.ServerApp`."""
    served = served_notebooks(serverapp)
    root = str(Path(serverapp.root_dir).expanduser().resolve())
    return functools.partial(ServerPage, served, serverapp.session_manager, root)


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
            # looks, during a run, whether a notebook was opened, closed or renamed, or is shared now
            await asyncio.sleep(3.0)
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
