"""One writer per transcript: a lock on a file beside it, held for as long as the session is open.

The lock is the operating system's: it is free again when its process is gone, `kill -9` included. It belongs to the
open file, so two sessions of one process keep each other out as well. The file holds who has it. It stays when the
lease is given back: a file that is deleted and made again would give two owners a lock each.

Where the file system has no locks (NFS without a lock daemon, some FUSE) a second file beside it is the lease: who makes
it has it. It names its process, and is taken over when that is gone; one of another machine after a day.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import socket
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from cellwright.sessions.state_dir import PRIVATE_FILE
from cellwright.this_process.files import POLL_SECONDS, FileLocks, runs, system_locks

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""The errors of a file system without locks."""


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

    def __init__(self, path: Path, fd: int, locks: FileLocks, made: Path | None = None) -> None:
        """`made` is the file that stands for the lock where the file system has none."""
        self.path = path
        self.epoch = 0
        self._fd = fd
        self.release = weakref.finalize(self, _give_back, fd, locks, made, os.getpid())
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


def acquire(path: Path, wait_seconds: float, locks: FileLocks | None = None) -> Lease | None:
    """Take the lease at `path`, waiting up to `wait_seconds` for its owner; None when it is still someone else's.

    `locks` are by default the system's.
    """
    locks = locks or system_locks()
    fd = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    made = None
    try:
        try:
            locked = _within(wait_seconds, lambda: locks.try_lock(fd))
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            made = _file_of_lock(path)
            locked = _within(wait_seconds, lambda: _try_make(_file_of_lock(path)))
    except BaseException:
        locks.close(fd)
        raise
    if not locked:
        os.close(fd)
        return None
    return Lease(path, fd, locks, made)


def has_locks(folder: Path) -> bool:
    """Return whether files in `folder` can be locked. Raises OSError if none can be made."""
    path, locks = folder / f"lock-{secrets.token_hex(6)}.tmp", system_locks()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        return locks.try_lock(fd)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    finally:
        locks.close(fd)
        path.unlink(missing_ok=True)


def is_held(path: Path, locks: FileLocks | None = None) -> bool:
    """Return whether somebody has the lease at `path` now; to be told, not to be relied on: `acquire` decides."""
    locks = locks or system_locks()
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not locks.try_lock(fd)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return (said := _said(_file_of_lock(path))) is not None and not _is_left(said)
    finally:
        locks.close(fd)


def _within(wait_seconds: float, attempt: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + wait_seconds
    while not attempt():
        left = give_up - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(POLL_SECONDS, left))
    return True


def _file_of_lock(path: Path) -> Path:
    return path.with_name(path.name + ".held")


def _try_make(path: Path) -> bool:
    """Make the file that stands for the lock, in place of one that a process which is gone has left."""
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            os.write(fd, f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(8)}".encode())
        finally:
            os.close(fd)
        return True
    left = _said(path)
    if left is None or not _is_left(left):
        return False
    taken = path.with_name(f"{path.name}-{secrets.token_hex(6)}")
    with contextlib.suppress(FileNotFoundError):  # another one takes it over
        path.rename(taken)
        if _said(taken) == left or path.exists():
            taken.unlink()
        else:
            taken.rename(path)  # another one has taken it over, and this is its file
    return False  # and tried again


class _Said(Struct, frozen=True):
    """The holder that a file names, and when it was made (seconds since the epoch)."""

    text: str
    made: float


def _said(path: Path) -> _Said | None:
    try:
        return _Said(path.read_text("utf-8"), path.stat().st_mtime)
    except (OSError, ValueError):
        return None


def _is_left(said: _Said) -> bool:
    host, _, rest = said.text.partition(" ")
    pid = rest.partition(" ")[0]
    if host != socket.gethostname() or not pid.isdecimal():
        # what a process of another machine left is taken over after a day: nothing tells whether it runs
        return time.time() - said.made > 86_400.0
    return not runs(int(pid))


def _give_back(fd: int, locks: FileLocks, made: Path | None, process: int) -> None:
    if os.getpid() == process:
        locks.close(fd)
    else:  # a forked child's: unlocking would take the lock from its parent
        os.close(fd)
    if made is not None and os.getpid() == process:  # a forked child leaves it to its parent
        with contextlib.suppress(OSError):
            made.unlink()


_held: weakref.WeakSet[Lease] = weakref.WeakSet()


def _leave_leases_to_the_parent() -> None:
    # a forked child shares its parent's locks: had it kept them open, they would outlive a parent that was killed
    for lease in list(_held):
        lease.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_leases_to_the_parent)
