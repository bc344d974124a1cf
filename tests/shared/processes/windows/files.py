"""What Windows does with files, done on Linux with real files: the contract of `msvcrt.locking`."""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from cellwright.this_process.files import ByteLocks

LK_UNLCK, LK_LOCK, LK_NBLCK = 0, 1, 2


def locking(fd: int, mode: int, count: int) -> None:
    """Lock or unlock `count` bytes from where the file stands, as `msvcrt.locking` does.

    The lock belongs to the open file, may lie behind the content, and is refused with EACCES, to its owner, too; what
    is not locked cannot be unlocked.
    """
    here = os.lseek(fd, 0, os.SEEK_CUR)
    span = (os.SEEK_SET, here, count, 0)
    if mode == LK_UNLCK:
        if (fd, here) not in _locked:
            raise PermissionError(errno.EACCES, "Permission denied")
        _locked.discard((fd, here))
        _ask(fd, fcntl.F_UNLCK, *span)
        return
    if mode != LK_NBLCK:
        raise OSError(errno.EINVAL, "Invalid argument")
    if (fd, here) in _locked:
        raise PermissionError(errno.EACCES, "Permission denied")
    try:
        _ask(fd, fcntl.F_WRLCK, *span)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None
    _locked.add((fd, here))


def _ask(fd: int, kind: int, whence: int, start: int, count: int, pid: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, whence, start, count, pid))


_locked: set[tuple[int, int]] = set()


def locks() -> ByteLocks:
    """Our locks on Windows, on this system."""
    _locked.clear()
    return ByteLocks(locking, LK_NBLCK, LK_UNLCK)
