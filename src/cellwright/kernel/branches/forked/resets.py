"""The steps that a forked process takes before it may live, in their order; each names what was seen without it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cellwright.kernel.branches.forked.descriptors import cut_descriptors, make_maps_private
from cellwright.kernel.branches.forked.library_resets import renew_libraries
from cellwright.kernel.branches.forked.outlet import Outlet
from cellwright.kernel.branches.forked.secrets import overwrite_in_memory
from cellwright.kernel.branches.forked.shell_resets import renew_files, renew_loop, renew_shell, renew_streams

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_libc: ctypes.CDLL
if sys.platform != "win32":
    _libc = ctypes.CDLL(None, use_errno=True)
_DEATH_SIGNAL = 1


class Forked(NamedTuple):
    """The things that the steps work on. `kept`: the descriptors that are the process's own; `parent`: who must live, too.

    `environ`: the variables that are left. `secrets`: what is to be overwritten. Both are worked out in the kernel, where
    the patterns that takes are compiled once.
    """

    shell: InteractiveShell
    outlet: Outlet
    kept: tuple[int, ...]
    parent: int
    may_read: Callable[[str], bool]
    environ: Mapping[str, str]
    secrets: Sequence[bytes]


class Reset(NamedTuple):
    """One step by its name; a test leaves one out and sees what it is for.

    `before_ready`: the kernel waits for it. The others are done before the first branch, and never for undo.
    """

    name: str
    do: Callable[[Forked], object]
    before_ready: bool = True


def leave_group(parent: int) -> None:
    """A group of its own, and an end with its parent.

    Jupyter interrupts the kernel's *group*: an interrupt of a cell would end a snapshot. Killed, a kernel ends nothing.
    """
    os.setpgid(0, 0)
    end_with_parent(parent)
    # where memory runs out, this goes and the kernel stays
    Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.settrace(None)
    sys.setprofile(None)
    threading.settrace(None)
    threading.setprofile(None)


def end_with_parent(parent: int, sign: signal.Signals | None = None) -> None:
    """Get `sign` (default: SIGKILL) when the thread that forked this process ends; exit if it has ended already."""
    _libc.prctl(_DEATH_SIGNAL, sign or signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(71)


def _set_environment(forked: Forked) -> None:
    os.environ.clear()
    os.environ.update(forked.environ)


RESETS: Sequence[Reset] = (
    Reset("group", lambda forked: leave_group(forked.parent)),
    Reset("descriptors", lambda forked: cut_descriptors(forked.kept, forked.may_read)),
    Reset("maps", lambda _: make_maps_private()),
    Reset("loop", lambda _: renew_loop()),
    Reset("streams", lambda forked: renew_streams(forked.outlet)),
    Reset("files", lambda forked: renew_files(forked.shell.user_ns)),
    Reset("shell", lambda forked: renew_shell(forked.shell, forked.outlet)),
    Reset("libraries", lambda _: renew_libraries()),
    # no keys and tokens: a branch is given its own, and the memory of a snapshot is every branch's
    Reset("environment", _set_environment, before_ready=False),
    # looks through all memory of Python's objects, which takes longer than all the rest
    Reset("secrets", lambda forked: overwrite_in_memory(forked.secrets), before_ready=False),
)
