"""One run of a conversation (where it shows itself, its state, what it has cost, its end), and the queue of its runs.

One run works, others wait in the order they were asked for; the last runs that ended are known, too. Runs of one
conversation share its session, and a session has one writer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.prompt import Steering, SteeringText
from cellwright.agent.thread import AgentTask, AgentThread, is_agent_code
from cellwright.conversation.runs.kinds import CellAction, RunRequest
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Answered, Asked, Emit, Event, RunEnd, SubagentEvent, TurnEnd, UserPrompt
from cellwright.sessions.session import Session

State = Literal["waiting", "running", "asking", "done", "failed", "interrupted"]

TITLE_CHARS = 80

_preparing: contextvars.ContextVar[bool] = contextvars.ContextVar("preparing", default=False)
"""True where a run is made ready, its turn having come."""


class EventBus:
    """Hands each event to every subscriber, in order. On the agent's thread; subscribers must not block.

    What a subscriber raises is raised when all have been told: one that fails leaves no gap in what the others show.
    """

    def __init__(self, subscribers: Iterable[Emit] = ()) -> None:
        self._subscribers = list(subscribers)

    def subscribe(self, subscriber: Emit) -> None:
        """Tell `subscriber`, after those who are there, of every event from now on."""
        self._subscribers.append(subscriber)

    def publish(self, event: Event) -> None:
        """Tell everyone of `event`."""
        failure: BaseException | None = None
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except BaseException as error:  # noqa: BLE001  raised below: how a run ends is the loop's to say
                failure = failure or error
        if failure is not None:
            raise failure


def unseen(_event: Event) -> None:
    """Ignore the event: nobody looks, or those who do observe the conversation."""


def ignore_run(_run: Run) -> None:
    """Ignore the run: nobody needs to know which one it is that shows itself."""


class RunSurface(Struct, frozen=True):
    """The place a run's events go to and whoever answers its questions; what it holds is called on the agent's thread.

    `can_use_tool` is asked what the policy does not decide; without one the answer is no. `ask_user` reaches a person,
    never a program: what a folder brings along is trusted only so; None where nobody can be asked. `belongs_to` is told
    the run before its first event, where it was asked for; what it subscribes to the run's bus is told of each event before
    `emit` and before those who look on.
    """

    emit: Emit = unseen
    can_use_tool: CanUseTool | None = None
    ask_user: CanUseTool | None = None
    belongs_to: Callable[[Run], object] = ignore_run


@dataclass(eq=False, repr=False)
class Run:
    """One run from the moment it is asked for: who waits for its end has it, and so do those who look on.

    `origin` says where it was asked for; `background`: no cell waits for it. `surface` is where it shows itself. `done`,
    `result`, `future` and `cancel` are as a task's, from any thread.
    """

    id: str
    title: str
    origin: str
    background: bool
    text: str = ""
    """The user's words, whole."""
    surface: RunSurface = field(default_factory=RunSurface)
    cell_action: CellAction | None = None
    """The action on a cell that its text is the title of."""
    asked_at: float = field(default_factory=time.time)
    """When, in seconds since the epoch."""
    steering: Steering = field(default_factory=Steering)
    bus: EventBus = field(init=False)
    """Of its events; it takes note of them itself, first."""
    task: AgentTask[RunEnd] | None = None
    cost_usd: float | None = 0.0
    """So far; None where a price is not known."""
    error: str = ""
    failure: BaseException | None = None
    """The exception that ended it, where it came to no end of its own."""
    interrupted_by_program: bool = False
    """The program that asked for it has ended it, and wants to know what there is."""
    last_event: RunEnd | None = None
    """Its end, when that was told."""
    request_sent: threading.Event = field(default_factory=threading.Event)
    """Set when its first request has left, or something else comes of it that is to be seen."""
    when_sent: Callable[[], None] | None = None
    """Called on the agent's thread when its first request has left, before that is said; it raises nothing."""
    is_stopped: bool = False
    """It was interrupted, maybe before its task began."""
    _asked_at_monotonic: float = field(default_factory=time.monotonic)
    _began: bool = False
    _ended: float | None = None
    _end: State = "done"
    _open_questions: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.bus = EventBus([self._note])

    @property
    def state(self) -> State:
        if self._ended is not None:
            return self._end
        if self._open_questions:
            return "asking"
        return "running" if self._began else "waiting"

    @property
    def future(self) -> Future[RunEnd]:
        """Its end, once it was begun."""
        assert self.task is not None, "the run was not begun"
        return self.task.future

    @property
    def done(self) -> bool:
        return self.future.done()

    def result(self) -> RunEnd:
        """Its end, or what kept it from one; call it when `done`."""
        return self.future.result(0)

    def cancel(self) -> None:
        """Interrupt it, or take it out of the line; what has begun still runs its clean-up. From any thread."""
        self.is_stopped = True
        if self.task is not None:
            self.task.cancel()

    def begin(self, task: AgentTask[RunEnd]) -> None:
        """It is `task` now. It may have been stopped while it was made ready."""
        self.task = task
        if self.is_stopped:
            task.cancel()

    @property
    def seconds(self) -> float:
        """The time since it was asked for, or the time it took in all."""
        return (time.monotonic() if self._ended is None else self._ended) - self._asked_at_monotonic

    def _note(self, event: Event) -> None:
        match event:
            case UserPrompt():
                self._began = True
            case SubagentEvent() if not isinstance(event.event, UserPrompt | RunEnd):
                self._note(event.event)
            case TurnEnd():
                both = self.cost_usd is not None and event.cost_usd is not None
                self.cost_usd = self.cost_usd + event.cost_usd if both else None  # type: ignore[operator]
            case Asked():
                self._open_questions.add(event.question_id)
                self.request_sent.set()
            case Answered():
                self._open_questions.discard(event.question_id)
            case RunEnd():
                self.last_event = event
                self.cost_usd = event.cost_usd
                if event.error is not None:
                    self._end = "interrupted" if event.stop_reason == "interrupted" else "failed"
                    self.error = f"{event.error['code']}: {event.error['message']}"
            case _:
                pass  # changes nothing that is told of it

    def sent(self) -> None:
        """A request of it has left."""
        if self.when_sent is not None and not self.request_sent.is_set():
            self.when_sent()
        self.request_sent.set()

    def end(self, future: Future[RunEnd]) -> None:
        """Its task is done."""
        self.request_sent.set()
        try:
            future.result()
        except BaseException as error:  # noqa: BLE001  also a bug of ours: who waits for the run raises it
            self.fail(error)
        else:
            self._ended = time.monotonic()

    def fail(self, error: BaseException) -> None:
        """It comes to no end of its own."""
        self.failure = error
        match error:
            case CancelledError() | KeyboardInterrupt():
                self._end = "interrupted"
            case CellwrightError():
                self._end, self.error = "failed", f"{error.code}: {error.message}"
            case _:
                self._end, self.error = "failed", repr(error)
        self._ended = time.monotonic()


class RunQueue:
    """The run that goes on, those that wait, those that are over. Runs start from any thread and work on `thread`."""

    def __init__(self, thread: AgentThread) -> None:
        self._thread = thread
        self._lock = threading.RLock()  # whoever holds runs off may ask which there are
        self._making_ready = threading.Lock()
        self._numbers: Iterator[int] = itertools.count(1)
        self._active: list[Run] = []
        self._finished: deque[Run] = deque(maxlen=10)  # they can still be asked about

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
            blocks = [block for block in prompt if isinstance(block, Mapping)] if not isinstance(prompt, str) else []
            text = prompt if isinstance(prompt, str) else "\n".join(str(block.get("text", "")) for block in blocks)
            title = next((line.strip() for line in text.splitlines() if line.strip()), "")
            if len(title) > TITLE_CHARS:
                title = f"{title[: TITLE_CHARS - 1]}…"
            number = next(self._numbers)
            run = Run(f"run-{number}", title, request.origin, request.background, text, surface, request.cell_action)
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
