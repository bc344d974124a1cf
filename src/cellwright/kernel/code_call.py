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

from cellwright.agent.thread import CallerJobs
from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.kernel.execute.code_run import CodeRun
from cellwright.kernel.execute.redirect import CodeOutput

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

INTERRUPTED = (
    "The user interrupted this code, to have the kernel for themselves. What it did before that stays done. "
    "Do not run it again as it is: do less at a time, or ask."
)

SECONDS_BETWEEN_SIGNALS = 0.1
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
    with _stuck_watch(on_stuck) as watch:
        code = CodeRun(shell, source, output, with_children=in_kernel, wakeup_fd=watch.wakeup_fd, cell_id=cell_id)
        watch.signal_again = code.signal_again
        job = asyncio.ensure_future(jobs.call(functools.partial(code.run, jobs)))
        cancelled = False
        while not job.done():
            try:
                # the code runs on another thread whatever happens here, and nothing may run beside it
                await asyncio.wait({job})
            except asyncio.CancelledError:
                cancelled = True
                if code.interrupt():
                    watch.interrupted()
                else:
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


class _StuckWatch:
    """What is done on the agent's loop after an interrupt; `wakeup_fd` is for `signal.set_wakeup_fd`, -1: none."""

    def __init__(self, on_stuck: Callable[[], None] | None) -> None:
        self.wakeup_fd = -1
        self.signal_again: Callable[[], bool] = lambda: False
        self._on_stuck = on_stuck
        self.loop = asyncio.get_running_loop()
        self._stuck: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None

    def interrupted(self) -> None:
        """A SIGINT is on its way to the code, or has come."""
        if self._again is None:
            self._again = self.loop.call_later(SECONDS_BETWEEN_SIGNALS, self._signal_again)

    def signalled(self, numbers: bytes) -> None:
        """Signals have come to the process."""
        if signal.SIGINT not in numbers:
            return
        self.interrupted()
        if self._stuck is None and self._on_stuck is not None:
            self._stuck = self.loop.call_later(STUCK_SECONDS, self._on_stuck)

    def end(self) -> None:
        for timer in (self._stuck, self._again):
            if timer is not None:
                timer.cancel()

    def _signal_again(self) -> None:
        self._again = None
        if self.signal_again():
            self.interrupted()


@contextlib.contextmanager
def _stuck_watch(on_stuck: Callable[[], None] | None) -> Iterator[_StuckWatch]:
    """`on_stuck` is called when the block goes on for long after a SIGINT."""
    watch = _StuckWatch(on_stuck)
    try:
        if sys.platform == "win32":  # its loop cannot wait for a socket that something else writes to
            yield watch
            return
        reader, writer = socket.socketpair()
        with reader, writer:
            reader.setblocking(False)
            writer.setblocking(False)
            watch.wakeup_fd = writer.fileno()
            watch.loop.add_reader(reader, lambda: watch.signalled(reader.recv(4096)))
            try:
                yield watch
            finally:
                watch.loop.remove_reader(reader)
    finally:
        watch.end()
