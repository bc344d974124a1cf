"""One writer per transcript: a lock on a file beside it, held for as long as the session is open.

The lock is the operating system's: it is free again when its process is gone, `kill -9` included. It belongs to the
open file, so two sessions of one process keep each other out as well. The file holds who has it. It stays when the
lease is given back: a file that is deleted and made again would give two owners a lock each.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import weakref
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from cellwright.sessions.state_dir import PRIVATE_FILE

POLL_SECONDS = 0.02


class Holder(Struct, frozen=True):
    """The present or last holder of a lease. `epoch` rises with each owner; `started` is seconds since the epoch."""

    epoch: int
    pid: int
    host: str
    started: float


def lease_path(transcript: Path) -> Path:
    """The lease file of a transcript."""
    return transcript.with_suffix(".lease")


def read_holder(path: Path) -> Holder | None:
    """Read the lease file; None where there is none or it is damaged: it informs, the lock alone decides."""
    try:
        return Holder(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


class Lease:
    """A lease that is held, from `acquire` until `release`, the end of the process, or garbage collection."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.epoch = 0
        self._fd = fd
        self.release = weakref.finalize(self, os.close, fd)
        _held.add(self)

    @property
    def held(self) -> bool:
        """True while this process may write. A forked child may not: the lease stays its parent's."""
        return self.release.alive

    def write_holder(self, at_least: int) -> None:
        """Take the next epoch, at least `at_least`, and say in the file who has the lease now."""
        previous = read_holder(self.path)
        self.epoch = max(at_least, previous.epoch + 1 if previous else 1)
        holder = Holder(self.epoch, os.getpid(), socket.gethostname(), round(time.time(), 3))
        data = json.dumps(asdict(holder)).encode()
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.write(self._fd, data)
        os.ftruncate(self._fd, len(data))


def acquire(path: Path, wait_seconds: float) -> Lease | None:
    """Take the lease at `path`, waiting up to `wait_seconds` for its owner; None when it is still someone else's."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        locked = _lock_within(fd, wait_seconds)
    except BaseException:
        os.close(fd)
        raise
    if not locked:
        os.close(fd)
        return None
    return Lease(path, fd)


def is_held(path: Path) -> bool:
    """Return whether somebody has the lease at `path` now; to be told, not to be relied on: `acquire` decides."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try_lock(fd)
    finally:
        os.close(fd)


def _lock_within(fd: int, wait_seconds: float) -> bool:
    give_up = time.monotonic() + wait_seconds
    while not _try_lock(fd):
        left = give_up - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(POLL_SECONDS, left))
    return True


if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE = 1 << 30  # far behind the content: on Windows a locked byte cannot be read by others

    def _try_lock(fd: int) -> bool:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_held: weakref.WeakSet[Lease] = weakref.WeakSet()


def _leave_leases_to_the_parent() -> None:
    # a forked child shares its parent's locks: had it kept them open, they would outlive a parent that was killed
    for lease in list(_held):
        lease.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_leases_to_the_parent)
