"""The kernel's end of the snapshot process: what it is of, and what it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cellwright.kernel.branches.memory import PagesSince, private_memory
from cellwright.kernel.branches.messages import Ready, receive, send

ANSWER_SECONDS = 10.0
"""A fork of millions of objects on a busy machine is far below."""


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
            self._control.settimeout(ANSWER_SECONDS)
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
