"""The requests that ipykernel handles: work of a background run between two of them, and the execution count of a reply.

The kernel handles one request at a time. Each job takes its place among the requests: it begins when the cell that is
running has ended, and a cell that is sent meanwhile waits until it is done.

The kernel takes the shell's count at the end of a cell for the count of that cell. Where Claude has run cells while the
cell that asked it was running, the front end would show the last one's count twice, and the own one nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from cellwright.agent.thread import Offer

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

logger = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


class IdleKernel:
    """Does work when `kernel` (ipykernel's) has no request to handle. `offer` is called from any thread."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._turns: set[asyncio.Task[None]] = set()  # asyncio keeps no task alive

    def offer(self, work: Work) -> None:
        """Have `work` done on the main thread, between two requests."""
        # the loop is closed when the kernel ends
        with contextlib.suppress(RuntimeError):
            self._kernel.io_loop.asyncio_loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Work) -> None:
        if hasattr(self._kernel, "schedule_dispatch"):
            # ipykernel 6: one queue of requests, with the function that handles each
            self._kernel.schedule_dispatch(work)
            return
        turn = asyncio.get_running_loop().create_task(self._in_turn(work))
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)

    async def _in_turn(self, work: Work) -> None:
        # ipykernel 7 holds this lock while it handles a request on the main thread
        async with self._kernel._main_asyncio_lock:
            await work()


def loses_output() -> bool:
    """Return whether this kernel's cells now and then lose output, or their end, while something works beside them.

    Seen with ipykernel 7.1, in one run of the tests out of six; 7.4 and 6.31 do not.
    """
    from ipykernel._version import version_info  # there is one where this is asked

    return (7, 0) <= tuple(version_info[:2]) < (7, 4)


def work_between_cells(kernel: Any) -> Offer | None:
    """Return what to call for jobs of a run that no cell waits for; None where this kernel has no place for one."""
    known = hasattr(kernel, "_main_asyncio_lock") or hasattr(kernel, "schedule_dispatch")
    if not known:
        logger.warning("this ipykernel is not known: work in the background waits for the next %%claude cell")
        return None
    return IdleKernel(kernel).offer


class ExecutionCountMender:
    """Mends the replies of one kernel, from `install` to `remove`."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._kernel: Any = getattr(shell, "kernel", None)

    def install(self) -> None:
        if self._kernel is None:
            return
        original = self._kernel.do_execute

        @functools.wraps(original)
        async def do_execute(*args: Any, **more: Any) -> Any:
            count = self._shell.execution_count
            reply = await original(*args, **more)
            if self._shell.execution_count > count + 1:
                reply["execution_count"] = count
            return reply

        self._kernel.do_execute = do_execute

    def remove(self) -> None:
        if self._kernel is not None:
            del self._kernel.do_execute
