"""The snapshot: the fork of the kernel, by a thread that never ran the user's code, and the kernel's end of the new process.

The main thread stands still for the fork. Both are conditions. A fork beside a cell that uses BLAS freezes the *kernel* for
good: OpenBLAS's handler joins its workers while the other thread waits for them, and holds the interpreter's lock. And
libgomp keeps its threads per thread that calls it: forked by a thread that used them, KMeans and xgboost hang in the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import queue
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from cellwright.kernel.branches.memory import PagesSince, forks, private_memory
from cellwright.kernel.branches.messages import Ready, receive, send
from cellwright.this_process.late_imports import importing

FORK_SECONDS = 10.0
"""A fork takes no longer, with a hundred gigabytes either; one that does waits for good, in a handler of a library's for
forks. The main thread goes on then: nothing that may follow is worse than a kernel that hears no interrupt."""

_LOOKS, _BETWEEN_LOOKS = 8, 0.003
"""Other threads are looked at so often while the main thread stands still; under noise five were enough."""


class NoBranch(Exception):
    """There is no snapshot, or no branch of it; `reason` is a sentence for Claude and for the user.

    `by_value`: only the kernel cannot be copied; variables can be given to another process.
    """

    def __init__(self, reason: str, *, by_value: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.by_value = by_value


class Taken(msgspec.Struct, frozen=True):
    """The moment that a snapshot is of. `at`: unix time. `cell`: "before cell [7]", as the user numbers cells, or "".

    `by_value`: the kernel was not copied, for the reason that this sentence says; its variables are given by value.
    """

    at: float
    cell: str
    by_value: str = ""


class Snapshot:
    """A process that waits. `end` is for any thread.

    `parked_seconds`: the main thread stood still for so long. `steps`: the seconds that each reset took. `pages`
    tell what was written in the kernel since it was forked.
    """

    def __init__(
        self, pid: int, control: socket.socket, taken: Taken, parked_seconds: float, pages: PagesSince | None = None
    ) -> None:
        self.pages = pages
        self.pid = pid
        self.taken = taken
        self.parked_seconds = parked_seconds
        self.steps: dict[str, float] = {}
        self._control = control
        self._asking = threading.Lock()

    def handshake(self, seconds: float) -> str | None:
        """Wait until it is ready; gives what kept it from that, or None. Raises TimeoutError, and OSError if it is gone."""
        self._control.settimeout(seconds)
        if (message := receive(self._control)) is None:
            ended = "the snapshot ended"
            raise ConnectionError(ended)
        ready = msgspec.convert(message[0], Ready)
        self.steps = ready.steps
        return ready.problem or None

    async def ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Ask it and wait for the answer. Raises `NoBranch` if it is gone, or says that it cannot."""
        try:
            answer = await asyncio.to_thread(self._ask, request, descriptors)
        except (OSError, ValueError) as error:
            self.end()
            message = f"The snapshot of the kernel is gone ({error})."
            raise NoBranch(message) from error
        if problem := answer.get("problem"):
            message = f"The snapshot of the kernel could not do it: {problem}."
            raise NoBranch(message)
        return answer

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        with self._asking:
            # a fork of millions of objects on a busy machine is far below
            self._control.settimeout(10.0)
            send(self._control, request, descriptors)
            if (message := receive(self._control)) is None:
                ended = "it ended"
                raise ConnectionError(ended)
            answer: dict[str, Any] = message[0]
            return answer

    def is_alive(self) -> bool:
        """Return whether the process is there; one that is not is reaped."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == 0
        except ChildProcessError:  # reaped before
            return False

    def memory(self) -> int:
        """Bytes that it has to itself."""
        return private_memory(self.pid)

    def end(self) -> None:
        """Kill it, and with it every branch of it."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        end_child(self.pid)


def end_child(pid: int) -> None:
    """Kill and reap a child of this process; one that was reaped before is left alone."""
    try:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 1
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(0.001)
    except (ChildProcessError, ProcessLookupError):
        return


class Attempt:
    """One try to fork. `park` is for the main thread, `fork` for the forker; whoever is late finds that it is over.

    `before` is called right before the fork, while all stands still.
    """

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self._before = before
        self.parked_seconds = 0.0
        self.forks = -1
        self.has_begun = False
        """The main thread stands still, and what comes before a fork is done."""
        self._lock = threading.Lock()
        self._parked = threading.Event()
        self._release = threading.Event()
        self._over = False

    def park(self) -> None:
        """Stand still until the fork is done. On the main thread, between two cells.

        An interrupt meanwhile waits: raised in a callback of the loop it would miss its cell.
        """
        with self._lock:
            if self._over:
                return
        interrupts: list[FrameType | None] = []
        on_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT) if on_main else None
        if callable(before):
            signal.signal(signal.SIGINT, lambda _number, frame: interrupts.append(frame))
        began = time.perf_counter()
        try:
            self._parked.set()
            # the main thread never stands still for longer, whatever becomes of the fork
            self._release.wait(1.0)
            # held while it forks: nobody goes on in the middle of that
            held = self._lock.acquire(timeout=FORK_SECONDS)
            self._over = True
            if held:
                self._lock.release()
        finally:
            self.parked_seconds = time.perf_counter() - began
            if callable(before):
                signal.signal(signal.SIGINT, before)
        if interrupts and callable(before):
            before(signal.SIGINT, interrupts[0])

    def give_up(self) -> None:
        """Nobody waits for this attempt any more."""
        self._over = True
        self._parked.set()
        self._release.set()

    def fork(self, child: Callable[[], None], seconds: float) -> int | None:
        """Fork as soon as the main thread stands still and no other computes; gives the child's pid, or None.

        None: the main thread did not come within `seconds`, or another thread would not rest. `child` never returns.
        Raises OSError.
        """
        try:
            if not self._parked.wait(seconds):
                return None
            self.has_begun = not self._over
            _stop_history_thread()
            for look in range(_LOOKS):
                if look:
                    time.sleep(_BETWEEN_LOOKS)
                with self._lock:
                    if self._over:
                        return None
                    if others_rest():
                        self._before()
                        pid = _fork(child)
                        self.forks = forks()  # the main thread still stands
                        return pid
            return None
        finally:
            self._release.set()


def others_rest() -> bool:
    """Return whether no other thread of this process is running or about to."""
    own = threading.get_native_id()
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - a fork waits for it
        if int(task) == own:
            continue
        try:
            text = Path("/proc/self/task", task, "stat").read_bytes()
        except OSError:  # it has ended
            continue
        if text[text.rindex(b")") + 2 : text.rindex(b")") + 3] in b"RD":
            return False
    return True


def _stop_history_thread() -> None:
    """IPython stops this thread before every fork; done now, what it lets run has run before we look."""
    with importing:
        from IPython.core.history import HistoryManager  # of IPython alone: the module can be tried without

    if (stop := getattr(HistoryManager, "_stop_thread", None)) is not None:
        stop()


def _fork(child: Callable[[], None]) -> int:
    with warnings.catch_warnings():
        # CPython warns of what this module is about, and the user's cell would show it
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message=".*fork", category=RuntimeWarning)
        pid = os.fork()
    if pid == 0:
        try:
            # what is there is garbage of the kernel's; looking through it would copy every page
            gc.freeze()
            child()
        finally:
            os._exit(70)
    return pid


class Forker:
    """The thread that forks; it runs nothing else. It stays: a child dies with the *thread* that forked it."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], int | None], Future[int | None]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="cellwright-forker", daemon=True).start()

    def submit(self, job: Callable[[], int | None]) -> Future[int | None]:
        """Do `job` on the thread."""
        done: Future[int | None] = Future()
        self._jobs.put((job, done))
        return done

    def close(self) -> None:
        """End the thread, and with it every process that it forked."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            if not done.set_running_or_notify_cancel():
                continue  # from here on it cannot be cancelled: its result has a place, and somebody ends what was forked
            try:
                done.set_result(job())
            except BaseException as error:  # noqa: BLE001 - crosses threads: raised again where it was asked for
                done.set_exception(error)


def control_pair() -> tuple[socket.socket, socket.socket]:
    """The kernel's end and the child's of what they talk through."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
