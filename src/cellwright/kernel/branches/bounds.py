"""The bounds of a branch, resolved in the kernel, and the forked process that enters them before it runs code of Claude's.

A branch reads as a command that runs unasked does and writes in a folder of its own. It has no network, also to sockets by
their path, and reaches no other process: it sees its own in `/proc`, and what it starts stays within the same bounds.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox import landlock, seccomp
from cellwright.sandbox.confined_process import marked_processes, new_mark
from cellwright.sandbox.mechanisms import copied_configuration, try_landlock
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.profile import confined_environment
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError, bounds_of
from cellwright.tools.process.runner import child_environment

if sys.platform != "win32":
    import resource


class BranchBounds(Struct, frozen=True):
    """The bounds of one branch as they came out on this disk: made in the kernel, entered in the branch.

    `environ` are the variables of the branch: no secrets, no ways to sockets, its own temporary and cache folders. `mark` is
    carried by all that it starts, wherever that goes (`sandbox/confined_process.py`).
    """

    bounds: Bounds
    version: int
    environ: Mapping[str, str]
    mark: int

    def enter(self, *, outer: bool = False) -> None:
        """Confine this process for good. Raises ConfinementError: then no code of Claude's may run in it.

        It must have one thread, since others would stay outside; the caller has cut what it inherited. `outer`: it runs
        none, and forks branches, which enter bounds of their own within these.
        """
        if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208 - names are counted
            message = "other threads run in the process that is to be confined"
            raise ConfinementError(message)
        if os.getpgrp() != os.getpid():  # a signal to the own group is let through
            os.setpgid(0, 0)
        os.environ.clear()
        os.environ.update(self.environ)
        tempfile.tempdir = None
        if outer:
            landlock.confine_this_thread(self.bounds, self.version, outer=True)
            return
        _carry(self.mark)
        own = f"/proc/{os.getpid()}"
        os.open(own, os.O_PATH)  # for as long as it lives: a rule holds the file, and its name would lead to a new one
        bounds = replace(self.bounds, data=(*self.bounds.data, own))
        landlock.confine_this_thread(bounds, self.version, processes=False)


@functools.cache
def branches_enforced() -> str | None:
    """The reason why this machine cannot hold a branch to its bounds, a sentence; None if it can."""
    if sys.platform != "linux":
        return f"Branches are confined by Linux; this is {platform.system()}."
    if not seccomp.machine():
        return f"Branches cannot be confined: no filter of system calls for {os.uname().machine}."
    reason = try_landlock(landlock.abi())
    return f"Branches cannot be confined: {reason}." if reason else None


def branch_bounds(
    confinement: Confinement,
    private: PrivateFolder,
    *,
    cwd: str,
    writable: Sequence[str] = (),
    copies: PrivateFolder | None = None,
    environ: Mapping[str, str] | None = None,
    version: int | None = None,
) -> BranchBounds:
    """Find what `confinement` comes to for a branch that may write in the folders of `private` and in `writable` only.

    `confinement` is that of a command that runs unasked; whatever it allows besides reading is left out. `environ` is the
    kernel's (default: this process's) and `version` that of Landlock (default: this machine's). Copies of configuration are
    made below `copies` (default: `private`), where nobody confined may write: the kernel itself follows the names there.
    Raises ConfinementError.
    """
    environ = os.environ if environ is None else environ
    reading = Confinement(read=confinement.read, hidden=confinement.hidden, hides=confinement.hides)
    steering = confined_environment(environ, private.temporary, private.caches)
    copies = copies or private
    copied = copied_configuration(reading, steering, copies)
    bounds = bounds_of(reading, steering, cwd, (*private.writable, *writable), copied.values())
    landlock.check(bounds)
    variables = confined_environment({**child_environment(environ), **copied}, private.temporary, private.caches)
    variables["COVERAGE_FILE"] = f"{private.caches}/coverage"
    if backend := environ.get("MPLBACKEND"):
        variables["MPLBACKEND"] = backend  # it draws for the notebook, and a command does not
    return BranchBounds(bounds, landlock.abi() if version is None else version, variables, new_mark())


def end_marked(mark: int, but: int = 0) -> bool:
    """End all that carries `mark`, the branch and whatever left it; return whether nothing of it runs any more.

    Process `but` lives on.
    """
    # processes that are being ended may start others meanwhile; with each round there are fewer
    for _ in range(100):
        running = [pid for pid in marked_processes(mark) if pid not in (os.getpid(), but) and not _has_ended(pid)]
        if not running:
            return True
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return False


def _has_ended(pid: int) -> bool:
    """Return whether a process is gone, or waits for nothing but its parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - for each of many processes
            return stat.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return True


def _carry(mark: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_RTTIME)
    if before[1] != resource.RLIM_INFINITY:
        message = "the kernel has a limit of real-time computing, by which the processes of a branch would be found"
        raise ConfinementError(message)
    resource.setrlimit(resource.RLIMIT_RTTIME, (mark, before[1]))
