"""The server as a page of one kernel: the notebooks it has, for kernels that nobody looks at (docs/protocol/notebook.md)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jupyter_server.utils import ensure_async

from cellwright.errors import log_fault
from cellwright.server.notebooks.cells import Json, NotebookRefusal
from cellwright.server.notebooks.notebooks import ServedNotebooks

TARGET = "cellwright.notebook"
PROTOCOL = 1
FRONT_END = "Jupyter Server"
MAX_NOTEBOOKS = 200

logger = logging.getLogger(__name__)

Send = Callable[[Mapping[str, Any]], Awaitable[None]]


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
        self._last_hello = {
            "protocol": PROTOCOL,
            "page": self._page,
            "front_end": FRONT_END,
            "root": self._root,
            "notebooks": await self._notebooks(),
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

    async def _notebooks(self) -> list[Json]:
        sessions = await ensure_async(self._sessions.list_sessions())
        notebooks = [session for session in sessions if session.get("type") == "notebook" and session.get("path")]
        return [await self._notebook(session) for session in notebooks[:MAX_NOTEBOOKS]]

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
