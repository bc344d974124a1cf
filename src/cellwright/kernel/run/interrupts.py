"""The kernel's interrupt as the end of one run, and widget clicks on ipykernel 6 while a cell is awaited.

The interrupt is noticed on the agent's thread at once. Python calls a signal handler only when the main thread comes
back to it; the wakeup descriptor is written the moment the signal arrives. So the run is cancelled although the main
thread may sit in `select`, in `input()` or in C.

ipykernel 6 has one queue for all requests and takes the next one when the cell has ended, widget clicks included. So
the cell takes them out of the queue itself. ipykernel 7 needs none of this: it has no such queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from cellwright.agent.thread import TICK_SECONDS
from cellwright.errors import log_fault

SECONDS_FOR_CLEAN_UP = 1.0
"""An interrupt that comes sooner after the first is the same one: what is being cleaned up must not be cut off."""

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""A file, a keyring or a list of pages answers within milliseconds; a person does not notice the rest."""


def interrupt_main_thread() -> None:
    """Do what the kernel's interrupt does, from any thread."""
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGINT)
    else:
        # to the thread itself: a process-wide signal may go to another one, and a blocking call would not return
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """While this waits for a person, a SIGINT ends the wait: raised as `KeyboardInterrupt`, on the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)


class EndableWait:
    """A wait for a person on the main thread, which another thread may end: the person has answered elsewhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = False
        self._ended = False

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """While this waits for a person, on the thread that does. Raises `KeyboardInterrupt` when it is ended."""
        with interruptible():
            try:
                with self._lock:
                    if self._ended:
                        raise KeyboardInterrupt
                    self._waiting = threading.current_thread() is threading.main_thread()
                yield
            finally:
                # a signal is sent under this lock: what was sent is raised here at the latest, and not in what comes after
                with self._lock:
                    self._waiting = False

    @property
    def ended(self) -> bool:
        """True once `end` was called: a `KeyboardInterrupt` of the wait is no interrupt of the user's."""
        return self._ended

    def end(self) -> None:
        """End the wait, or keep it from beginning; from any thread but the one that waits."""
        with self._lock:
            self._ended = True
            if self._waiting:
                for interrupts in _entered[-1:]:
                    interrupts.ignore_next()
                interrupt_main_thread()


class Interrupts:
    """While entered, a SIGINT calls `on_interrupt` on `loop` and raises nothing; one from before `watch`, at that call.

    Code that runs as a job on the main thread installs a handler of its own for that time. Entered on another thread it
    does nothing: signals belong to the main thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_interrupt: Callable[[], object],
        seconds_for_clean_up: float = SECONDS_FOR_CLEAN_UP,
    ) -> None:
        self._seconds_for_clean_up = seconds_for_clean_up
        self._loop = loop
        self._on_interrupt = on_interrupt
        self._last = float("-inf")
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None
        self._before: tuple[Any, int] = (None, -1)
        self._to_ignore = 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._reader, self._writer = socket.socketpair()
            self._reader.setblocking(False)
            self._writer.setblocking(False)
            # the watch has it from the descriptor
            handler = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
            self._before = (handler, signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False))
            _entered.append(self)
        return self

    def watch(self) -> None:
        """Begin to listen, on the loop's thread: to be called when that is at work anyway, for it takes the interpreter."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            asyncio.run_coroutine_threadsafe(self._watch(reader), self._loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writer is None:
            return
        _entered.remove(self)
        handler, descriptor = self._before
        signal.set_wakeup_fd(descriptor)
        signal.signal(signal.SIGINT, handler if handler is not None else signal.default_int_handler)
        self._writer.close()
        if self._reader is not None:
            self._reader.close()

    async def _watch(self, reader: socket.socket) -> None:
        with reader:
            while data := await self._loop.sock_recv(reader, 64):
                ignored = min(self._to_ignore, data.count(signal.SIGINT))
                self._to_ignore -= ignored
                if data.count(signal.SIGINT) > ignored:
                    now = time.monotonic()
                    if now - self._last >= self._seconds_for_clean_up:
                        self._last = now
                        self._on_interrupt()

    def ignore_next(self) -> None:
        """The next SIGINT is no interrupt of the user's."""
        self._to_ignore += 1


_entered: list[Interrupts] = []
# those of the main thread, the innermost last
_COMM_TYPES = frozenset({"comm_open", "comm_msg", "comm_close"})
_DELIMITER = b"<IDS|MSG>"


def needs_pump(kernel: Any) -> bool:
    return hasattr(kernel, "msg_queue")


async def pump(kernel: Any) -> None:
    """Dispatch the comm messages that arrive, until cancelled; other requests keep their order and wait."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        for dispatch, args in _take_comm_messages(kernel):
            ident, parent = kernel._parent_ident["shell"], kernel.get_parent("shell")
            handler = kernel.saved_sigint_handler
            try:
                await dispatch(*args)
            finally:
                # dispatching made the message the parent of all output, and took our handler for the kernel's own
                kernel.set_parent(ident, parent, channel="shell")
                kernel.saved_sigint_handler = handler


def _take_comm_messages(kernel: Any) -> list[tuple[Any, Any]]:
    queue = kernel.msg_queue
    waiting = [queue.get_nowait() for _ in range(queue.qsize())]
    taken = []
    for item in waiting:
        _, dispatch, args = item
        if _message_type(args) in _COMM_TYPES:
            taken.append((dispatch, args))
        else:
            queue.put_nowait(item)
    return taken


def _message_type(args: Any) -> str:
    """The type in a request's header; read without the session, which takes a message only once."""
    frames = [bytes(getattr(frame, "buffer", frame)) for frame in (args[0] if args else ())]
    if _DELIMITER not in frames:
        return ""
    # after the delimiter: signature, header, parent header, metadata, content
    header = frames[frames.index(_DELIMITER) + 2]
    return str(json.loads(header).get("msg_type", ""))


def wait_for_person(ask: Callable[[], str], is_over: Callable[[], bool]) -> str | None:
    """The text that `ask` returns, typed by a person; None if `is_over` first. Raises `KeyboardInterrupt` and `EOFError`.

    `is_over` is called again and again, on a thread of its own.
    """
    wait, answered = EndableWait(), threading.Event()

    def look() -> None:
        while not answered.wait(LOOK_SECONDS):
            try:
                if is_over():
                    wait.end()
                    return
            except Exception:  # noqa: BLE001  what is looked at may be broken just now: the person still has the field
                log_fault(logger, "it could not be found out whether a question is over")

    threading.Thread(target=look, name="cellwright-person-wait", daemon=True).start()
    try:
        with wait.entered():
            return ask()
    except KeyboardInterrupt:
        if wait.ended:
            return None
        raise
    finally:
        answered.set()
