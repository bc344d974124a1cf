"""Code as an agent's call has it run: waited for on the agent's thread, interrupted when the call is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cellwright.agent.agent_thread import CallerJobs
from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.kernel.code_run import CodeRun
from cellwright.kernel.diverted_output import CodeOutput

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

INTERRUPTED = (
    "The user interrupted this code, to have the kernel for themselves. What it did before that stays done. "
    "Do not run it again as it is: do less at a time, or ask."
)

STUCK_SECONDS = 1.0
"""Code that still runs so long after an interrupt does not react to it."""


async def run_code(
    shell: InteractiveShell,
    source: str,
    jobs: CallerJobs,
    output: CodeOutput,
    *,
    in_kernel: bool,
    on_stuck: Callable[[], None] | None = None,
    cell_id: str = "",
) -> bool:
    """Have the code run by the thread that works off `jobs`; whether it failed.

    Cancelled, it interrupts the code and waits for its end. An interrupt by the user cancels the task that called; in the
    background it ends the code alone: what the user wants is their kernel.
    `on_stuck` is called when the code does not react to an interrupt; the other arguments are `CodeRun`'s.
    """
    with _stuck_watch(on_stuck) as wakeup_fd:
        code = CodeRun(shell, source, output, with_children=in_kernel, wakeup_fd=wakeup_fd, cell_id=cell_id)
        job = asyncio.ensure_future(jobs.call(functools.partial(code.run, jobs)))
        cancelled = False
        while not job.done():
            try:
                # the code runs on another thread whatever happens here, and nothing may run beside it
                await asyncio.wait({job})
            except asyncio.CancelledError:
                cancelled = True
                if not code.interrupt():
                    job.cancel()
    if cancelled:
        raise asyncio.CancelledError
    if code.interrupted:
        if jobs.in_background:
            raise ToolError(INTERRUPTED, code=ErrorCode.INTERRUPTED)
        await _cancel_the_run()
    return job.result()


async def _cancel_the_run() -> None:
    """The user interrupted the code, and with it the run: its task is cancelled as by anybody else, here and now."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


@contextlib.contextmanager
def _stuck_watch(on_stuck: Callable[[], None] | None) -> Iterator[int]:
    """A descriptor for `signal.set_wakeup_fd`; `on_stuck` is called when the block goes on for long after a SIGINT."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None
    if on_stuck is None or sys.platform == "win32":  # its loop cannot wait for a socket that something else writes to
        yield -1
        return
    reader, writer = socket.socketpair()

    def signalled() -> None:
        nonlocal timer
        if signal.SIGINT in reader.recv(4096) and timer is None:
            timer = loop.call_later(STUCK_SECONDS, on_stuck)

    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        loop.add_reader(reader, signalled)
        try:
            yield writer.fileno()
        finally:
            loop.remove_reader(reader)
            if timer is not None:
                timer.cancel()
