"""Files that several processes use: locks, a new file in the place of one, and whether another process still runs.

Files are locked by `flock`, on Windows by a locked byte. A lock is the operating system's and belongs to the open file:
it is free again when that is closed or its process is gone, however it ended. It is advice: it keeps out who asks for
it, and nobody else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

LOCKED_BYTE = 1 << 30
"""Far behind the content: on Windows a locked byte cannot be read by others."""

POLL_SECONDS = 0.02
REPLACE_SECONDS = 1.0
"""Readers of ours have a file open for less, and so have virus scanners as a rule."""

_TAKEN = frozenset({errno.EACCES, errno.EDEADLK, errno.EAGAIN})
"""The errors of `msvcrt.locking` when another open file has the byte; EDEADLK after it has tried for ten seconds."""

_SYNCHRONIZE = 0x0010_0000
_TIMED_OUT = 0x102
_ACCESS_DENIED = 5


class FileLocks(Protocol):
    """The way a system locks files."""

    def try_lock(self, fd: int) -> bool:
        """Lock an open file without waiting; False if another open file has the lock. Raises OSError if none can be had."""
        ...

    def close(self, fd: int) -> None:
        """Close a file that may be locked, and give its lock free now."""
        ...


class WholeFileLocks:
    """Locks by `fcntl.flock` and its mode `LOCK_EX | LOCK_NB`."""

    def __init__(self, flock: Callable[[int, int], None], exclusive: int) -> None:
        self._flock = flock
        self._exclusive = exclusive

    def try_lock(self, fd: int) -> bool:
        """Lock the file without waiting, as `FileLocks` says."""
        try:
            self._flock(fd, self._exclusive)
        except BlockingIOError:
            return False
        return True

    def close(self, fd: int) -> None:
        """Close the file: the lock goes with it."""
        os.close(fd)


class ByteLocks:
    """Locks of one byte behind the content, by Windows' `msvcrt.locking` and its modes `LK_NBLCK` and `LK_UNLCK`."""

    def __init__(self, locking: Callable[[int, int, int], None], lock: int, unlock: int) -> None:
        self._locking = locking
        self._lock = lock
        self._unlock = unlock

    def try_lock(self, fd: int) -> bool:
        """Lock the byte without waiting, as `FileLocks` says."""
        try:
            self._do(fd, self._lock)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            return False
        return True

    def close(self, fd: int) -> None:
        """Unlock the byte and close the file: Windows unlocks what is closed, but not always at once."""
        try:
            with contextlib.suppress(OSError):  # it is not ours
                self._do(fd, self._unlock)
        finally:
            os.close(fd)

    def _do(self, fd: int, mode: int) -> None:
        before = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)  # it locks from where the file stands
        try:
            self._locking(fd, mode, 1)
        finally:
            os.lseek(fd, before, os.SEEK_SET)


def system_locks() -> FileLocks:
    """The locks of this system."""
    if sys.platform == "win32":
        import msvcrt  # Windows only

        return ByteLocks(msvcrt.locking, msvcrt.LK_NBLCK, msvcrt.LK_UNLCK)
    import fcntl  # not on Windows

    return WholeFileLocks(fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def replace_file(
    new: Path | str,
    path: Path | str,
    *,
    replace: Callable[[Path | str, Path | str], None] = os.replace,
    wait_seconds: float = REPLACE_SECONDS if sys.platform == "win32" else 0.0,
) -> None:
    """Put the file `new` at `path`, in place of what is there. Raises OSError.

    On Windows nothing takes the place of a file that somebody has open: for up to `wait_seconds` that is tried again.
    """
    give_up = time.monotonic() + wait_seconds
    while True:
        try:
            replace(new, path)
        except PermissionError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return


def runs(pid: int) -> bool:
    """Return whether a process runs, another user's included."""
    if sys.platform == "win32":
        import ctypes

        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel32.OpenProcess.restype = ctypes.c_void_p  # a handle is as wide as a pointer
        kernel32.WaitForSingleObject.argtypes = (ctypes.c_void_p, ctypes.c_ulong)
        kernel32.CloseHandle.argtypes = (ctypes.c_void_p,)
        return runs_on_windows(pid, kernel32, ctypes.get_last_error)
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def runs_on_windows(pid: int, kernel32: Any, last_error: Callable[[], int]) -> bool:
    """Return the same by Windows' `kernel32`, where `os.kill(pid, 0)` would send Ctrl+C to a console's processes."""
    handle = kernel32.OpenProcess(_SYNCHRONIZE, False, pid)
    if not handle:
        return last_error() == _ACCESS_DENIED
    try:
        # somebody may hold an ended process open: it is there, and no wait for it lasts
        return bool(kernel32.WaitForSingleObject(handle, 0) == _TIMED_OUT)
    finally:
        kernel32.CloseHandle(handle)
