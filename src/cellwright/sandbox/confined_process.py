"""A process that was started confined: whether anything in its sandbox still runs, and what is given back at the end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

NOT_MADE = 2
"""The exit code of a command whose changes were not made."""


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
