"""A page that shows a notebook and connects to the kernel, as `labextension/src/notebook` does."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from notebook_kernel import Message, NotebookKernel

from cellwright.conversation.message_chunks import JoinedMessages, pieces
from cellwright.kernel.pages.comm_targets import NOTEBOOK_TARGET
from cellwright.kernel.pages.pages import PROTOCOL

Json = dict[str, Any]

WELCOME = {"type": "welcome", "protocol": PROTOCOL}


class NotebookPage:
    """One page with one notebook, whose cells are `cells`. It answers the kernel until it is `dead`."""

    def __init__(
        self, kernel: NotebookKernel, path: Path, *cells: tuple[str, str, str], front_end: str = "JupyterLab 4.6.6"
    ) -> None:
        self.kernel = kernel
        self.path = path
        self.front_end = front_end
        self.route = "page"
        self.cells: list[Json] = [self.cell(*cell) for cell in cells]
        self.dead = False
        self.unsaved = False
        self.own = True
        self.shared = False
        self.draws_key_card = False
        self.client = kernel.client.session.session
        self.asked: list[str] = []
        self.params: dict[str, Json] = {}
        """The params of the newest request, by its method."""
        self.pictures: list[Json] | None = None
        """What it draws; None: it knows of no pictures."""
        self.got: list[Json] = []
        self.closed = False
        self._parts = JoinedMessages()
        self._comm_id = uuid.uuid4().hex
        self._secret = uuid.uuid4().hex
        self._subshell = kernel.control("create_subshell_request")["subshell_id"] if kernel.has_subshells else None
        kernel.listeners.append(self._listen)

    @staticmethod
    def cell(name: str, kind: str, source: str) -> Json:
        return {
            "id": name,
            "cell_type": kind,
            "source": source,
            "execution_count": None,
            "outputs": [],
            "metadata": {"trusted": True},
            "attachments": {},
        }

    def open(self) -> None:
        """Connect, and wait until the kernel knows of the page: a cell that begins sooner finds none."""
        self.say_hello()
        if WELCOME not in self.got:
            self.kernel.wait_for(lambda _: WELCOME in self.got)

    def say_hello(self, protocol: int = PROTOCOL) -> None:
        hello = {**self.hello(), "protocol": protocol, "secret": self._secret}
        self._post("comm_open", {"comm_id": self._comm_id, "target_name": NOTEBOOK_TARGET, "data": hello})

    def hello(self) -> Json:
        shown = {
            "path": self.path.name,
            "own": self.own,
            "session": self.client,
            "trusted": True,
            "unsaved": self.unsaved,
            "route": self.route,
            "shared": self.shared,
        }
        return {
            "protocol": PROTOCOL,
            "page": self._comm_id,
            "front_end": self.front_end,
            "root": str(self.path.parent),
            "draws_key_card": self.draws_key_card,
            "notebooks": [shown],
        }

    def say(self, message: Json) -> None:
        for piece in pieces(message):
            self._post("comm_msg", {"comm_id": self._comm_id, "data": {**piece.message, "secret": self._secret}})

    def say_as_another_script(self, message: Json) -> None:
        """Send on the page's comm what any other script there can send."""
        self._post("comm_msg", {"comm_id": self._comm_id, "data": message})

    def close(self) -> None:
        self.say({"type": "bye"})
        self.kernel.listeners.remove(self._listen)

    def source(self, name: str) -> str:
        return str(next(cell["source"] for cell in self.cells if cell["id"] == name))

    def _post(self, kind: str, content: Json) -> None:
        self.kernel.post(kind, content, self._subshell, self.client)

    def _listen(self, message: Message) -> None:
        content = message["content"]
        if content.get("comm_id") != self._comm_id or self.dead:
            return
        if message["msg_type"] == "comm_close":
            self.closed = True
        if message["msg_type"] != "comm_msg":
            return
        told = self._parts.add(content["data"])
        if told is None:
            return
        self.got.append(told)
        if told["type"] == "request":
            self.asked.append(told["method"])
            self.params[told["method"]] = told["params"]
            self.say({"type": "reply", "id": told["id"], **self._answer(told["method"], told["params"])})

    def _answer(self, method: str, params: Json) -> Json:
        match method:
            case "ping":
                return {"result": None}
            case "cells":
                return {"result": {"cells": json.loads(json.dumps(self.cells)), "unsaved": self.unsaved}}
            case "change":
                return self._change(params["changes"], params["provenance"])
            case "pictures" if self.pictures is not None:
                return {"result": {"pictures": self.pictures}}
            case _:
                return {"error": {"code": "unknown_method", "message": f"no {method}", "details": {}}}

    def _change(self, changes: list[Json], provenance: Json | None) -> Json:
        """Replacements alone: what becomes of changes is the conformance suite's matter, in a real page."""
        changed = []
        for change in changes:
            at = next(at for at, cell in enumerate(self.cells) if cell["id"] == change["id"])
            before = dict(self.cells[at])
            if before["source"] != change["expect"]:
                conflicts = [{"id": change["id"], "now": before["source"]}]
                return {"error": {"code": "conflict", "message": "changed", "details": {"conflicts": conflicts}}}
            self.cells[at]["source"] = change["source"]
            if provenance is not None:
                self.cells[at]["metadata"]["cellwright"] = provenance
            changed.append(
                {"id": change["id"], "position": at, "was": at, "before": before, "after": dict(self.cells[at])}
            )
        self.unsaved = True
        return {"result": {"changed": changed}}
