"""A branch and this machine as `/proc` shows them: memory, and whether a process hangs."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_FUTEX = {"x86_64": "202", "aarch64": "98"}.get(platform.machine(), "")


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
                cache = _field(folder / "memory.stat", "inactive_file")
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


def _field(path: Path, name: str) -> int:
    lines = path.read_text("ascii").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


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
