"""Asking whether another process of this machine still runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_SYNCHRONIZE = 0x0010_0000
_TIMED_OUT = 0x102
_ACCESS_DENIED = 5


def runs(pid: int) -> bool:
    """Return whether a process runs, another user's included."""
    if sys.platform == "win32":
        import ctypes

        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel32.OpenProcess.restype = ctypes.c_void_p  # a handle is as wide as a pointer
        kernel32.WaitForSingleObject.argtypes = (ctypes.c_void_p, ctypes.c_ulong)
        kernel32.CloseHandle.argtypes = (ctypes.c_void_p,)
        return runs_on_windows(pid, kernel32, ctypes.get_last_error)
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def runs_on_windows(pid: int, kernel32: Any, last_error: Callable[[], int]) -> bool:
    """Return the same by Windows' `kernel32`, where `os.kill(pid, 0)` would send Ctrl+C to a console's processes."""
    handle = kernel32.OpenProcess(_SYNCHRONIZE, False, pid)
    if not handle:
        return last_error() == _ACCESS_DENIED
    try:
        # somebody may hold an ended process open: it is there, and no wait for it lasts
        return bool(kernel32.WaitForSingleObject(handle, 0) == _TIMED_OUT)
    finally:
        kernel32.CloseHandle(handle)
