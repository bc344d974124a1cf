"""One run seen from the terminal: events to the view, questions to the user, signals to the run; all on the main thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.approval import Allow, Deny, ToolUse, keep_rules
from cellwright.agent.thread import AgentTask
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, RunEnd, Steered
from cellwright.terminal.exit_codes import OutputLost
from cellwright.terminal.interactive.keys import CTRL_O, ESCAPE, KeysAtWork
from cellwright.terminal.views.plain_view import View

if TYPE_CHECKING:
    from cellwright.terminal.question import Asker

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

T = TypeVar("T")


class _Question(Struct, frozen=True, eq=False):
    use: ToolUse
    answer: concurrent.futures.Future[Allow | Deny]


class TerminalRun(Struct, eq=False):
    """`view` shows the run; `asker` answers its questions (None: the policy alone does); `save_rules` keeps an "always".

    `keys` are pressed while it goes on, and what is written then is given to `steer`; `toggle_details` is Ctrl-O's.
    `signal_number` is the signal that interrupted the run, or 0.
    """

    make_view: Callable[[], View]
    asker: Callable[[], Asker] | None
    save_rules: Callable[[Sequence[str]], object]
    keys: KeysAtWork | None = None
    steer: Callable[[str], object] | None = None
    toggle_details: Callable[[], bool] = bool
    signal_number: int = 0
    _inbox: queue.SimpleQueue[Event | _Question | None] = field(default_factory=queue.SimpleQueue)
    _task: Run | AgentTask[Any] | None = None
    _asking: bool = False
    _end: RunEnd | None = None
    _undelivered: dict[str, str] = field(default_factory=dict)
    """The words that the user sent and Claude has not received, by their ids."""

    @property
    def surface(self) -> RunSurface:
        """The place the run is to show itself in, and ask."""
        answers = self._can_use_tool if self.asker is not None else None
        return RunSurface(self._inbox.put, answers, answers)

    def until_end(self, run: Run) -> RunEnd:
        """Stay until the run is over.

        Raises `BrokenPipeError` when the reader went away, `OutputLost` when there is no room.
        """
        self._follow(run)
        if self._end is not None:
            return self._end
        with contextlib.suppress(CancelledError):
            run.result()  # a bug of ours: with its traceback
        raise CellwrightError(ErrorCode.INTERRUPTED, "Interrupted before the run began.")

    def result_of(self, task: AgentTask[T]) -> T:
        """Stay until work that is no run is done; gives what it comes to."""
        self._follow(task)
        try:
            return task.result()
        except CancelledError:
            raise CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.") from None

    def _follow(self, task: Run | AgentTask[Any]) -> None:
        self._task = task
        task.future.add_done_callback(lambda _: self._inbox.put(None))
        view = self.make_view()  # after the start: the request is on its way while what draws is imported
        try:
            self._work(view, task)
        finally:
            if self.keys is not None:
                self.keys.pause()
                # what Claude did not receive is not lost: it is the next prompt's beginning
                self.keys.draft = "\n".join(filter(None, [*self._undelivered.values(), self.keys.draft]))
                self._undelivered.clear()
            view.close()

    def _work(self, view: View, task: Run | AgentTask[Any]) -> None:
        try:
            for item in self._items(view):
                if isinstance(item, _Question):
                    self._poll_keys(view)
                    if self.keys is not None:
                        self.keys.pause()
                    view.pause()
                    self._put_question(item, view)
                    continue
                if isinstance(item, Steered):
                    if item.state == "waiting":
                        self._undelivered[item.steer_id] = item.text
                    else:
                        self._undelivered.pop(item.steer_id, None)
                if isinstance(item, RunEnd):
                    self._end = item
                view.emit(item)
        except OSError as error:
            task.cancel()
            while self._inbox.get() is not None:
                pass
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputLost(f"The output could not be written ({error}). The run was stopped.") from error

    def _items(self, view: View) -> Iterator[Event | _Question]:
        while True:
            self._poll_keys(view)
            try:
                item = self._inbox.get(timeout=0.1)
            except queue.Empty:
                view.tick()
                continue
            if item is None:
                return
            yield item

    def _poll_keys(self, view: View) -> None:
        if self.keys is None:
            return
        self.keys.listen()
        for key in self.keys.poll():
            if key == ESCAPE:
                self._cancel()
            elif key == CTRL_O:
                view.show_details(self.toggle_details())
            elif self.steer is not None:
                try:
                    self.steer(key)
                except CellwrightError:  # a command, or the run has just ended: it is the next prompt's
                    self.keys.draft = key
        view.show_draft(self.keys.draft)

    async def _can_use_tool(self, use: ToolUse) -> Allow | Deny:
        answer: concurrent.futures.Future[Allow | Deny] = concurrent.futures.Future()
        self._inbox.put(_Question(use, answer))
        return await keep_rules(await asyncio.wrap_future(answer), self.save_rules)

    def _put_question(self, question: _Question, view: View) -> None:
        assert self.asker is not None
        if not question.answer.set_running_or_notify_cancel():
            return  # the run was interrupted meanwhile
        self._asking = True
        try:
            asker = replace(self.asker(), taken_away=view.card_taken_away)
            if self.keys is not None and self.keys.draft:
                asker.write("Claude has a question. Press Enter to see it: what you are writing stays.", "warning")
                self.keys.finish_writing()
            question.answer.set_result(asker.ask(question.use))
        except KeyboardInterrupt:
            self._cancel()
            question.answer.set_result(Deny("interrupted", by="terminal"))
        finally:
            self._asking = False

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Have Ctrl-C and its like cancel the run, which then comes to its end in good order; a second one leaves at once.

        Entered before the run is started.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # what is ignored stays so: `nohup` and the shell's `&` mean it
        listened_to = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._on_signal) for number in listened_to}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        again, self.signal_number = self.signal_number, number
        if self._asking or again or self._task is None:
            raise KeyboardInterrupt
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
