"""Ending children on Windows, which knows no groups that are signalled: a console's group is asked, a tree is ended.

What has left the tree (its parent has ended) is not found, and ends with us (`windows_job.py`).
"""

from __future__ import annotations

import contextlib
import ntpath
import os
import subprocess
from collections.abc import Callable, Mapping

CTRL_BREAK_EVENT = 1
TASKKILL_SECONDS = 5.0


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
        run(command, check=False, timeout=TASKKILL_SECONDS, **quiet)
    with contextlib.suppress(OSError):
        process.kill()
