"""A process that was started confined: what it is known by, whether anything of it still runs, and its end.

It is known by a mark when it has left its group, its session and its parent, and cleared its environment. A limit that
bounds nothing is inherited by all that a process starts: `env -i` and `setsid` leave it alone. A confined
process has one of uninterrupted real-time computing, tens of thousands of years, and the filter lets nobody change that.
It is this process's own for the moment in which the child begins, so another child of ours may have it as well: only what
has more filters than we have is confined, and counts. A process that is not confined has one of resident memory, which
Linux has ignored since 2.4.30, set by the shell that bounds its memory; it could change it, if it meant to.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

if sys.platform != "win32":  # which has no sandbox
    import resource

NOT_MADE = 2
"""The exit code of a command whose changes were not made."""

SAME_DIGITS = 13
"""The digits of a process's marks that all of them begin with."""

_setting = threading.Lock()
_before: list[tuple[int, int]] = []
"""The limit of this process, while a child is being marked."""


class ConfinedProcess:
    """The process, and what its sandbox holds until all in it has ended; `close` gives that back.

    `status` is where bubblewrap tells the first process of its process namespace (-1: there is none). `finish` makes what
    the command changed, once nothing of it runs, and says what kept that from being made: `told` then. `ended_rest`:
    something that the command left running was ended for that.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        held: contextlib.ExitStack | None = None,
        status: int = -1,
        finish: Callable[[], str] | None = None,
    ) -> None:
        self.process = process
        self.told = ""
        self.ended_rest = False
        self.made_protected: tuple[str, ...] = ()
        """The protected places that it made although nothing could keep it from that; known at its end."""
        self.keeps: Callable[[int], bool] | None = None
        """Says with the exit code whether what it changed is made, if that was staged; None: it is."""
        self._finish = finish
        self._held = contextlib.ExitStack() if held is None else held
        self._status = status
        self._first = self._first_pid = -1
        self._over = self._released = False

    def wait(self) -> int:
        """Wait for the process's end, and make what it changed; its exit code, or NOT_MADE."""
        if self._status >= 0:
            with os.fdopen(self._status, "rb") as told, contextlib.suppress(ValueError, KeyError, OSError):
                self._first_pid = json.loads(told.read())["child-pid"]
                self._first = os.pidfd_open(self._first_pid)
            self._status = -1
        code = self.process.wait()
        if self._finish is not None and self._first >= 0:
            self._end_all()
            # killed by us, it is as if it had not run
            if code >= 0 and (self.keeps is None or self.keeps(code)):
                self.told = self._finish()
                code = NOT_MADE if self.told else code
        self._over = True
        return code

    def _end_all(self) -> None:
        """End what the command has left running, and wait until it is gone."""
        if self._has_reaped_all():
            return  # its mounts take as long again to go
        self.ended_rest = True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        gone = select.poll()
        gone.register(self._first, select.POLLIN)
        gone.poll()

    @property
    def ended(self) -> bool:
        """True when it is known that nothing in its process namespace runs on; False where it has none.

        The group tells that later, or much later: the first process is there until its mounts are gone, and after that
        until somebody reaps it, which in a container may be nobody.
        """
        if self._first < 0:
            return self._released
        poll = select.poll()
        poll.register(self._first, select.POLLIN)
        if poll.poll(0):
            return True
        return self._over and self._has_reaped_all()

    def _has_reaped_all(self) -> bool:
        """Return whether the first process, whose command has ended, is known to be alone: all others descend from it."""
        with contextlib.suppress(OSError):
            return not Path(f"/proc/{self._first_pid}/task/{self._first_pid}/children").read_bytes()
        return False

    def close(self) -> None:
        """Give back what the sandbox held."""
        first, self._first = self._first, -1
        if first >= 0:
            os.close(first)
            self._released = True
        self._held.close()


def new_mark() -> int:
    """Choose the first of a process's marks, in bytes and microseconds: whole KiB, and far above what anything takes."""
    first = (secrets.randbelow(7 * 10**12) + 10**12) * 10**6
    return first + -first % 1024


@contextlib.contextmanager
def marking(mark: int) -> Iterator[None]:
    """Have what is started meanwhile carry `mark`, where the system's own limit leaves room for it."""
    with _setting:
        before = resource.getrlimit(resource.RLIMIT_RTTIME)
        # a limit that somebody has set is kept: it is found by its environment only
        usable = before == (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        if not usable:
            yield
            return
        _before.append(before)
        resource.setrlimit(resource.RLIMIT_RTTIME, (mark, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_RTTIME, before)
            _before.clear()


def marked_processes(mark: int) -> list[int]:
    """Find the processes that carry `mark`, wherever they went; none where the system does not say."""
    found, sought = [], f" {mark} ".encode()
    own = _filters(Path("/proc/self"))
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            limits = [line for line in (folder / "limits").read_bytes().splitlines() if sought in line]
            if limits and (limits[0].startswith(b"Max resident set") or _filters(folder) != own):
                found.append(int(folder.name))
    return found


def _forget() -> None:
    """In a forked process: whoever was marking a child is not here, and the mark is none of ours."""
    global _setting
    _setting = threading.Lock()
    if _before:
        resource.setrlimit(resource.RLIMIT_RTTIME, _before.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _filters(process: Path) -> bytes:
    """The line of a process's status that counts its filters; "" where the system has none."""
    try:
        status = (process / "status").read_bytes()
    except OSError:
        return b""
    return next((line for line in status.splitlines() if line.startswith(b"Seccomp_filters:")), b"")
