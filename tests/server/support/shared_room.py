"""Somebody who has a notebook open in a room of jupyter-collaboration, and what a server needs for rooms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pycrdt
import websocket
from jupyter_process import QUIET_EXTENSIONS, SECONDS, TOKEN, JupyterServer
from jupyter_ydoc import YNotebook

EXTENSIONS = {**QUIET_EXTENSIONS, "jupyter_server_fileid": True, "jupyter_server_ydoc": True}


class Coauthor:
    """One client of the room of the notebook at `path`."""

    def __init__(self, server: JupyterServer, path: str) -> None:
        said = {"format": "json", "type": "notebook"}
        session = server.request("PUT", f"api/collaboration/session/{path}", said).json()
        room = f"json:notebook:{session['fileId']}?sessionId={session['sessionId']}"
        self.document: Any = YNotebook()
        self._socket = websocket.create_connection(
            f"ws://{server.host}/api/collaboration/room/{room}",
            header={"Authorization": f"token {TOKEN}"},
            timeout=SECONDS,
        )
        self._socket.send_binary(pycrdt.create_sync_message(self.document.ydoc))

    @property
    def sources(self) -> dict[str, str]:
        return {cell["id"]: cell["source"] for cell in self.document.ycells.to_py()}

    def until(self, what: Callable[[dict[str, str]], bool]) -> None:
        """Read the room's updates until its cells are so."""
        while not what(self.sources):
            message = self._socket.recv()
            if message[0] == pycrdt.YMessageType.SYNC:
                reply = pycrdt.handle_sync_message(message[1:], self.document.ydoc)
                if reply is not None:
                    self._socket.send_binary(reply)

    def type(self, cell_id: str, source: str) -> None:
        """Change a cell, as a user of the room does."""
        ydoc = self.document.ydoc
        before = ydoc.get_state()
        cells = self.document.ycells
        place = next(place for place, cell in enumerate(cells) if cell["id"] == cell_id)
        with ydoc.transaction():
            text = cells[place]["source"]
            del text[:]
            text += source
        self._socket.send_binary(pycrdt.create_update_message(ydoc.get_update(before)))

    def leave(self) -> None:
        self._socket.close()
