"""The server's page for its kernels, put together from a Jupyter Server and the extensions that it has loaded."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from cellwright.server.notebooks.notebook_link import PageOf
from cellwright.server.notebooks.notebooks import ServedNotebooks
from cellwright.server.notebooks.server_page import ServerPage

COLLABORATION = "jupyter_server_ydoc"
"""The extension of jupyter-collaboration that keeps the shared documents."""


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
