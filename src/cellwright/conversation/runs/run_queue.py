"""The runs of a conversation: one goes on, others wait in the order they were asked for.

The last runs that ended are known, too. Runs of one conversation share its session, and a session has one writer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import itertools
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from cellwright.agent.prompt import SteeringText
from cellwright.agent.thread import AgentThread, is_agent_code
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import RunEnd
from cellwright.sessions.session import Session

MAX_FINISHED = 10
"""The number of runs that are over and can still be asked about."""

TITLE_CHARS = 80

_preparing: contextvars.ContextVar[bool] = contextvars.ContextVar("preparing", default=False)
"""True where a run is made ready, its turn having come."""


class RunQueue:
    """The run that goes on, those that wait, those that are over. Runs start from any thread and work on `thread`."""

    def __init__(self, thread: AgentThread) -> None:
        self._thread = thread
        self._lock = threading.RLock()  # whoever holds runs off may ask which there are
        self._making_ready = threading.Lock()
        self._numbers: Iterator[int] = itertools.count(1)
        self._active: list[Run] = []
        self._finished: deque[Run] = deque(maxlen=MAX_FINISHED)

    @property
    def active(self) -> list[Run]:
        """The run that goes on, then those that wait, in order."""
        with self._lock:
            return [run for run in self._active if run.task is None or not run.task.done]

    @property
    def finished(self) -> list[Run]:
        """The last runs that ended, oldest first."""
        with self._lock:
            return list(self._finished)

    @property
    def current(self) -> Run | None:
        return next(iter(self.active), None)

    def add(self, request: RunRequest, surface: RunSurface) -> Run:
        """A run at the end of the line; it has to begin, or to be dropped."""
        with self._lock:
            prompt = request.prompt
            text = prompt if isinstance(prompt, str) else _text_of(prompt)
            number = next(self._numbers)
            run = Run(
                f"run-{number}", _title(text), request.origin, request.background, text, surface, request.cell_action
            )
            self._active.append(run)
            return run

    def ended(self, run: Run, future: Future[RunEnd]) -> None:
        """`run` is over, and the next may go on."""
        run.end(future)
        self._leave(run)

    def drop(self, run: Run, error: BaseException) -> None:
        """`run` could not begin."""
        run.fail(error)
        self._leave(run)

    def can_prepare_here(self, run: Run) -> bool:
        """Return whether the caller can make `run` ready: its turn has come, and the agent's thread is not held up."""
        return self.current is run and not self._thread.is_current()

    async def turn_of(self, run: Run) -> None:
        """Wait until the runs before `run` have ended."""
        while (first := self.current) is not run:
            assert first is not None  # this one is there
            if first.task is None:
                await asyncio.sleep(0.01)  # it is being made ready on its caller's thread
            else:
                await asyncio.wait({asyncio.wrap_future(first.future)})

    @contextlib.contextmanager
    def making_ready(self) -> Iterator[None]:
        """One run at a time is made ready; in the block the session may be exchanged, since that belongs to it."""
        # one that was stopped meanwhile goes on to its end on its thread: the next waits for that
        with self._making_ready:
            token = _preparing.set(True)
            try:
                yield
            finally:
                _preparing.reset(token)

    @contextlib.contextmanager
    def held_off(self) -> Iterator[None]:
        """No run goes on or waits, and none is taken in while the block lasts. Raises as `refuse_while_running`."""
        with self._lock:
            self.refuse_while_running()
            yield

    def refuse_while_running(self) -> None:
        """Raises `CellwrightError` while a run goes on or waits; what belongs to the beginning of a run may go on."""
        if self.current is not None and not _preparing.get():
            message = "Claude is still working in this conversation. Wait for the answer, or interrupt it first."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message, recoverable=True)

    def end_all(self, seconds: float) -> None:
        """Interrupt the run that goes on and those that wait, and give them `seconds` to come to their end."""
        tasks = [run.task for run in self.active if run.task is not None]
        for task in tasks:
            task.cancel()
        if not self._thread.is_current():
            concurrent.futures.wait([task.future for task in tasks], seconds)

    async def until_stopping_ended(self, rounds: int) -> None:
        """After `rounds` of the caller's loop, wait for the end of the run if it was asked to stop."""
        for _ in range(rounds):
            await asyncio.sleep(0)
        if (run := self.current) is not None and run.task is not None and run.task.stopping:
            await asyncio.wait([asyncio.wrap_future(run.task.future)])

    def interrupt(self) -> bool:
        """Interrupt the run that goes on, as its program wants; False where none does. From any thread.

        Raises `CellwrightError` where code that Claude runs asks for it.
        """
        refuse_agent_code("interrupt itself")
        run = self.current
        if run is None:
            return False
        run.interrupted_by_program = True
        run.cancel()
        return True

    def choose_model(self, model: str) -> None:
        """Have the run that goes on, if one does, turn to `model` with its next request. From any thread."""
        if (run := self.current) is not None:
            self._thread.call(functools.partial(setattr, run.steering, "model", model))

    def steer(self, words: SteeringText, run_id: str | None = None) -> None:
        """Tell the run that goes on something, or the run of this id; from any thread.

        Raises `CellwrightError` where none takes it: what is said to one run is not for the next.
        """
        refuse_agent_code("speak for the user")
        run = next((run for run in self.active if run_id in (None, run.id)), None)
        if run is None:
            message = "Claude is not working. Send a prompt instead."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message, recoverable=True)
        self._thread.call(functools.partial(run.steering.add, words))

    def withdraw(self, text_id: str) -> bool:
        """Take back what `steer` was given; False when Claude has it already. From any thread."""
        return any(self._thread.call(functools.partial(run.steering.withdraw, text_id)) for run in self.active)

    def _leave(self, run: Run) -> None:
        with self._lock:
            self._active.remove(run)
            self._finished.append(run)


def refuse_agent_code(what: str) -> None:
    """Raises `CellwrightError` PERMISSION_DENIED where the caller is code that Claude runs: it cannot do `what`."""
    if is_agent_code():
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, f"Code that Claude runs cannot {what}.")


def _title(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1]}…"


def _text_of(blocks: Any) -> str:
    if not isinstance(blocks, Sequence):
        return ""
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))


def leave_other_modes(session: Session, runs: RunQueue, mode: str) -> None:
    """Have the mode the user chose now go before what the session came to, and before what a run was begun in."""
    run = runs.current
    if run is None or run.task is None:
        session.mode = None
        return

    def run_ended(_future: object) -> None:
        if session.mode == mode:  # now the settings say so
            session.mode = None

    session.mode = mode
    run.task.future.add_done_callback(run_ended)
