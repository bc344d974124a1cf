"""The agent's own thread, the one door between it and synchronous code, and the time limits of calls.

One daemon thread with one long-lived asyncio loop per process: connections stay warm between turns, and the agent
goes on streaming while user code holds the main thread. Code that must run on the caller's thread (the kernel's main
thread) comes back through `CallerJobs`, a FIFO that the caller works off while it waits.

A time limit of a call stands still while the call waits for the user's own cell to end.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.transports.library_logs import guard_logs

_limits: contextvars.ContextVar[tuple[CallTimeLimit, ...]] = contextvars.ContextVar("limits", default=())


class CallTimeLimit:
    """One limit in force, in seconds; None: there is none."""

    def __init__(self, timeout: asyncio.Timeout, seconds: float | None) -> None:
        self._timeout = timeout
        self._seconds = seconds

    @property
    def expired(self) -> bool:
        return self._timeout.expired()

    def stand_still(self) -> None:
        self._reschedule(None)

    def begin_again(self) -> None:
        if self._seconds is not None:
            self._reschedule(asyncio.get_running_loop().time() + self._seconds)

    def _reschedule(self, when: float | None) -> None:
        with contextlib.suppress(RuntimeError):  # it has expired, or what it limited is over
            self._timeout.reschedule(when)


@contextlib.asynccontextmanager
async def time_limit(seconds: float | None) -> AsyncIterator[CallTimeLimit]:
    """Raises `TimeoutError` when the block takes longer, not counting the time in which it stands still."""
    timeout = asyncio.timeout(seconds)
    limit = CallTimeLimit(timeout, seconds)
    token = _limits.set((*_limits.get(), limit))
    try:
        async with timeout:
            yield limit
    finally:
        _limits.reset(token)


def limits_here() -> tuple[CallTimeLimit, ...]:
    """The limits that hold for what calls."""
    return _limits.get()


T = TypeVar("T")

TICK_SECONDS = 0.05
"""No wait is longer than this: a kernel's interrupt only reaches a waiter that wakes up."""


agent_code_running: contextvars.ContextVar[bool] = contextvars.ContextVar("agent_code_running", default=False)
"""True while code runs that the agent itself asked for; a run started from there would wait for itself."""

_users_threads: list[set[threading.Thread]] = []
# of each code that runs now, the threads that were there before it: threads have no context of who started them


@contextlib.contextmanager
def running_agent_code() -> Iterator[None]:
    """For the time of the block this thread, and every thread that is started, does what the agent asked for."""
    before = set(threading.enumerate())
    _users_threads.append(before)
    token = agent_code_running.set(True)
    try:
        yield
    finally:
        agent_code_running.reset(token)
        _users_threads.remove(before)


def is_agent_code() -> bool:
    """Return whether the caller acts for the agent: its code, or a thread started while that runs."""
    here = threading.current_thread()
    return agent_code_running.get() or any(here not in threads for threads in _users_threads)


WAITING_NOTICE_SECONDS = 0.5
"""The time that work in the background may wait for the main thread before its call says so."""

WAITS = "Waiting for your cell to finish."

tell_waiting: contextvars.ContextVar[Callable[[str], None] | None] = contextvars.ContextVar(
    "tell_waiting", default=None
)
"""Says something in the card of the call that is running."""


class AgentThread:
    """A daemon thread that runs one asyncio loop; started at first use."""

    def __init__(self, name: str = "cellwright-agent") -> None:
        self.name = name
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; starts the thread when there is none. Raises `CellwrightError` in a forked process."""
        self.refuse_forked()
        with self._lock:
            if self._loop is None:
                guard_logs()
                ready = threading.Event()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop, ready), name=self.name, daemon=True)
                self._thread.start()
                ready.wait()
            return self._loop

    def refuse_forked(self) -> None:
        """Raises `CellwrightError` in a forked process: the thread did not come along, and who waited for it would hang."""
        if self._process != os.getpid():
            message = (
                "This conversation belongs to the process that this one was forked from, and cannot be used here. "
                "Call `cellwright.ask` or make a new `cellwright.Agent` in this process."
            )
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(ready.set)
        loop.run_forever()

    def is_current(self) -> bool:
        """Return whether the caller is on the agent thread."""
        return self._thread is threading.current_thread()

    def submit(self, work: Coroutine[Any, Any, T]) -> AgentTask[T]:
        """Start `work` as a task on the loop, in a copy of the caller's context: it prints into the caller's cell."""
        return AgentTask(self.loop, work, contextvars.copy_context())

    def call(self, function: Callable[[], T]) -> T:
        """Call `function` on the thread and give back what it returns or raises; from any thread."""
        if self.is_current():
            return function()

        async def called() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result()

    def stop(self) -> None:
        """End the loop and the thread; tasks that still run are cancelled first. Raises TimeoutError if one does not end.

        In a forked process it does nothing: the thread is the parent's.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        try:
            # the time that tasks may take to end when the thread is stopped
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(5.0)
        except TimeoutError:
            # what cannot be stopped ends with the process, and nobody can do anything about it
            loop.set_exception_handler(lambda _loop, _context: None)
            raise
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


async def _cancel_all() -> None:
    # what is cancelled may start tasks of its own to clean up
    while tasks := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


class AgentTask(Generic[T]):
    """A task on the agent's loop as other threads see it: `done`, `result`, `cancel`, all thread-safe.

    `stopping`: it was asked to stop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], context: contextvars.Context
    ) -> None:
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.stopping = False
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._start, work, context)

    def _start(self, work: Coroutine[Any, Any, T], context: contextvars.Context) -> None:
        self._task = self._loop.create_task(work, context=context)
        # registered on the loop: from another thread the wake-up is lost
        self._task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.cancel()
            self.future.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())

    def cancel(self) -> None:
        """Ask the task to stop; it still runs its clean-up, so `done` comes a little later."""
        self.stopping = True
        if not self.done:  # its loop may be gone by then
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def done(self) -> bool:
        return self.future.done()

    def result(self) -> T:
        """The task's result or its exception; call it when `done`."""
        return self.future.result(0)


class Awaited(Protocol):
    """Work on the agent's thread that another thread waits for: a task, or a run."""

    @property
    def future(self) -> concurrent.futures.Future[Any]: ...

    @property
    def done(self) -> bool: ...


class JobOwner(Protocol):
    """A run, as its jobs see it. `background`: no thread waits for its end."""

    @property
    def background(self) -> bool: ...


Offer = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Has the main thread run what it is given when it is idle; called on the agent's loop."""


class _Job:
    def __init__(self, do: Callable[[], Any], done: concurrent.futures.Future[Any]) -> None:
        self.do = do
        self.done = done


class _Worker:
    def __init__(self, awaited: Awaited, thread: threading.Thread, wake: Callable[[], None]) -> None:
        self.awaited = awaited
        self.thread = thread
        self.wake = wake


class CallerJobs:
    """Work that must run on the thread that waits for the agent, one after another, in order.

    While they are `owned_by` a run, the thread that waits for its end works them off. In the background nobody waits, so the
    main thread does: in a cell that waits for something else of the agent, or when `offer` (called for each such job, with
    `work_off`) has brought it to that. Without an owner any waiting thread does.
    `awaited`: whether the loop of the thread that works goes on meanwhile, so that a job may be a coroutine.
    """

    def __init__(self, offer: Offer | None = None) -> None:
        self.awaited = False
        self._owners: list[JobOwner] = []
        self._offer = offer
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._workers: list[_Worker] = []

    @contextlib.contextmanager
    def owned_by(self, owner: JobOwner) -> Iterator[None]:
        """The jobs are `owner`'s while the block lasts, and then again those of whoever had them before and still has."""
        self._owners.append(owner)
        try:
            yield
        finally:
            self._owners.remove(owner)

    @property
    def _owner(self) -> JobOwner | None:
        return self._owners[-1] if self._owners else None

    @property
    def in_background(self) -> bool:
        """True when the run whose jobs these are goes on with nobody waiting for it."""
        return self._owner is not None and self._owner.background

    async def call(self, job: Callable[[], T | Awaitable[T]]) -> T:
        """From the agent's loop: run `job` on the thread that it belongs to and give back what it returns or raises."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        limits = limits_here() if self.in_background else ()
        with self._lock:
            self._jobs.append(_Job(_ending_the_wait(job, limits) if limits else job, done))
            workers = list(self._workers)
        for worker in workers:
            worker.wake()
        reminder = None
        for limit in limits:
            limit.stand_still()
        if self.in_background:
            if self._offer is not None:
                self._offer(self.work_off)
            if (tell := tell_waiting.get()) is not None:
                reminder = asyncio.get_running_loop().call_later(WAITING_NOTICE_SECONDS, _report_if_waiting, done, tell)
        try:
            return await asyncio.wrap_future(done)
        finally:
            if reminder is not None:
                reminder.cancel()

    def work_until_done(self, task: Awaited) -> None:
        """Run jobs until `task` is done, blocking this thread; wakes every tick so that signals get through."""
        news = threading.Event()
        # the end is not waited for until the next tick
        task.future.add_done_callback(lambda _: news.set())
        with self._working(task, news.set):
            while not task.done:
                news.clear()
                if (job := self._take(awaited=False)) is None:
                    news.wait(TICK_SECONDS)
                elif job.done.set_running_or_notify_cancel():
                    _settle(job.done, job.do)

    async def work_until_done_async(self, task: Awaited) -> None:
        """Run jobs until `task` is done, in an awaited cell: the loop of this thread goes on between them."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        task.future.add_done_callback(lambda _: _set_from_anywhere(loop, news))
        with self._working(task, lambda: _set_from_anywhere(loop, news)):
            while not task.done:
                news.clear()
                if (job := self._take(awaited=True)) is None:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), TICK_SECONDS)
                elif job.done.set_running_or_notify_cancel():
                    await _settle_async(job.done, job.do)

    async def work_off(self) -> None:
        """Run the jobs that are this thread's now; its loop goes on between them."""
        while (job := self._take(awaited=True)) is not None:
            if job.done.set_running_or_notify_cancel():
                await _settle_async(job.done, job.do)

    @contextlib.contextmanager
    def _working(self, task: Awaited, wake: Callable[[], None]) -> Iterator[None]:
        worker = _Worker(task, threading.current_thread(), wake)
        with self._lock:
            self._workers.append(worker)
        try:
            yield
        finally:
            with self._lock:
                self._workers.remove(worker)

    def _take(self, *, awaited: bool) -> _Job | None:
        with self._lock:
            if not self._jobs or not self._is_this_threads():
                return None
            self.awaited = awaited
            return self._jobs.popleft()

    def _is_this_threads(self) -> bool:
        if self._owner is None:
            return True
        owner: object = self._owner
        here = threading.current_thread()
        for worker in self._workers:
            if worker.awaited is owner:
                # another one on the same thread has it all to itself: the first cannot go on before it ends
                return worker.thread is here
        return self._owner.background and here is threading.main_thread()


def _ending_the_wait(job: Callable[[], T], limits: tuple[CallTimeLimit, ...]) -> Callable[[], T]:
    loop = asyncio.get_running_loop()

    def begin() -> T:
        for limit in limits:
            loop.call_soon_threadsafe(limit.begin_again)
        return job()

    return begin


def _report_if_waiting(done: concurrent.futures.Future[Any], tell: Callable[[str], None]) -> None:
    if not (done.running() or done.done()):
        tell(WAITS)


def _set_from_anywhere(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop ended with what waited in it
        loop.call_soon_threadsafe(event.set)


def _settle(done: concurrent.futures.Future[Any], job: Callable[[], Any]) -> None:
    try:
        done.set_result(job())
    except KeyboardInterrupt:
        # raised again in the agent's task, it would end the agent's loop
        done.set_exception(concurrent.futures.CancelledError())
    except BaseException as error:  # noqa: BLE001  crosses threads: raised again where it was asked for
        done.set_exception(error)


async def _settle_async(done: concurrent.futures.Future[Any], job: Callable[[], Any]) -> None:
    try:
        value = job()
        done.set_result(await value if asyncio.iscoroutine(value) else value)
    except KeyboardInterrupt:
        done.set_exception(concurrent.futures.CancelledError())
    except BaseException as error:  # noqa: BLE001  crosses threads: raised again where it was asked for
        done.set_exception(error)
