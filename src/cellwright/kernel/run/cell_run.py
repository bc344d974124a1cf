"""One run as a cell waits for it: the agent works on its thread, this thread works off jobs, an interrupt ends both.

What a cell's options come to: a run that can be waited for, and whether the cell waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from cellwright.agent.thread import AgentTask
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.runs.run_options import RunError, RunOptions, result_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Notice, RunEnd
from cellwright.kernel.magic.line import MagicOptions
from cellwright.kernel.output.cell_output import CellOutput, ViewOutput
from cellwright.kernel.run.front_end import FrontEnd
from cellwright.kernel.run.idle_kernel import loses_output
from cellwright.kernel.run.interrupts import SECONDS_FOR_CLEAN_UP, Interrupts, needs_pump, pump
from cellwright.kernel.widgets.bundle import is_built

if TYPE_CHECKING:
    from cellwright.agent.prompt import ContextProvider
    from cellwright.agent.structured_output.answer import AnswerType

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


class PreparedRun(NamedTuple):
    """A run that can be waited for, and what is done with its end; `finish` raises what the cell should show.

    `background`: the cell does not wait for it.
    """

    cell: CellRun[RunEnd]
    finish: Callable[[RunEnd], None]
    background: bool = False


def run_options(options: MagicOptions, typed: AnswerType | None = None) -> RunOptions:
    """The magic's options as the conversation takes them; `typed` is what its `schema` names."""
    return RunOptions(
        model=options.model,
        mode=options.mode,
        max_turns=options.max_turns,
        budget_usd=options.budget,
        effort=options.effort,
        builtin_tools=not options.no_tools,
        answer_type=typed,
    )


def goes_on_alone(options: MagicOptions, front_end: FrontEnd) -> bool:
    """Whether the run goes on without its cell. Raises `CellwrightError` where nobody could see or answer it."""
    if not options.background:
        return False
    if front_end.kernel is not None and front_end.headless:
        # the kernel ends with its last cell, and the answer would be cut off
        print("[--background: nobody watches this notebook, so the cell waits for the answer.]")
        return False
    if front_end.cell_id is None or options.format != "text" or not is_built():
        message = (
            "--background needs a notebook that shows widgets: here nothing could be seen of the run, and nobody "
            "could answer its questions. Leave it out, and the prompt is answered while you wait. Nothing was sent."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if loses_output():
        print("[--background needs ipykernel 6, or 7.4 or newer; with this one the cell waits for the answer.]")
        return False
    return True


def dry_run(
    conversation: Conversation,
    shell: Any,
    prompt: str,
    options: MagicOptions,
    typed: AnswerType | None,
    telling: Sequence[ContextProvider],
) -> PreparedRun:
    """A run that shows what `prompt` would send and sends nothing."""
    # not what most runs need
    from cellwright.conversation.dry_run import DryRun, shown, unsaved_copy
    from cellwright.terminal.plain_view import Unseen

    provider = DryRun()
    start = functools.partial(
        conversation.start,
        prompt,
        replace(run_options(options), telling=tuple(telling)),
        emit=lambda _: None,
        provider=provider,
        session=unsaved_copy(conversation.session),
    )

    def finish(end: RunEnd) -> None:
        result_of(end, ())
        summary = provider.summary(typed)
        print(shown(summary) if options.format == "text" else json.dumps(summary))
        if options.out is not None:
            shell.user_ns[options.out] = summary

    return PreparedRun(CellRun(conversation, start, ViewOutput(Unseen()), getattr(shell, "kernel", None)), finish)
