"""The runs of a conversation: one goes on, the others wait in the order they were asked for; the last that ended are known.

Runs of one conversation share its session, and a session has one writer.
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
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any, Literal

from cellwright.agent.steering import Steering, SteeringText
from cellwright.agent.thread import AgentTask, AgentThread, CallerJobs, is_agent_code
from cellwright.conversation.runs.event_bus import EventBus
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Answered, Asked, Event, EventLog, Notice, RunEnd, TurnEnd, UserPrompt

KEPT = 10
"""How many runs that are over can still be asked about."""

TITLE_CHARS = 80

RECHECK_SECONDS = 0.01

_preparing: contextvars.ContextVar[bool] = contextvars.ContextVar("preparing", default=False)
"""True where a run is made ready, its turn having come."""

Work = Callable[[], Coroutine[Any, Any, RunEnd]]
"""A run that is ready to go."""

State = Literal["waiting", "running", "asking", "done", "failed", "interrupted"]


@dataclass(eq=False)
class ConversationRun:
    """One run, as `/tasks` tells of it. `place` says where it was asked for; `background`: no cell waits for it."""

    id: str
    title: str
    place: str
    background: bool
    text: str = ""
    """The user's words, whole."""
    asked: float = field(default_factory=time.time)
    """When, in seconds since the epoch."""
    steering: Steering = field(default_factory=Steering)
    bus: EventBus = field(init=False)
    """Of its events; it takes note of them itself, first."""
    task: AgentTask[RunEnd] | None = None
    cost_usd: float | None = 0.0
    """So far; None where a price is not known."""
    error: str = ""
    failure: BaseException | None = None
    """What ended it, where it came to no end of its own."""
    _asked: float = field(default_factory=time.monotonic)
    _began: bool = False
    _ended: float | None = None
    _end: State = "done"
    _is_stopped: bool = False
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

    def stop(self) -> None:
        """Interrupt it, or take it out of the line; from any thread."""
        self._is_stopped = True
        if self.task is not None:
            self.task.cancel()

    def begin(self, task: AgentTask[RunEnd]) -> None:
        """It is `task` now. It may have been stopped while it was made ready."""
        self.task = task
        if self._is_stopped:
            task.cancel()

    @property
    def seconds(self) -> float:
        """How long ago it was asked for, or how long it took in all."""
        return (time.monotonic() if self._ended is None else self._ended) - self._asked

    def _note(self, event: Event) -> None:
        match event:
            case UserPrompt():
                self._began = True
            case TurnEnd():
                both = self.cost_usd is not None and event.cost_usd is not None
                self.cost_usd = self.cost_usd + event.cost_usd if both else None  # type: ignore[operator]
            case Asked():
                self._open_questions.add(event.question_id)
            case Answered():
                self._open_questions.discard(event.question_id)
            case RunEnd():
                self.cost_usd = event.cost_usd
                if event.error is not None:
                    self._end = "interrupted" if event.stop_reason == "interrupted" else "failed"
                    self.error = f"{event.error['code']}: {event.error['message']}"
            case _:
                pass  # changes nothing that is told of it

    def end(self, future: Future[RunEnd]) -> None:
        """Its task is done."""
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
    """Which run goes on, which wait, which are over. Runs are started from any thread and work on `thread`."""

    def __init__(self, thread: AgentThread, jobs: CallerJobs) -> None:
        self._thread = thread
        self._jobs = jobs
        self._lock = threading.RLock()  # whoever holds runs off may ask which there are
        self._making_ready = threading.Lock()
        self._numbers: Iterator[int] = itertools.count(1)
        self._there: list[ConversationRun] = []
        self._over: deque[ConversationRun] = deque(maxlen=KEPT)

    @property
    def there(self) -> list[ConversationRun]:
        """The run that goes on, then those that wait, in order."""
        with self._lock:
            return [run for run in self._there if run.task is None or not run.task.done]

    @property
    def over(self) -> list[ConversationRun]:
        """The last runs that ended, oldest first."""
        with self._lock:
            return list(self._over)

    @property
    def current(self) -> ConversationRun | None:
        return next(iter(self.there), None)

    def add(self, prompt: object, place: str, *, background: bool) -> ConversationRun:
        """A run at the end of the line; `start` has to follow."""
        with self._lock:
            text = prompt if isinstance(prompt, str) else _text_of(prompt)
            run = ConversationRun(f"run-{next(self._numbers)}", _title(text), place, background, text)
            self._there.append(run)
            return run

    def start(self, run: ConversationRun, prepare: Callable[[], Work]) -> AgentTask[RunEnd]:
        """Start `run`, or have it wait for its turn: then `prepare` makes its work.

        Where nothing is before it `prepare` is called here, so that what is wrong is raised where the run was asked for;
        never on the agent's thread, which it would hold up.
        """
        try:
            first = self.current
            here = first is run and not self._thread.is_current()
            work = self._served(run, self._prepared(prepare)) if here else self._in_its_turn(run, first, prepare)
            task = self._thread.submit(work)
        except BaseException as error:
            run.fail(error)
            self._leave(run)
            raise
        run.begin(task)
        task.future.add_done_callback(lambda future: self._end(run, future))
        return task

    @contextlib.contextmanager
    def held_off(self) -> Iterator[None]:
        """No run goes on or waits, and none is taken in while the block lasts. Raises as `refuse_while_running`."""
        with self._lock:
            self.refuse_while_running()
            yield

    def refuse_while_running(self) -> None:
        """Raises `CellwrightError` while a run goes on or waits; what belongs to the beginning of a run may go on."""
        if self.current is not None and not _preparing.get():
            message = "Claude is still at work in this conversation. Wait for the answer, or interrupt it first."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message, recoverable=True)

    def of(self, task: AgentTask[RunEnd]) -> ConversationRun | None:
        """The run that `task` is; None for one that was over long ago."""
        with self._lock:
            return next((run for run in (*self._there, *self._over) if run.task is task), None)

    def end_all(self, seconds: float) -> None:
        """Interrupt the run that goes on and those that wait, and give them `seconds` to come to their end."""
        tasks = [run.task for run in self.there if run.task is not None]
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

    def steer(self, words: SteeringText, run_id: str | None = None) -> None:
        """Tell the run that goes on something, or the run of this id; from any thread.

        Raises `CellwrightError` where none takes it: what is said to one run is not for the next.
        """
        if is_agent_code():
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, "Code that Claude runs cannot speak for the user.")
        run = next((run for run in self.there if run_id in (None, run.id)), None)
        if run is None:
            message = "No run goes on that could be told anything. Ask with a prompt instead."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message, recoverable=True)
        self._thread.call(functools.partial(run.steering.add, words))

    def withdraw(self, words_id: str) -> bool:
        """Take back what `steer` was given; False when Claude has it already. From any thread."""
        return any(self._thread.call(functools.partial(run.steering.withdraw, words_id)) for run in self.there)

    async def _in_its_turn(
        self, run: ConversationRun, first: ConversationRun | None, prepare: Callable[[], Work]
    ) -> RunEnd:
        """`run`, when those before it have ended."""
        log = EventLog(run.bus.publish, 0)  # numbers are the session's, and that has another run
        if first is not None and first is not run:
            log.emit(Notice(f"Claude is still at work on “{first.title}” ({first.id}). This waits for its turn."))
        try:
            await self._turn_of(run)
            work = await asyncio.to_thread(self._prepared, prepare)  # a key helper may take its time
        except asyncio.CancelledError:
            log.emit(Notice("Interrupted while it waited for its turn. Nothing was sent.", "warning"))
            raise
        return await self._served(run, work)

    async def _turn_of(self, run: ConversationRun) -> None:
        while (first := self.current) is not run:
            assert first is not None  # this one is there
            if first.task is None:
                await asyncio.sleep(RECHECK_SECONDS)  # it is being made ready on its caller's thread
            else:
                await asyncio.wait({asyncio.wrap_future(first.task.future)})

    async def _served(self, run: ConversationRun, work: Work) -> RunEnd:
        """Do `work`; what its tools have for other threads is done for this run meanwhile."""
        self._jobs.owner = run
        try:
            return await work()
        finally:
            self._jobs.owner = None

    def _prepared(self, prepare: Callable[[], Work]) -> Work:
        # one that was stopped meanwhile goes on to its end on its thread: the next waits for that
        with self._making_ready:
            token = _preparing.set(True)
            try:
                return prepare()
            finally:
                _preparing.reset(token)

    def _end(self, run: ConversationRun, future: Future[RunEnd]) -> None:
        run.end(future)
        self._leave(run)

    def _leave(self, run: ConversationRun) -> None:
        with self._lock:
            self._there.remove(run)
            self._over.append(run)


def _title(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1]}…"


def _text_of(blocks: Any) -> str:
    if not isinstance(blocks, Sequence):
        return ""
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))
