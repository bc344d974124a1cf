"""The sessions of all kernels of this server, for a screen that shows them: watched while a page asks for them.

Pages are told by Jupyter's event system that something has changed, without content, and fetch the rest: whoever may
read events need not be allowed to use kernels.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async

from cellwright.server.api_error import RouteError
from cellwright.server.overview.kernel_watch import KernelWatch

SCHEMA = Path(__file__).with_name("overview_events.yaml")
SCHEMA_ID = "urn:cellwright:events:overview:v1"

LEASE_SECONDS = 180.0
"""Kernels are watched for so long after a page has asked."""
TICK_SECONDS = 2.0
NEWS_SECONDS = 0.2
"""Changes within this time are one event."""
FIRST_SECONDS = 3.0
"""The longest that a page waits for kernels that were not watched yet."""
MAX_KERNELS = 200


class SessionsOverview:
    """On the server's loop. `logger` is the server's event logger; `sessions` says which notebook a kernel runs."""

    def __init__(self, kernels: Any, sessions: Any, logger: Any | None) -> None:
        self._kernels = kernels
        self._sessions = sessions
        self._logger = logger
        self._watches: dict[str, KernelWatch] = {}
        self._until = 0.0
        self._ticking: asyncio.Task[None] | None = None
        self._news: asyncio.TimerHandle | None = None
        self._revision = 0
        if logger is not None:
            logger.register_event_schema(SCHEMA)

    async def report(self) -> dict[str, Any]:
        """The kernels that have loaded Cellwright, with what runs, waits and asks in each."""
        self._until = time.monotonic() + LEASE_SECONDS
        self._look()
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.get_running_loop().create_task(self._tick())
        await asyncio.gather(*(watch.settled(FIRST_SECONDS) for watch in self._watches.values()))
        listed = await ensure_async(self._sessions.list_sessions())
        notebooks = {each["kernel"]["id"]: each for each in listed if each.get("kernel")}
        rows = [self._row(watch, notebooks) for watch in self._watches.values() if watch.present]
        return {"revision": self._revision, "now": time.time(), "kernels": rows}

    async def stop(self, kernel_id: str, task_id: str) -> None:
        """Stop a run, a command or an agent of that kernel. Raises RouteError."""
        watch = self._watches.get(kernel_id)
        if watch is None or not watch.present:
            raise RouteError(404, "NOT_FOUND", f"Kernel {kernel_id} was not found, or has not loaded Cellwright.")
        await watch.stop(task_id)

    async def close(self) -> None:
        """Leave all kernels."""
        if self._ticking is not None:
            self._ticking.cancel()
        if self._news is not None:
            self._news.cancel()
        await self._leave_all()

    async def _tick(self) -> None:
        while time.monotonic() < self._until:
            await asyncio.sleep(TICK_SECONDS)
            self._look()
        await self._leave_all()

    async def _leave_all(self) -> None:
        watches, self._watches = list(self._watches.values()), {}
        await asyncio.gather(*(watch.close() for watch in watches), return_exceptions=True)

    def _look(self) -> None:
        there = list(self._kernels.list_kernel_ids())[:MAX_KERNELS]
        for kernel_id in set(self._watches) - set(there):
            watch = self._watches.pop(kernel_id)
            task = asyncio.get_running_loop().create_task(watch.close())
            task.add_done_callback(lambda _: self._changed())
        for kernel_id in there:
            if kernel_id not in self._watches:
                self._watches[kernel_id] = KernelWatch(self._kernels, kernel_id, self._changed)
            self._watches[kernel_id].look()

    def _row(self, watch: KernelWatch, notebooks: dict[str, dict[str, Any]]) -> dict[str, Any]:
        session = notebooks.get(watch.kernel_id, {})
        kernel = self._kernels.get_kernel(watch.kernel_id)
        return {
            "id": watch.kernel_id,
            "name": str(getattr(kernel, "kernel_name", "")),
            "path": str(session.get("path") or ""),
            "type": str(session.get("type") or ""),
            "session_name": str(session.get("name") or ""),
            "state": str(getattr(kernel, "execution_state", "")),
            "overview": watch.overview,
        }

    def _changed(self) -> None:
        self._revision += 1
        if self._logger is not None and self._news is None:
            self._news = asyncio.get_running_loop().call_later(NEWS_SECONDS, self._emit)

    def _emit(self) -> None:
        self._news = None
        if self._logger is not None:
            self._logger.emit(schema_id=SCHEMA_ID, data={"revision": self._revision})
