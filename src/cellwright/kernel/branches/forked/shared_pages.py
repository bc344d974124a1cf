"""Memory that nobody has written to since the kernel was forked, as `/proc/self/pagemap` shows it.

After a fork the kernel and its snapshot share every page until one of them writes to it. A page that is still shared holds
what it held at the fork, if the kernel was not forked again: that would share written pages, too.
"""

from __future__ import annotations

import array
import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_ENTRY = 8
_LARGE_MAP = 1 << 20
_NEVER = -2
_SHARED = bytes(int(kind == 0x80) for kind in range(256))
"""By the topmost byte of an entry: 1 in memory, of no file, not swapped out, and not mapped by this process alone."""

Pages = tuple[tuple[int, int], ...]
"""Pages of a buffer, counted from the one in which it begins: the first, and the one after the last, of each run."""

_forks = [0]


def _forked() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_forked)


def forks() -> int:
    """Return the number of forks of this process since this module was imported."""
    return _forks[0]


class PagesSince:
    """The word of this process's pages on the time since its child `copy` was forked, the last of `forked` forks then.

    Another copy shares written pages, too. What was written before that is remembered if `before_fork` and `after_fork` are
    called; else pages tell no more, nor do they after a fork of a library's that Python does not hear of.
    """

    def __init__(self, copy: int, forked: int) -> None:
        self._forks = forked
        self._copies = [(copy, _started(copy))]
        self._remembered: list[dict[int, bytes]] = []

    def tell(self) -> bool:
        """Return whether nothing has copied this process in the meantime.

        An older copy does no harm: what is written later gets a page of its own all the same.
        """
        if forks() != self._forks:
            return False
        since = max(started for _, started in self._copies)
        try:
            command = Path("/proc/self/cmdline").read_bytes()
            tasks = list(Path("/proc/self/task").iterdir())
            children = {int(each) for task in tasks for each in (task / "children").read_text("ascii").split()}
            copies = [each for each in children if Path(f"/proc/{each}/cmdline").read_bytes() == command]
            began = [(each, _started(each)) for each in copies]
        except OSError:  # one has ended meanwhile, or the system does not say
            return False
        return not any(copy not in self._copies and copy[1] >= since for copy in began)

    def before_fork(self) -> None:
        """Remember what was written until now, while all other threads of this process rest."""
        try:
            if self.tell():
                self._remembered.append(_shared_of_large_maps())
                return
        except OSError:
            pass
        self._forks = _NEVER

    def after_fork(self, copy: int, forked: int) -> None:
        """The fork was made; `forked` forks were, this one among them."""
        if self._forks == forked - 1:
            self._forks = forked
            self._copies.append((copy, _started(copy)))

    def written(self, buffer: memoryview) -> Pages:
        """Return the pages of `buffer`, contiguous bytes, that may hold something else than at the fork.

        They were written to, swapped out or mapped from a file; or they begin with zeros: memory that was given back and
        asked for again is such a page, which the system shares among all processes.
        """
        address = address_of(buffer)
        first = address // PAGE
        count = (address + buffer.nbytes - 1) // PAGE - first + 1
        shared = _shared(first, count)
        for remembered in self._remembered:
            shared = _both_shared(shared, _remembered_of(remembered, first, count))
        if len(shared) != count:
            return ((0, count),)
        told = bytearray(shared)
        for page in _that_begin_with_zeros(buffer, address):
            told[page] = 0
        return tuple(_runs_of_zeros(told))


def _runs_of_zeros(told: bytearray) -> Iterator[tuple[int, int]]:
    start = told.find(0)
    while start >= 0:
        stop = told.find(1, start)
        yield start, stop if stop >= 0 else len(told)
        start = told.find(0, stop) if stop >= 0 else -1


def _started(pid: int) -> int:
    """The moment at which a process began, in ticks of the system's clock."""
    text = Path(f"/proc/{pid}/stat").read_bytes()
    return int(text[text.rindex(b")") + 2 :].split()[19])


def _shared(first: int, count: int) -> bytes:
    """1 for each of `count` pages that is shared, else 0; fewer if the system does not say."""
    try:
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
            entries = os.pread(pages.fileno(), count * _ENTRY, first * _ENTRY) if sys.platform != "win32" else b""
    except OSError:
        entries = b""
    return entries[_ENTRY - 1 :: _ENTRY].translate(_SHARED)


def _shared_of_large_maps() -> dict[int, bytes]:
    """The first page of each large piece of memory that is this process's own, and which of its pages are shared."""
    found: list[tuple[int, int]] = []
    for line in Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
        between, mode, _, _, inode, *_ = line.split()
        start, end = (int(each, 16) // PAGE for each in between.split("-"))
        if mode == "rw-p" and inode == "0" and end - start >= _LARGE_MAP // PAGE:
            # a buffer may reach from one into the next
            found[-1:] = [(found[-1][0], end)] if found and found[-1][1] == start else [*found[-1:], (start, end)]
    return {start: _shared(start, end - start) for start, end in found}


def _remembered_of(remembered: Mapping[int, bytes], first: int, count: int) -> bytes:
    begin = max((each for each in remembered if each <= first), default=None)
    return b"" if begin is None else remembered[begin][first - begin :][:count]


def _both_shared(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        return b""
    return (int.from_bytes(one) & int.from_bytes(other)).to_bytes(len(one))


def _that_begin_with_zeros(buffer: memoryview, address: int) -> Iterator[int]:
    starts = min(-address % PAGE, buffer.nbytes)
    ends = buffer.nbytes - (buffer.nbytes - starts) % PAGE
    before = 1 if starts else 0
    if starts and not any(buffer[:starts]):
        yield 0
    words = array.array("Q", buffer[starts:ends].cast("Q")[:: PAGE // _ENTRY].tobytes())
    at = -1
    for _ in range(words.count(0)):
        at = words.index(0, at + 1)
        yield before + at
    if ends < buffer.nbytes and not any(buffer[ends:]):
        yield before + len(words)


def part_of(buffer: memoryview, pages: Pages) -> Iterator[memoryview]:
    """The bytes of `buffer` that are in `pages` of it."""
    before = address_of(buffer) % PAGE
    for start, stop in pages:
        yield buffer[max(0, start * PAGE - before) : stop * PAGE - before]


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
