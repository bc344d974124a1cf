"""The job of our children as Windows would keep it, by a stand-in of its library."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

from cellwright.tools.process.windows_job import ExtendedLimits, WindowsJob

JOB, PROCESS = 8, 12


class Function:
    """A function of the library; like those of `ctypes` it takes what describes it."""

    def __init__(self, does: Any) -> None:
        self.does = does

    def __call__(self, *arguments: Any) -> Any:
        return self.does(*arguments)


class Kernel32(SimpleNamespace):
    def __init__(self, *, sets: bool = True, assigns: bool = True, opens: bool = True) -> None:
        self.flags, self.inside, self.open = 0, [], []
        super().__init__(
            CreateJobObjectW=Function(lambda security, name: self.opened(JOB)),
            SetInformationJobObject=Function(lambda job, kind, limits, size: sets and self.limited(kind, limits, size)),
            OpenProcess=Function(lambda access, inherits, pid: self.opened(PROCESS) if opens else 0),
            AssignProcessToJobObject=Function(lambda job, process: assigns and not self.inside.append((job, process))),
            CloseHandle=Function(lambda handle: self.open.remove(handle)),
        )

    def opened(self, handle: int) -> int:
        self.open.append(handle)
        return handle

    def limited(self, kind: int, limits: Any, size: int) -> bool:
        assert (kind, size) == (9, ctypes.sizeof(ExtendedLimits))
        self.flags = limits._obj.basic.flags
        return True


def test_the_record_has_windows_own_form() -> None:
    if ctypes.sizeof(ctypes.c_void_p) == 8:
        assert ctypes.sizeof(ExtendedLimits) == 144
    assert type(ExtendedLimits().basic).flags.offset == 16


def test_children_are_in_a_job_that_ends_with_its_last_handle() -> None:
    system = Kernel32()
    job = WindowsJob(system)
    assert system.flags == 0x2000
    assert job.add(4711)
    assert system.inside == [(JOB, PROCESS)]
    assert system.open == [JOB], "who holds a process open keeps its number taken"
    job.close()
    job.close()
    assert system.open == []
    assert not job.add(4711)


def test_children_run_without_it() -> None:
    no_limits = Kernel32(sets=False)
    assert not WindowsJob(no_limits).add(1)
    assert no_limits.open == []
    for system in (Kernel32(assigns=False), Kernel32(opens=False)):
        assert not WindowsJob(system).add(1)
        assert system.open == [JOB]
