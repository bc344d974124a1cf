"""Processes that carry a mark of the test's, in their command line or their environment, found in /proc."""

from __future__ import annotations

import os
from pathlib import Path

from eventual import eventually


def marked(mark: str) -> dict[int, str]:
    """The processes with `mark`, without this one: pid to command line. What has ended and waits to be reaped has none.

    A child has its parent's command line until it runs its program.
    """
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
            if mark.encode() in line or mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = line.replace(b"\0", b" ").decode("utf-8", "replace").rstrip(" ")
        except OSError:  # it has just ended
            continue
    found.pop(os.getpid(), None)
    return found


def wait_until_gone(mark: str) -> None:
    """Wait until no process has `mark`: what was killed ends when the system gets to it."""
    eventually(lambda: marked(mark), lambda found: not found)
