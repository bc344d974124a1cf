"""Run in an interpreter of its own: have it look like Windows as far as imports and the type checker's view go.

`python as_on_windows.py MODULE...` imports these modules of the package (default: all) without what only POSIX has, and
prints what failed; `enter` does the same for a program.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pkgutil
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Sequence

POSIX_MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
_OF_OS = """
    fork forkpty geteuid getegid getuid getgid getpgid getpgrp getsid killpg setpgid setsid setuid setgid chown fchown lchown
    chroot fchdir getxattr listxattr setxattr removexattr mkfifo mknod memfd_create nice pidfd_open pread pwrite sysconf
    sched_getaffinity sendfile uname wait3 wait4 register_at_fork getloadavg major minor makedev WNOHANG SEEK_DATA SEEK_HOLE
    O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_PATH O_TMPFILE MFD_CLOEXEC MFD_ALLOW_SEALING
"""
_OF_SIGNAL = """
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH SIGXFSZ ITIMER_REAL
    ITIMER_VIRTUAL ITIMER_PROF SIG_BLOCK SIG_SETMASK setitimer pthread_kill pthread_sigmask siginterrupt sigwait alarm
"""
_OF_SOCKET = "AF_UNIX AF_NETLINK CMSG_SPACE CMSG_LEN SCM_RIGHTS SO_PEERCRED send_fds recv_fds"
NOT_THERE = {os: _OF_OS.split(), signal: _OF_SIGNAL.split(), socket: _OF_SOCKET.split()}


class NoPosix:
    """Refuses the modules that Windows has not."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in POSIX_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class _Library(ctypes.CDLL):
    """A library, but not the process itself as one."""

    def __init__(self, name: str | None, **options: object) -> None:
        if name is None:
            raise TypeError("argument of type 'NoneType' is not iterable")
        super().__init__(name, **options)


_PROGRAMS = ("unittest_reporter", "fresh_kernel_main", "__main__")


def all_modules() -> Iterator[str]:
    import cellwright

    for each in pkgutil.walk_packages(cellwright.__path__, "cellwright."):
        # a user's project, and what runs as a program
        if "sample_project" not in each.name and not each.name.endswith(
            ("unittest_reporter", "fresh_kernel_main", "__main__")
        ):
            yield each.name


def enter(names: Sequence[str]) -> None:
    """Look like Windows from now on. Other people's modules are loaded before, by importing ours `names`."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("cellwright"):
                raise  # else a package that is not installed
    for name in [name for name in sys.modules if name.startswith("cellwright") or name in (*names, *POSIX_MODULES)]:
        del sys.modules[name]
    sys.meta_path.insert(0, NoPosix())
    for module, missing in NOT_THERE.items():
        for name in missing:
            if hasattr(module, name):
                delattr(module, name)
    ctypes.CDLL = _Library
    sys.platform = "win32"


def failures(names: Sequence[str]) -> Iterator[str]:
    """Import the modules and give what failed in code of ours."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  all that an import can meet
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
            ours = [frame for frame in frames if "/cellwright/" in frame.filename]
            where = f"{ours[-1].filename.rpartition('/cellwright/')[2]}:{ours[-1].lineno}" if ours else ""
            if isinstance(error, ModuleNotFoundError) and error.name not in POSIX_MODULES:
                continue  # a package that is not installed
            yield f"{name} ({where}): {type(error).__name__}: {error}"


if __name__ == "__main__":
    asked = sys.argv[1:] or [*all_modules()]
    enter(asked)
    for failure in failures(asked):
        print(failure)
