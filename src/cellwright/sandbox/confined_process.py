"""A process that was started confined: whether anything in its sandbox still runs, and what is given back at the end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from pathlib import Path


class ConfinedProcess:
    """The process, and what its sandbox holds until all in it has ended; `close` gives that back.

    `status` is where bubblewrap tells the first process of its process namespace (-1: there is none).
    """

    def __init__(
        self, process: subprocess.Popen[bytes], held: contextlib.ExitStack | None = None, status: int = -1
    ) -> None:
        self.process = process
        self._held = contextlib.ExitStack() if held is None else held
        self._status = status
        self._first = self._first_pid = -1
        self._over = self._released = False

    def wait(self) -> int:
        """Wait for the process's end; its exit code."""
        if self._status >= 0:
            with os.fdopen(self._status, "rb") as told, contextlib.suppress(ValueError, KeyError, OSError):
                self._first_pid = json.loads(told.read())["child-pid"]
                self._first = os.pidfd_open(self._first_pid)
            self._status = -1
        code = self.process.wait()
        self._over = True
        return code

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
        with contextlib.suppress(OSError):
            # all in the namespace descends from it, and what it was made for it has reaped by now
            return self._over and not Path(f"/proc/{self._first_pid}/task/{self._first_pid}/children").read_bytes()
        return False

    def close(self) -> None:
        """Give back what the sandbox held."""
        first, self._first = self._first, -1
        if first >= 0:
            os.close(first)
            self._released = True
        self._held.close()
