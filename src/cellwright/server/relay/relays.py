"""The relays to the kernels in which runs go on, one for each kernel, for as long as somebody needs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

from cellwright.server.api_error import RouteError
from cellwright.server.notebooks.notebook_link import PageOf
from cellwright.server.relay.channels import KernelLost
from cellwright.server.relay.relay import KernelRelay

IDLE_SECONDS = 30.0
"""A connection is kept so long after the last run: the next prompt need not connect."""


class Relays:
    """On the server's loop only. `page_of` makes the page by which a kernel has the server's notebooks; `in_use` says of a
    kernel whether a run goes on there.
    """

    def __init__(
        self, kernels: Any, connect_seconds: float, page_of: PageOf, in_use: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._kernels = kernels
        self._in_use = in_use
        self._connect_seconds = connect_seconds
        self._page_of = page_of
        self._relays: dict[str, KernelRelay] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._idle: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._held: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def held(self, kernel_id: str) -> AsyncIterator[KernelRelay]:
        """The relay to that kernel, which is not left while the block lasts. Raises ApiError."""
        self._held[kernel_id] += 1
        try:
            yield await self.of(kernel_id, lambda _: None)
        finally:
            self._held[kernel_id] -= 1
            if not self._held[kernel_id]:
                del self._held[kernel_id]
                if not self._in_use(kernel_id) and kernel_id in self._relays:
                    self.idle(kernel_id)

    async def of(self, kernel_id: str, about_wait: Callable[[str], None]) -> KernelRelay:
        """The relay to that kernel, connected. Raises ApiError."""
        if (timer := self._idle.pop(kernel_id, None)) is not None:
            timer.cancel()
        async with self._locks.setdefault(kernel_id, asyncio.Lock()):
            relay = self._relays.get(kernel_id)
            if relay is not None and not relay.ended:
                await relay.refresh()
                return relay
            if relay is not None:
                await relay.close()
            if kernel_id not in self._kernels:
                raise RouteError(404, "NOT_FOUND", f"Kernel {kernel_id} was not found.")
            relay = KernelRelay(self._kernels, kernel_id, self._connect_seconds, self._page_of)
            try:
                await relay.open(about_wait)
            except KernelLost as error:
                message = f"Kernel {kernel_id} ended while it was connected to."
                raise RouteError(502, "EXECUTION_ERROR", message) from error
            self._relays[kernel_id] = relay
            return relay

    def kernels(self) -> list[dict[str, Any]]:
        """The kernels that the server is connected to, and what they hold."""
        return [
            {
                "id": kernel_id,
                "version": relay.version,
                "executable": relay.executable,
                "subshells": relay.has_subshells,
                "session": relay.state.get("session", {}).get("id"),
                "current": relay.state.get("current"),
            }
            for kernel_id, relay in self._relays.items()
            if not relay.ended
        ]

    def leave_run(self, kernel_id: str, kernel_run: str) -> None:
        """Nobody follows that run of the kernel any more."""
        if (relay := self._relays.get(kernel_id)) is not None:
            relay.leave_run(kernel_run)

    def idle(self, kernel_id: str) -> None:
        """No run goes on there: leave the kernel after a while."""
        if (timer := self._idle.pop(kernel_id, None)) is not None:
            timer.cancel()
        self._idle[kernel_id] = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._leave, kernel_id)

    def _leave(self, kernel_id: str) -> None:
        self._idle.pop(kernel_id, None)
        if self._held[kernel_id]:
            return  # who holds it says so when it is done
        task = asyncio.ensure_future(self.drop(kernel_id))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def drop(self, kernel_id: str) -> None:
        """Leave that kernel now."""
        async with self._locks.setdefault(kernel_id, asyncio.Lock()):
            if (relay := self._relays.pop(kernel_id, None)) is not None:
                await relay.close()
        self._locks.pop(kernel_id, None)

    async def close(self) -> None:
        """Leave all kernels."""
        for timer in self._idle.values():
            timer.cancel()
        await asyncio.gather(*(self.drop(kernel_id) for kernel_id in list(self._relays)))
