"""ipykernel where its versions differ: work between two of its requests, a reply's execution count, and its comms.

The kernel handles one request at a time. Each job of a background run takes its place among the requests: it begins when the
cell that is running has ended, and a cell that is sent meanwhile waits until it is done.

The kernel takes the shell's count at the end of a cell for the count of that cell. Where Claude has run cells while the
cell that asked it was running, the front end would show the last one's count twice, and the own one nowhere.

Comms are those of the package `comm`, or of ipykernel itself where that is older than the package (6.17). Hosted notebooks
pin such a version, and where it runs the package, if it is there at all, reaches no front end.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import logging
import sys
import weakref
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


def uses_comm_package() -> bool:
    """Return whether what is done with the package `comm` reaches this kernel's front ends."""
    if importlib.util.find_spec("comm") is None:
        return False
    manager = _manager_of_kernel()
    return manager is None or manager is _package().get_comm_manager()


def _package() -> Any:
    import comm  # older than the package, ipykernel does without it

    return comm


def comm_manager() -> Any:
    """The manager of the kernel's comms: `register_target`, `unregister_comm` and so on."""
    if (manager := _manager_of_kernel()) is not None:
        return manager
    return _package().get_comm_manager()


def create_comm(target_name: str, **options: Any) -> Any:
    """Open a comm to each page that knows `target_name`; `options` are `data`, `metadata` and the like."""
    if uses_comm_package():
        return _package().create_comm(target_name=target_name, **options)
    from ipykernel.comm import Comm

    return Comm(target_name=target_name, **options)


def isolate_from_shell(comm: Any) -> None:
    """Have messages to `comm` reach its callback alone, on the subshell that they name.

    A comm of the package fires the shell's hooks around its callback, on the subshell's thread. matplotlib's inline backend
    then draws the user's figures there while the main thread saves them: they come out blank or torn.
    ipykernel 7.4 hands messages to the shell that last published on the comm, which is the main shell: busy with the very
    cell that waits for them. Other versions have no such route.
    """
    # no method of the comm: that would keep it alive
    comm.handle_msg = functools.partial(_call_back, weakref.ref(comm))
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, default: default


def reply_by_stream(kernel: Any) -> None:
    """Have ipykernel 7.0 to 7.3 send its replies by the stream that reads the requests, as 7.4 does.

    Sent past that, a reply takes the news of a request that arrives meanwhile: neither this one nor any later request of its
    client is read, and only a restart helps. Pages talk while cells run, so with us it happens more often.
    """
    manager: Any = getattr(getattr(kernel, "shell_channel_thread", None), "manager", None)
    if hasattr(manager, "_shell_socket"):
        manager._shell_socket = kernel.shell_stream


def _call_back(found: Callable[[], Any], message: Any) -> None:
    comm = found()
    if comm is not None and comm._msg_callback is not None:
        comm._msg_callback(message)


def _manager_of_kernel() -> Any:
    """The manager that ipykernel's kernel hands messages to; None in a kernel of another make."""
    base = sys.modules.get("ipykernel.kernelbase")
    return getattr(base.Kernel.instance(), "comm_manager", None) if base and base.Kernel.initialized() else None
