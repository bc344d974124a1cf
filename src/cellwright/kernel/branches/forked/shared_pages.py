"""Memory that nobody has written to since the kernel was forked, as `/proc/self/pagemap` shows it.

After a fork the kernel and its snapshot share every page until one of them writes to it. A page that is still shared holds
what it held at the fork, if the kernel was not forked again: that would share written pages, too.
"""

from __future__ import annotations

import array
import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_ENTRY = 8
_SHARED = 0x80
"""The topmost byte of an entry: in memory, of no file, not swapped out, and not mapped by this process alone."""
_MOST_BLANK = 2_000
"""Pages that begin with zeros are looked at singly, so many at most."""

_forks = [0]


def _forked() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_forked)


def forks() -> int:
    """Return the number of forks of this process since this module was imported."""
    return _forks[0]


def has_other_copies(own: Sequence[int]) -> bool:
    """Return whether a child is a copy of this process without being one of `own`: libraries fork without telling Python."""
    command = Path("/proc/self/cmdline").read_bytes()
    try:
        tasks = list(Path("/proc/self/task").iterdir())
        children = {int(pid) for task in tasks for pid in (task / "children").read_text("ascii").split()}
        return any(Path(f"/proc/{pid}/cmdline").read_bytes() == command for pid in children.difference(own))
    except OSError:  # one has ended meanwhile, or the system does not say
        return True


def is_shared(buffer: memoryview) -> bool:
    """Return whether every page of `buffer`, contiguous bytes, is shared with another process since the fork.

    False where that is not known: swapped out, mapped from a file, or a page of zeros, which the system shares among all.
    """
    if sys.platform == "win32":
        return False
    address = address_of(buffer)
    first, last = address // PAGE, (address + buffer.nbytes - 1) // PAGE
    try:
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
            entries = os.pread(pages.fileno(), (last - first + 1) * _ENTRY, first * _ENTRY)
    except OSError:
        return False
    kinds = entries[_ENTRY - 1 :: _ENTRY]
    return kinds.count(_SHARED) == last - first + 1 and _holds_something(buffer, address)


def _holds_something(buffer: memoryview, address: int) -> bool:
    """Return whether no page of `buffer` is all zeros: one that was given back and asked for again is such a page."""
    starts = -address % PAGE
    whole = buffer.nbytes - (buffer.nbytes - starts) % PAGE
    blank = bytes(PAGE)
    edges = (buffer[:starts], buffer[whole:])
    if any(edge.nbytes and edge == blank[: edge.nbytes] for edge in edges):
        return False
    words = array.array("Q", buffer[starts:whole].cast("Q")[:: PAGE // _ENTRY].tobytes())
    if words.count(0) > _MOST_BLANK:
        return False
    places = [index for index, word in enumerate(words) if not word] if 0 in words else []
    return not any(buffer[starts + index * PAGE : starts + (index + 1) * PAGE] == blank for index in places)


class _Buffer(ctypes.Structure):
    """The beginning of a `Py_buffer`."""

    _fields_ = (("address", ctypes.c_void_p), ("rest", ctypes.c_byte * 256))


def address_of(buffer: memoryview) -> int:
    """Return the address of the first byte of `buffer`."""
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(view), 0)
    try:
        return int(view.address or 0)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
