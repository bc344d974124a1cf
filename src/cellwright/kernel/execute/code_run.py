"""One piece of code for Claude on the thread that works off the jobs, and the interrupts that reach it there.

A SIGINT during the code is raised in the code, also where the kernel's own handler would only schedule something for
later: `while True: pass` never comes to that. It is raised nowhere else: neither in our own clean-up nor in the
kernel's loop, which would not survive it.

Figures of matplotlib that nobody else displays are put into the output: a backend with windows of its own, or none,
leaves them open. In a notebook the inline backend displays each new figure when code ends, and there is nothing left
to do here.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.agent.thread import CallerJobs, running_agent_code
from cellwright.errors import ToolError
from cellwright.kernel.execute.redirect import CodeOutput, diverted_output

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

SHOW_BY_THEMSELVES = ("inline", "ipympl", "widget", "nbagg", "notebook")


def open_figures() -> dict[int, bool]:
    """The numbers of the figures that pyplot holds, and whether they changed since they were drawn."""
    return {manager.num: manager.canvas.figure.stale for manager in _managers()}


def drawn_figures(before: Mapping[int, bool]) -> set[int]:
    """The numbers of the figures that are new since `before`, or were drawn on.

    To be asked before IPython's own hooks run: where matplotlib is interactive they draw all figures, for nobody.
    """
    return {number for number, stale in open_figures().items() if stale and not before.get(number, False)}


def show_figures(numbers: Set[int], output: CodeOutput) -> None:
    """Put pictures of those of the figures that are still there, and that nobody else displays, into `output`."""
    for manager in _managers():
        figure = manager.canvas.figure
        if manager.num not in numbers or _shows_by_itself():
            continue
        picture = io.BytesIO()
        figure.savefig(picture, format="png", bbox_inches="tight")
        output.display({"text/plain": repr(figure), "image/png": picture.getvalue()}, {}, "", update=False)
        if manager.canvas.required_interactive_framework is None:
            figure.stale = False  # there is no window that still has to draw it


def _managers() -> Iterator[Any]:
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return iter(helpers.Gcf.get_all_fig_managers() if helpers is not None else ())


def _shows_by_itself() -> bool:
    backend = str(sys.modules["matplotlib"].get_backend()).lower()
    return any(name in backend for name in SHOW_BY_THEMSELVES)


NO_AWAIT = (
    "Top-level await does not work here: the user's cell that asked you (cellwright.ask) blocks the event loop "
    "until you are done. Run the coroutine in a thread of its own, with asyncio.run(...)."
)


class _Cell(Struct, frozen=True):
    """The code as IPython takes it: transformed, or with the error that transforming it met."""

    source: str
    transformed: str
    error: Any = None


@dataclass(eq=False, repr=False)
class CodeRun:
    """`run` is called once, by the thread that works off the jobs; `interrupt` by the agent's.

    `with_children`: see `diverted_output`. `wakeup_fd` gets a byte for each signal at once, even while the code sits
    in C, where no handler runs. `cell_id`: the code is this cell of the user's, and is run as if they had run it: it
    has a place in `In` and `Out`, and an execution count.
    """

    shell: InteractiveShell
    source: str
    output: CodeOutput
    with_children: bool = field(kw_only=True)
    wakeup_fd: int = field(kw_only=True)
    cell_id: str = field(default="", kw_only=True)
    interrupted: bool = field(default=False, init=False)
    _started: bool = field(default=False, init=False)
    _finished: bool = field(default=False, init=False)
    _in_code: bool = field(default=False, init=False)
    _interrupt_handled: bool = field(default=False, init=False)
    """The handler of the signal has run."""
    _sent_again: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _task: asyncio.Task[bool] | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def interrupt(self) -> bool:
        """Interrupt the code, from another thread. False when it had not begun; now it never will."""
        with self._lock:  # the code cannot end between the question and the signal
            if not self._started:
                self._finished = True
                return False
            if not self._finished:
                self.interrupted = True
                self._signal()
            return True

    def signal_again(self) -> bool:
        """Send the signal of an interrupt once more, from another thread; False when the code has heard it or is over.

        One that comes between the interpreter's last look and a system call wakes nobody: `time.sleep(300)` sleeps on.
        """
        with self._lock:
            if self._finished or self._interrupt_handled or not self._started:
                return False
            self._sent_again = True
            self._signal()
            return True

    def _signal(self) -> None:
        if self._thread is not threading.main_thread():
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        elif sys.platform == "win32":
            signal.raise_signal(signal.SIGINT)
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def run(self, jobs: CallerJobs) -> bool | Coroutine[Any, Any, bool]:
        """Run the code; whether it failed. A coroutine of that when the code awaits something."""
        cell = self._transformed()
        if not self.shell.should_run_async(
            cell.source, transformed_cell=cell.transformed, preprocessing_exc_tuple=cell.error
        ):
            return self._run(cell)
        if jobs.awaited:
            return self._run_awaited(cell)
        if _loop_is_running():
            raise ToolError(NO_AWAIT)
        return bool(self.shell.loop_runner(self._run_awaited(cell)))

    def _transformed(self) -> _Cell:
        try:
            return _Cell(self.source, self.shell.transform_cell(self.source))
        except Exception:  # noqa: BLE001  a transformer may raise anything; IPython shows it as the cell's error
            return _Cell(self.source, self.source, sys.exc_info())

    def _run(self, cell: _Cell) -> bool:
        with self._surroundings(cell) as may_run:
            if not may_run:
                return True
            try:
                self._in_code = True
                return _to_the_end(self._run_cell(cell))
            except KeyboardInterrupt:
                return True
            finally:
                self._in_code = False

    async def _run_awaited(self, cell: _Cell) -> bool:
        with self._surroundings(cell) as may_run:
            if not may_run:
                return True
            # a task of its own: cancelling it must not cancel the cell that waits for the agent
            self._task = asyncio.ensure_future(self._guarded(cell))
            while not self._task.done():
                try:
                    await asyncio.wait({self._task})
                except asyncio.CancelledError:
                    self.interrupted = True
                    self._task.cancel()
            return self._task.cancelled() or self._task.result()

    async def _guarded(self, cell: _Cell) -> bool:
        try:
            self._in_code = True
            return await self._run_cell(cell)
        except KeyboardInterrupt:  # would end the kernel's loop
            return True
        finally:
            self._in_code = False

    async def _run_cell(self, cell: _Cell) -> bool:
        """Do what `shell.run_cell` does, without its copy of the output into the user's history."""
        shell = self.shell
        figures = open_figures()
        result = None
        try:
            result = await shell.run_cell_async(
                cell.source,
                store_history=bool(self.cell_id),
                silent=False,
                transformed_cell=cell.transformed,
                preprocessing_exc_tuple=cell.error,
                cell_id=self.cell_id or None,
            )
        finally:
            drawn = drawn_figures(figures)
            shell.events.trigger("post_execute")  # here the inline backend displays figures
            shell.events.trigger("post_run_cell", result)
            if not self.cell_id:
                show_figures(drawn, self.output)
        return not result.success

    @contextlib.contextmanager
    def _surroundings(self, cell: _Cell) -> Iterator[bool]:
        """Everything that holds while the code runs; gives whether it may run at all."""
        shell = self.shell
        own_file = shell.compile.get_code_name(cell.source, cell.transformed, shell.execution_count)
        with self._own_interrupts(), _execution_state_kept(shell):
            with self._lock:
                self._thread = threading.current_thread()
                self._started = not self._finished
            try:
                with (
                    running_agent_code(),
                    diverted_output(shell, self.output, cell.transformed, own_file, with_children=self.with_children),
                ):
                    yield self._started and not self.interrupted
            finally:
                with self._lock:
                    self._finished = True

    @contextlib.contextmanager
    def _own_interrupts(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are the main thread's
            return
        previous = signal.signal(signal.SIGINT, self._on_sigint)
        previous_fd = signal.set_wakeup_fd(self.wakeup_fd, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous_fd)
            # a signal that is still on its way is handled in this call, by our handler
            signal.signal(signal.SIGINT, previous if previous is not None else signal.default_int_handler)

    def _on_sigint(self, *_: object) -> None:
        again, self._sent_again = self._sent_again, False
        if again and self._interrupt_handled:
            return  # it crossed the one that was heard
        self.interrupted = self._interrupt_handled = True
        if not self._in_code:
            return
        if self._task is None or (asyncio.current_task() if _loop_is_running() else None) is self._task:
            raise KeyboardInterrupt
        self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def _to_the_end(coroutine: Coroutine[Any, Any, bool]) -> bool:
    """Run a coroutine that never waits, without a loop: the code may want to run one itself."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return bool(end.value)
    coroutine.close()
    raise AssertionError("code without a top-level await waited for something")


@contextlib.contextmanager
def _execution_state_kept(shell: InteractiveShell) -> Iterator[None]:
    """The cell that is running now goes on afterwards, and its result is its own."""
    succeeded, result = shell.last_execution_succeeded, shell.last_execution_result
    filled_in = shell.displayhook.exec_result
    try:
        yield
    finally:
        shell.last_execution_succeeded, shell.last_execution_result = succeeded, result
        shell.displayhook.exec_result = filled_in


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
