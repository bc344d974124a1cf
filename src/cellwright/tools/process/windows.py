"""Children on Windows: how they are ended, and the job object that ends them with us, also when we are killed.

Windows knows no groups that are signalled: a console's group is asked, a tree is ended. What has left the tree (its parent
has ended) is not found, and ends with us: Windows ends all processes of a job when its last handle is closed, and closes a
process's handles however that ends. What a child has started before it was put into the job is not in it; that is a
moment. Nor is what a service starts for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import ntpath
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

CTRL_BREAK_EVENT = 1
_KILL_ON_JOB_CLOSE = 0x2000
_EXTENDED_LIMITS = 9
_TERMINATE_AND_SET_QUOTA = 0x0101


def ask_tree(process: subprocess.Popen[bytes]) -> None:
    """Send Ctrl+Break to the group that `process` leads, as a terminal would; without a console nothing hears it."""
    with contextlib.suppress(OSError):
        process.send_signal(CTRL_BREAK_EVENT)


def end_tree(
    process: subprocess.Popen[bytes],
    *,
    run: Callable[..., object] = subprocess.run,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """End `process` and what it has started, from below: ended alone, it would leave that without a way to find it."""
    # by its path: a program of that name may lie in the working directory
    program = ntpath.join(environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
    command = [program, "/T", "/F", "/PID", str(process.pid)]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        run(command, check=False, timeout=5.0, **quiet)
    with contextlib.suppress(OSError):
        process.kill()


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("least_working_set", ctypes.c_size_t),
        ("most_working_set", ctypes.c_size_t),
        ("processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION, of which only the flags are set."""

    _fields_ = (
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


class WindowsJob:
    """A job by Windows' `kernel32`: nobody inherits its handle, so it ends with this process or with `close`.

    Where none can be made, or a child cannot be put into it, children run as if there were none.
    """

    def __init__(self, kernel32: Any) -> None:
        self._kernel32 = kernel32
        kernel32.CreateJobObjectW.restype = ctypes.c_void_p  # a handle is as wide as a pointer
        kernel32.OpenProcess.restype = ctypes.c_void_p
        kernel32.SetInformationJobObject.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)
        kernel32.AssignProcessToJobObject.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        kernel32.CloseHandle.argtypes = (ctypes.c_void_p,)
        self._job = kernel32.CreateJobObjectW(None, None)
        limits = ExtendedLimits()
        limits.basic.flags = _KILL_ON_JOB_CLOSE
        size = ctypes.sizeof(limits)
        if self._job and not kernel32.SetInformationJobObject(self._job, _EXTENDED_LIMITS, ctypes.byref(limits), size):
            self.close()

    def add(self, pid: int) -> bool:
        """Put a process that somebody holds open into the job, and all that it starts from now on."""
        process = self._kernel32.OpenProcess(_TERMINATE_AND_SET_QUOTA, False, pid) if self._job else None
        if not process:
            return False
        try:
            return bool(self._kernel32.AssignProcessToJobObject(self._job, process))
        finally:
            self._kernel32.CloseHandle(process)

    def close(self) -> None:
        """End all that runs in it."""
        job, self._job = self._job, None
        if job:
            self._kernel32.CloseHandle(job)
