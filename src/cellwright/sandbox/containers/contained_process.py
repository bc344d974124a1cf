"""A command in a container: what we see of it is its client, and it is ended inside when that ends before it."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cellwright.sandbox.confined_process import ConfinedProcess
from cellwright.sandbox.paths import exists

# $1 is what the environment of all that is to end has in it; whoever asks has it among its arguments only
END = """
sign=TERM
for again in 1 2 3 4 5 6 7 8; do
  left=
  for file in $(grep -laF "$1" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    kill -s $sign "${pid%/environ}" 2>/dev/null && left=1
  done
  [ -n "$left" ] || exit 0
  sleep 0.1
  sign=KILL
done
exit 1
"""


class ContainedProcess(ConfinedProcess):
    """The client of a command that runs in a container. `report` is where the command's shell writes its exit code.

    `end_inside` ends what runs there; `handed` are files that the command writes, each with the descriptor of ours that is
    to get what is in it. `missing` is what is protected and was not there at its start: no mount covers that.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        report: Path,
        end_inside: Callable[[], None],
        handed: Mapping[Path, int],
        missing: Sequence[str] = (),
    ) -> None:
        super().__init__(process)
        self._report = report
        self._end_inside = end_inside
        self._handed = dict(handed)
        self._missing = tuple(missing)

    def wait(self) -> int:
        """Wait for the command's end, and end it where its client is gone first; its exit code."""
        code = self.process.wait()
        try:
            code = int(_written(self._report))
        except (OSError, ValueError):  # it has not ended by itself
            self._end_inside()
        for file, descriptor in self._handed.items():
            with contextlib.suppress(OSError):
                os.write(descriptor, _written(file))
            file.unlink(missing_ok=True)
        self.made_protected = tuple(path for path in self._missing if exists(path))
        self._give_back()
        self._report.unlink(missing_ok=True)
        return code

    def close(self) -> None:
        """Give back what it held."""
        self._give_back()
        super().close()

    def _give_back(self) -> None:
        while self._handed:
            os.close(self._handed.popitem()[1])


def _written(file: Path) -> bytes:
    """Return what the command has written to a file of its own; b"" of anything else in its place. Raises OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(64 * 1024) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
