"""Somebody who has a notebook open in a room of jupyter-collaboration, and the extension, laid beside the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import websocket
from jupyter_process import QUIET_EXTENSIONS, SECONDS, TOKEN, JupyterServer

EXTENSIONS = {**QUIET_EXTENSIONS, "jupyter_server_fileid": True, "jupyter_server_ydoc": True}
PACKAGES = ("jupyter-server-ydoc", "jupyter-server-fileid", "pycrdt-websocket", "pycrdt-store", "sqlite-anyio")
"""Not in the environment: there they would take part in every test with JupyterLab."""


def installed_beside(folder: Path) -> str:
    """Install the extension into `folder`; why it cannot be used, or nothing."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *PACKAGES]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr[-500:]
    program = [sys.executable, "-c", "import jupyter_server_fileid.extension, jupyter_server_ydoc.app"]
    done = subprocess.run(program, env=environ_with(folder), capture_output=True, text=True, check=False)
    return done.stderr[-500:] if done.returncode else ""


def environ_with(folder: Path) -> dict[str, str]:
    """This process's environment, with the packages in `folder` before all others."""
    path = os.pathsep.join(part for part in (str(folder), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path}


class Coauthor:
    """One client of the room of the notebook at `path`."""

    def __init__(self, server: JupyterServer, path: str) -> None:
        import pycrdt  # only these tests need it
        from jupyter_ydoc import YNotebook

        said = {"format": "json", "type": "notebook"}
        session = server.request("PUT", f"api/collaboration/session/{path}", said).json()
        room = f"json:notebook:{session['fileId']}?sessionId={session['sessionId']}"
        self.document: Any = YNotebook()
        self._pycrdt = pycrdt
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
            if message[0] == self._pycrdt.YMessageType.SYNC:
                reply = self._pycrdt.handle_sync_message(message[1:], self.document.ydoc)
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
        self._socket.send_binary(self._pycrdt.create_update_message(ydoc.get_update(before)))

    def leave(self) -> None:
        self._socket.close()
