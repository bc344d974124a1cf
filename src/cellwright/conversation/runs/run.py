"""One run of a conversation: where it shows itself, its state, what it has cost, its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.prompt import Steering
from cellwright.agent.thread import AgentTask
from cellwright.conversation.runs.kinds import CellAction
from cellwright.errors import CellwrightError
from cellwright.events import Answered, Asked, Emit, Event, RunEnd, SubagentEvent, TurnEnd, UserPrompt

State = Literal["waiting", "running", "asking", "done", "failed", "interrupted"]


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
