"""Kernels that were started for runs: shut down when their run is over, or, where the client keeps them, when they idle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async

from cellwright.server.api_error import RouteError

logger = logging.getLogger(__name__)

END_SECONDS = 20.0
"""The time a kernel that is being shut down is waited for when the server ends."""


class OwnKernels:
    """They are the server's kernels like all others, so its REST interface and its culler know them too.

    `in_use(kernel_id)` says whether a run goes on there.
    """

    def __init__(
        self,
        kernels: Any,
        most: int,
        idle_seconds: float,
        in_use: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kernels = kernels
        self._most = most
        self._idle_seconds = idle_seconds
        self._in_use = in_use
        self._clock = clock
        self._used: dict[str, float] = {}
        self._starting = 0
        self._culling: asyncio.Task[None] | None = None
        self._ending: dict[str, asyncio.Future[Any]] = {}

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self._used

    async def start(self, folder: str, name: str | None) -> str:
        """Start a kernel in `folder`, a path below the server's root; its id. Raises ApiError."""
        self._forget_gone()
        if len(self._used) + self._starting >= self._most:
            message = f"{self._most} kernels of runs are there already. Name one of them, or shut one down."
            raise RouteError(429, "RATE_LIMIT_EXCEEDED", message, retry_after=30)
        self._starting += 1
        try:
            kernel_id: str = await ensure_async(self._kernels.start_kernel(path=folder, kernel_name=name))
        except Exception as error:  # a kernelspec's program, a provisioner, a gateway: each has errors of its own
            raise RouteError(502, "EXECUTION_ERROR", f"No kernel could be started: {error}") from error
        finally:
            self._starting -= 1
        self._used[kernel_id] = self._clock()
        if self._culling is None:
            self._culling = asyncio.create_task(self._cull())
        return kernel_id

    def used(self, kernel_id: str) -> None:
        """A run has just ended there."""
        if kernel_id in self._used:
            self._used[kernel_id] = self._clock()

    async def shut_down(self, kernel_id: str) -> None:
        """End a kernel that was started for a run. Who is cancelled meanwhile leaves it to end all the same."""
        self._used.pop(kernel_id, None)
        if kernel_id in self._kernels and kernel_id not in self._ending:
            ending = asyncio.ensure_future(ensure_async(self._kernels.shutdown_kernel(kernel_id)))
            self._ending[kernel_id] = ending
            ending.add_done_callback(lambda _: self._ending.pop(kernel_id, None))
            await asyncio.shield(ending)

    async def close(self) -> None:
        """Stop looking after them; the server shuts all of its kernels down."""
        if self._culling is not None:
            self._culling.cancel()
        if self._ending:  # to end a kernel that is being ended is an error of Jupyter's, and its server would not stop
            await asyncio.wait(self._ending.values(), timeout=END_SECONDS)

    async def _cull(self) -> None:
        while True:
            await asyncio.sleep(max(self._idle_seconds / 4, 0.05))
            self._forget_gone()
            for kernel_id, used in list(self._used.items()):
                if not self._in_use(kernel_id) and self._clock() - used > self._idle_seconds:
                    logger.info("kernel %s was started for a run and idles: shut down", kernel_id)
                    await self.shut_down(kernel_id)

    def _forget_gone(self) -> None:
        for kernel_id in [each for each in self._used if each not in self._kernels]:
            del self._used[kernel_id]


def server_root(root: str) -> Path:
    """The server's root on disk. In its settings Jupyter Server writes a root below the home folder with `~`."""
    return Path(root).expanduser().resolve()


def folder_below(root: str, folder: str) -> Path:
    """The folder on disk that the path `folder` (with `/`) below the server's root means. Raises ApiError.

    A link that leads out of the root is refused like `..`: what is outside is not served.
    """
    base = server_root(root)
    if "\0" in folder:
        raise RouteError(400, "FILE_PATH_INVALID", "A folder's name holds no NUL character.")
    try:
        found = (base / folder.strip("/")).resolve()
        is_folder = found.is_dir()
    except (OSError, RuntimeError, ValueError):
        is_folder = False
    if not is_folder:
        raise RouteError(404, "FILE_NOT_FOUND", f"Folder {folder!r} was not found below the server's root.")
    if not found.is_relative_to(base):
        raise RouteError(403, "FILE_ACCESS_ERROR", f"{folder!r} leads out of the server's root.")
    return found
