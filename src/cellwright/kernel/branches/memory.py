"""Memory of the kernel, of its copies and of this machine as `/proc` shows it, and whether a process hangs.

After a fork the kernel and its snapshot share every page until one of them writes to it. A page that is still shared
(`/proc/self/pagemap`) holds what it held at the fork, if the kernel was not forked again: that would share written pages,
too.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_ENTRY = 8
_LARGE_MAP = 1 << 20
_NEVER = -2
_SHARED = bytes(int(kind == 0x80) for kind in range(256))
"""By the topmost byte of an entry: 1 in memory, of no file, not swapped out, and not mapped by this process alone."""

Pages = tuple[tuple[int, int], ...]
"""Pages of a buffer, counted from the one in which it begins: the first, and the one after the last, of each run."""

_forks = [0]

_FUTEX = {"x86_64": "202", "aarch64": "98"}.get(platform.machine(), "")


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
            begin = max((each for each in remembered if each <= first), default=None)
            then = b"" if begin is None else remembered[begin][first - begin :][:count]
            if len(then) == len(shared):
                shared = (int.from_bytes(shared) & int.from_bytes(then)).to_bytes(len(shared))
            else:
                shared = b""
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


def private_memory(pid: int) -> int:
    """Bytes that process `pid` has to itself: pages that it wrote since it was forked. 0 if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Private_Dirty:"):
                return int(line.split()[1]) * 1024
    return 0


def parent_of(pid: int) -> int:
    """The process that started process `pid`; 0 if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return int(stat[stat.rindex(b")") + 2 :].split()[1])
    return 0


def resident_memory(pid: int | str = "self") -> int:
    """Bytes of memory that process `pid` holds, shared or not."""
    if sys.platform == "win32":
        return 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class Memory(Struct, frozen=True):
    """Bytes of the machine, or of the container where that has less: all of it, and what is left."""

    total: int
    left: int


def memory() -> Memory:
    """Look how much memory there is."""
    told = {}
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        name, _, value = line.partition(":")
        told[name] = int(value.split()[0]) * 1024
    total, left = told["MemTotal"], told.get("MemAvailable", told["MemFree"])
    for folder in _own_groups():
        with contextlib.suppress(OSError, ValueError):  # the topmost group has no limit
            most = (folder / "memory.max").read_text("ascii").strip()
            if most != "max":
                used = int((folder / "memory.current").read_text("ascii"))
                statistics = (folder / "memory.stat").read_text("ascii").splitlines()
                cache = next((int(line.split()[1]) for line in statistics if line.startswith("inactive_file ")), 0)
                total, left = min(total, int(most)), min(left, int(most) - used + cache)
    return Memory(total, max(left, 0))


def _own_groups() -> Iterator[Path]:
    """The control groups of this process, as they are seen from inside a container and from outside."""
    top = Path("/sys/fs/cgroup")
    yield top
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text("ascii").splitlines():
            if line.startswith("0::/") and line != "0::/":
                yield top / line.removeprefix("0::/")


class Standstill(Struct, frozen=True):
    """All threads of a process wait for a lock; `cpu` is what they have used: the same again means that nothing happened."""

    cpu: int


def standstill(pid: int) -> Standstill | None:
    """Look whether every thread of `pid` waits for a lock, and it has no children; None: no, or it is gone.

    A thread that reads from a pipe waits for the process itself then: Arrow leaves one behind when it has read a file.
    """
    cpu = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            text = (task / "stat").read_text("ascii", "replace")
            fields = text[text.rindex(")") + 2 :].split()
            if fields[0] != "S" or (task / "children").read_text("ascii").strip() or not _waits_for_lock(task):
                return None
            cpu += int(fields[11]) + int(fields[12])
    except (OSError, ValueError):
        return None
    return Standstill(cpu)


def _waits_for_lock(task: Path) -> bool:
    where = (task / "wchan").read_text("ascii").strip()
    if where not in ("", "0"):
        return where.startswith(("futex", "pipe_read", "anon_pipe_read"))
    # hardened systems do not say where it waits
    return bool(_FUTEX) and (task / "syscall").read_text("ascii").split(maxsplit=1)[0] == _FUTEX


def open_gpu() -> str:
    """The first device of a GPU that this process has open; "" if there is none."""
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names alone
        with contextlib.suppress(OSError):
            path = str(Path(f"/proc/self/fd/{number}").readlink())
            if path.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri/")):
                return path
    return ""
