"""Kernels whose sockets are files, whichever program of Jupyter's starts them: nbclient, papermill, JupyterLab.

Jupyter chooses free ports and lets them go. By the time the kernel listens, one of them may be another process's, and the
kernel ends (jupyter/jupyter_client#154): with several tests at a time that happens.
"""

from __future__ import annotations

import tempfile
from typing import Any

from jupyter_client.provisioning import LocalProvisioner


class SocketFiles(LocalProvisioner):
    """Starts a kernel as Jupyter does, with sockets in a folder of its own."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        if self.parent.transport == "tcp":
            self._folder = tempfile.TemporaryDirectory(prefix="kernel-")  # a socket's path has 107 bytes at most
            self.parent.transport, self.parent.ip = "ipc", f"{self._folder.name}/kernel"
        return await super().pre_launch(**kwargs)

    async def cleanup(self, restart: bool = False) -> None:
        await super().cleanup(restart)
        if self._folder is not None and not restart:
            self._folder.cleanup()
