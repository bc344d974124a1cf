"""Marks that a process is known by when it has left its group, its session and its parent, and cleared its environment.

A limit that bounds nothing is inherited by all that a process starts: `env -i` and `setsid` leave it alone. A confined
process has one of uninterrupted real-time computing, tens of thousands of years, and the filter lets nobody change that.
It is this process's own for the moment in which the child begins, so another child of ours may have it as well: only what
has more filters than we have is confined, and counts. A process that is not confined has one of resident memory, which
Linux has ignored since 2.4.30, set by the shell that bounds its memory; it could change it, if it meant to.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

SAME_DIGITS = 13
"""The digits of a process's marks that all of them begin with."""

_setting = threading.Lock()
_before: list[tuple[int, int]] = []
"""The limit of this process, while a child is being marked."""


def new_mark() -> int:
    """Choose the first of a process's marks, in bytes and microseconds: whole KiB, and far above what anything takes."""
    first = (secrets.randbelow(7 * 10**12) + 10**12) * 10**6
    return first + -first % 1024


@contextlib.contextmanager
def marking(mark: int) -> Iterator[None]:
    """Have what is started meanwhile carry `mark`, where the system's own limit leaves room for it."""
    import resource  # not on Windows, which has no sandbox

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
        import resource

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
