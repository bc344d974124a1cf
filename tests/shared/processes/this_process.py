"""What this process holds: descriptors, threads and children, as sets, of which a test takes what is new.

Other tests that ran in this process have left things that are closed or end at any time: a number tells nothing, and less
than before is no failure.
"""

from __future__ import annotations

import contextlib
from pathlib import Path


def open_files() -> set[tuple[str, str]]:
    """The descriptors, each with what it leads to."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that this listing was read from
            found.add((link.name, str(link.readlink())))
    return found


def threads() -> set[str]:
    """The threads of the system, by their numbers."""
    return {path.name for path in Path("/proc/self/task").iterdir()}


def children() -> set[int]:
    """The child processes, zombies included, without the watchdog that starts with the first of them.

    One that has not begun its program yet is none: it has this process's command line, and nobody knows what it will be.
    """
    found = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has just ended
            found.update(map(int, listed.read_text("ascii").split()))
    return {pid for pid in found if _counts(pid)}


def _counts(pid: int) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"watchdog" not in line and line != Path("/proc/self/cmdline").read_bytes()
