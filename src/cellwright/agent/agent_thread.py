"""The agent's own thread, and the one door between it and synchronous code.

One daemon thread with one long-lived asyncio loop per process: connections stay warm between turns, and the agent goes on
streaming while user code holds the main thread. Code that must run on the caller's thread (the kernel's main thread) comes
back through `CallerJobs`, a FIFO that the caller works off while it waits.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")

TICK_SECONDS = 0.05
"""No wait is longer than this: a kernel's interrupt only reaches a waiter that wakes up."""

agent_code_running: contextvars.ContextVar[bool] = contextvars.ContextVar("agent_code_running", default=False)
"""True while code runs that the agent itself asked for; a run started from there would wait for itself."""


class AgentThread:
    """A daemon thread that runs one asyncio loop; started at first use."""

    def __init__(self, name: str = "cellwright-agent") -> None:
        self.name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; starts the thread when there is none."""
        with self._lock:
            if self._loop is None:
                ready = threading.Event()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop, ready), name=self.name, daemon=True)
                self._thread.start()
                ready.wait()
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(ready.set)
        loop.run_forever()

    def is_current(self) -> bool:
        """Whether the caller is on the agent thread."""
        return self._thread is threading.current_thread()

    def submit(self, work: Coroutine[Any, Any, T]) -> AgentTask[T]:
        """Start `work` as a task on the loop, in a copy of the caller's context: it prints into the caller's cell."""
        return AgentTask(self.loop, work, contextvars.copy_context())

    def stop(self) -> None:
        """End the loop and the thread; tasks that still run are cancelled first."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


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


class CallerJobs:
    """Work that must run on the thread that waits for the agent, one after another, in order.

    `awaited`: whether the thread's own loop goes on meanwhile, so that a job may be a coroutine.
    """

    def __init__(self) -> None:
        self.awaited = False
        self._wake: Callable[[], None] = _nothing
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], concurrent.futures.Future[Any]]] = queue.SimpleQueue()

    async def call(self, job: Callable[[], T | Awaitable[T]]) -> T:
        """From the agent's loop: run `job` on the waiting thread and give back what it returns or raises."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._jobs.put((job, done))
        self._wake()
        return await asyncio.wrap_future(done)

    def work_until_done(self, task: AgentTask[Any]) -> None:
        """Run jobs until `task` is done, blocking this thread; wakes every tick so that signals get through."""
        # an empty job, so that the end is not waited for until the next tick
        task.future.add_done_callback(lambda _: self._jobs.put((_nothing, concurrent.futures.Future())))
        while not task.done:
            try:
                job, done = self._jobs.get(timeout=TICK_SECONDS)
            except queue.Empty:
                continue
            if done.set_running_or_notify_cancel():
                _settle(done, job)

    async def work_until_done_async(self, task: AgentTask[Any]) -> None:
        """Run jobs until `task` is done, in an awaited cell: the loop of this thread goes on between them."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        self.awaited, self._wake = True, lambda: _set_from_anywhere(loop, news)
        task.future.add_done_callback(lambda _: _set_from_anywhere(loop, news))
        try:
            while not task.done:
                news.clear()
                try:
                    job, done = self._jobs.get_nowait()
                except queue.Empty:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), TICK_SECONDS)
                    continue
                if done.set_running_or_notify_cancel():
                    await _settle_async(done, job)
        finally:
            self.awaited, self._wake = False, _nothing


def _nothing() -> None:
    """A job that is none."""


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
