"""Children as on Windows: ended with a real process of this system, and in a job by a stand-in of Windows' library."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from cellwright.tools.process.windows import CTRL_BREAK_EVENT, ExtendedLimits, WindowsJob, ask_tree, end_tree


def test_a_tree_is_ended_by_windows_own_program() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ran: list[list[str]] = []

    def taskkill(command: list[str], **_options: object) -> None:
        assert process.poll() is None, "its children are found through it"
        ran.append(command)

    end_tree(process, run=taskkill, environ={"SYSTEMROOT": r"D:\Windows"})
    assert ran == [[r"D:\Windows\System32\taskkill.exe", "/T", "/F", "/PID", str(process.pid)]]
    assert process.wait(60) != 0


def test_without_that_program_the_child_is_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def missing(_command: list[str], **_options: object) -> None:
        raise FileNotFoundError

    end_tree(process, run=missing, environ={})
    assert process.wait(60) != 0


def test_a_child_is_asked_as_a_terminal_asks() -> None:
    class Child(subprocess.Popen[bytes]):
        def __init__(self) -> None:
            self.heard: list[int] = []

        def __del__(self, _warn: object = None) -> None:
            pass

        def send_signal(self, sig: int) -> None:
            self.heard.append(sig)
            raise OSError("no console")

    child = Child()
    ask_tree(child)
    assert child.heard == [CTRL_BREAK_EVENT]


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
