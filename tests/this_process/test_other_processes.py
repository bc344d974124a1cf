"""Whether a process runs, by either system's means."""

from __future__ import annotations

import os
import subprocess
import sys

from cellwright.this_process.shared_files import runs, runs_on_windows


def test_an_ended_process_does_not_run() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert runs(os.getpid())
    assert not runs(ended.pid)


class Kernel32:
    """The answers of Windows about some processes, and the handles that are open."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.error = 0

    def OpenProcess(self, access: int, inherit: bool, pid: int) -> int | None:
        assert (access, inherit) == (0x100000, False)
        if pid in (RUNS, ENDED_AND_HELD):
            self.open.add(pid)
            return pid
        self.error = 5 if pid == OF_ANOTHER_USER else 87
        return None

    def WaitForSingleObject(self, handle: int, milliseconds: int) -> int:
        assert handle in self.open
        assert milliseconds == 0
        return 0x102 if handle == RUNS else 0

    def CloseHandle(self, handle: int) -> None:
        self.open.remove(handle)


RUNS, ENDED_AND_HELD, GONE, OF_ANOTHER_USER = 4, 8, 12, 16


def test_a_process_of_windows_runs_until_a_wait_for_it_ends() -> None:
    system = Kernel32()
    found = [
        runs_on_windows(pid, system, lambda: system.error) for pid in (RUNS, ENDED_AND_HELD, GONE, OF_ANOTHER_USER)
    ]
    assert found == [True, False, False, True]
    assert system.open == set()
