"""Descriptors and shared maps that a forked process has from the kernel: nothing of the kernel's is touched through them.

Fork shares them. Left as they are, a branch speaks on the user's connections, moves the position of the user's files, and
`mm[0] = 7` in an array on a shared map changes the kernel's array and the file on disk, confined or not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

MOST_COPIED = 1 << 30
"""Shared memory without a file must be copied; more than this takes too long."""

_READ, _WRITE, _EXECUTE = 1, 2, 4
_SHARED, _PRIVATE, _FIXED, _ANONYMOUS = 1, 2, 0x10, 0x20
_MAY_MOVE, _MOVE_FIXED = 1, 2
_FAILED = ctypes.c_void_p(-1).value
_MEMORY_FILES = ("/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "/run/shm/")

_libc: ctypes.CDLL
if sys.platform != "win32":
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.restype = _libc.mremap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    _libc.mremap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    _libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
# made before a fork: the child would compile and import it anew
_memmove = ctypes.memmove


class TooMuchShared(Exception):
    """There is more shared memory than can be copied."""


def cut_descriptors(kept: Collection[int], may_read: Callable[[str], bool]) -> None:
    """Put something harmless behind every number but `kept`; none is closed.

    Objects still own the numbers, and would close whatever file got theirs. Files become read-only at the same position,
    which is their own from now on, if `may_read` allows their path; of the rest, calls fail with EBADF.
    """
    nowhere = os.open("/", os.O_PATH | os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - names alone
        if number in kept or number in (nowhere, null):
            continue
        with contextlib.suppress(OSError):  # the one by which this list was read
            inheritable = os.get_inheritable(number)
            if number <= 2:
                os.dup2(null, number, inheritable=True)
                continue
            own = _reopened(number, may_read)
            os.dup2(nowhere if own is None else own, number, inheritable=inheritable)
            if own is not None:
                os.close(own)
    os.close(nowhere)
    os.close(null)


def _reopened(number: int, may_read: Callable[[str], bool]) -> int | None:
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode) or not may_read(str(Path(f"/proc/self/fd/{number}").readlink())):
            return None
        position = os.lseek(number, 0, os.SEEK_CUR)
        own = os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # not ours to read
        return None
    os.lseek(own, position, os.SEEK_SET)
    return own


class _Map(NamedTuple):
    begin: int
    size: int
    protection: int
    offset: int
    device: str
    inode: int
    path: str


def make_maps_private() -> None:
    """Make every shared map a private one with the same content at the same place. Raises `TooMuchShared`, `OSError`.

    Also those that may only be read: `mprotect` makes them writable if their file was opened so.
    """
    shared = list(_shared_maps())
    opened = {each: _source(each) for each in shared}
    copied = sum(each.size for each, source in opened.items() if source is None and _is_memory(each))
    if copied > MOST_COPIED:
        message = f"{copied / 1e9:.1f} GB of memory are shared with other processes"
        raise TooMuchShared(message)
    for each, source in opened.items():
        if source is not None:
            try:
                _place(each, source)
            finally:
                os.close(source)
        elif _is_memory(each):
            _copy(each)
        else:  # a device's: what a write there does, nobody knows
            _check(_libc.mprotect(each.begin, each.size, 0))


def _shared_maps() -> Iterator[_Map]:
    for line in Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
        fields = line.split(maxsplit=5)
        if fields[1][3] != "s":
            continue
        begin, end = (int(part, 16) for part in fields[0].split("-"))
        flags = zip(fields[1], (_READ, _WRITE, _EXECUTE), strict=False)
        path = fields[5].replace("\\012", "\n") if len(fields) > 5 else ""
        protection = sum(bit for letter, bit in flags if letter != "-")
        yield _Map(begin, end - begin, protection, int(fields[2], 16), fields[3], int(fields[4]), path)


def _source(shared: _Map) -> int | None:
    """The file behind a map, opened for reading; None if it is gone, another one, or nothing that can be mapped anew."""
    if not shared.path.startswith("/") or shared.path.startswith("/dev/") or shared.path.endswith(" (deleted)"):
        return None
    try:
        opened = os.open(shared.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(opened)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    if stat.S_ISREG(status.st_mode) and (status.st_ino, device) == (shared.inode, shared.device):
        return opened
    os.close(opened)
    return None


def _is_memory(shared: _Map) -> bool:
    """Return whether a map without a file to map anew can be copied: memory, or a file that is gone or not ours to open."""
    return shared.path.startswith(_MEMORY_FILES) or not shared.path.startswith(("/dev/", "anon_inode:", "["))


def _place(shared: _Map, source: int) -> None:
    _check(
        _libc.mmap(shared.begin, shared.size, shared.protection, _PRIVATE | _FIXED, source, shared.offset),
    )


def _copy(shared: _Map) -> None:
    own = _check(_libc.mmap(None, shared.size, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0))
    if not shared.protection & _READ:
        _check(_libc.mprotect(shared.begin, shared.size, _READ))
    _memmove(own, shared.begin, shared.size)
    _check(_libc.mprotect(own, shared.size, shared.protection))
    _check(_libc.mremap(own, shared.size, shared.size, _MAY_MOVE | _MOVE_FIXED, shared.begin))


def _check(result: int | None) -> int:
    if result in (_FAILED, -1):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result or 0
