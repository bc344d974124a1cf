"""One run as a cell waits for it: the agent works on its thread, this thread works off jobs, an interrupt ends both."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cellwright.agent.thread import AgentTask
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.run_options import RunError
from cellwright.errors import CellwrightError
from cellwright.events import Notice
from cellwright.kernel.kernel_pump import needs_pump, pump
from cellwright.kernel.output.cell_output import CellOutput
from cellwright.kernel.run.interrupts import SECONDS_FOR_CLEAN_UP, Interrupts

logger = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True)
class CellRun(Generic[R]):
    """`start` begins the run on the conversation's thread; `kernel` is the IPython kernel, None in a terminal.

    `seconds_for_clean_up`: an interrupt that comes sooner after another is the same one.
    """

    conversation: Conversation
    start: Callable[[], AgentTask[R]]
    output: CellOutput
    kernel: Any
    seconds_for_clean_up: float = SECONDS_FOR_CLEAN_UP

    async def awaited(self) -> R:
        """Wait for the end, leaving this thread's loop free. Raises `KeyboardInterrupt` when interrupted."""
        with self._shown() as task, _pumping(self.kernel):
            while not task.done:
                try:
                    await self.conversation.jobs.work_until_done_async(task)
                except asyncio.CancelledError:
                    # the kernel cancels its cell; the agent still answers its open calls
                    task.cancel()
        return _end_of(task)

    def blocking(self) -> R:
        """The same where a cell cannot be awaited."""
        with self._shown() as task:
            self.conversation.jobs.work_until_done(task)
        return _end_of(task)

    def in_background(self, finish: Callable[[R], object]) -> None:
        """Let the run go on when the cell has ended; `finish` gets its end on the agent's thread, then the output closes."""
        task = self.start()
        self.output.open()
        # in a copy of this cell's context: what is published belongs to this cell, whatever the kernel does then
        self.conversation.thread.submit(self._until_end(task, finish))

    async def _until_end(self, task: AgentTask[R], finish: Callable[[R], object]) -> None:
        try:
            await asyncio.wait({asyncio.wrap_future(task.future)})
            finish(task.result())
        except CancelledError:
            pass  # the user wanted it, and the output says so
        except RunError:
            pass  # the end of the run says why
        except CellwrightError as error:
            self.output.emit(Notice(f"{error.code}: {error.message}", "error"))
        except Exception:  # nobody waits who could raise it: without a word the cell would look as if it were at work
            logger.exception("a run in the background failed")
            self.output.emit(Notice("This run failed by a fault in Cellwright; its log has the traceback.", "error"))
        finally:
            self.output.close()

    @contextlib.contextmanager
    def _shown(self) -> Iterator[AgentTask[R]]:
        lock = threading.Lock()
        running: AgentTask[R] | None = None
        stopped = False

        def cancel() -> None:
            nonlocal stopped
            with lock:
                stopped, begun = True, running
            if begun is not None:
                begun.cancel()

        with Interrupts(self.conversation.thread.loop, cancel, self.seconds_for_clean_up):
            task = self.start()
            with lock:
                # before there was a task to cancel; once only, a second time would cut off its clean-up
                early = stopped
                running = task
            if early:
                task.cancel()
            try:
                # after the start: the request is on its way while the front end gets its widget
                self.output.open()
                yield task
            finally:
                if not task.done:
                    task.cancel()
                    self.conversation.jobs.work_until_done(task)
                self.output.close()


@contextlib.contextmanager
def _pumping(kernel: Any) -> Iterator[None]:
    if kernel is None or not needs_pump(kernel):
        yield
        return
    pumping = asyncio.ensure_future(pump(kernel))
    try:
        yield
    finally:
        pumping.cancel()


def _end_of(task: AgentTask[R]) -> R:
    try:
        return task.result()
    except CancelledError:
        raise KeyboardInterrupt("Interrupted. The conversation goes on in the next cell.") from None
