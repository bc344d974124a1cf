"""A process that was started confined: whether anything in its sandbox still runs, and what is given back at the end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess


LINGER_MS = 20
"""The first process of a namespace ends a moment after what it was made for; longer only where something else runs on."""


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
        self._first = -1

    def wait(self) -> int:
        """Wait for the process's end; its exit code."""
        if self._status >= 0:
            with os.fdopen(self._status, "rb") as told, contextlib.suppress(ValueError, KeyError, OSError):
                # an end is seen by it also where nobody has reaped the process yet, as in a container without an init
                self._first = os.pidfd_open(json.loads(told.read())["child-pid"])
            self._status = -1
        code = self.process.wait()
        self._has_ended(LINGER_MS)
        return code

    @property
    def ended(self) -> bool | None:
        """Whether all in its process namespace has ended, which ends with its first process; None where it has none."""
        return None if self._first < 0 else self._has_ended(0)

    def _has_ended(self, milliseconds: int) -> bool:
        if self._first < 0:
            return False
        poll = select.poll()
        poll.register(self._first, select.POLLIN)
        return bool(poll.poll(milliseconds))

    def close(self) -> None:
        """Give back what the sandbox held."""
        first, self._first = self._first, -1
        if first >= 0:
            os.close(first)
        self._held.close()
