"""Children end with us, also when we are killed: a watchdog holds the other end of a pipe.

Each shell first writes its process group into the pipe, then runs its command. When nobody holds the pipe any more (this
process ended, however), the watchdog ends every group that was not signed off. It covers what stays in the group: a program that
makes a session of its own (`setsid`, a daemon) leaves it, and lives on as it would after any shell.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading

_WATCHDOG = """
trap '' INT TERM HUP QUIT
groups=' '
while read -r sign group; do
  case $sign in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s TERM -- "-$group" 2>/dev/null; done
[ "$groups" = ' ' ] || sleep 0.3
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"""


class Watchdog:
    """The process that outlives this one by a moment. Started at the first child, one for each process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()
        self._pid = os.getpid()

    def pipe(self) -> int:
        """The descriptor into which a child writes `+ GROUP` first; it must close it before it runs anything."""
        with self._lock:
            if self._pid != os.getpid():
                self._forget()
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._pipe is not None
            return self._pipe

    def began(self, group: int) -> None:
        """A child signed itself on; groups that have ended since are signed off."""
        with self._lock:
            self._groups.add(group)
            for other in [other for other in self._groups if other != group and not is_alive(other)]:
                self._sign_off(other)

    def ended(self, group: int) -> None:
        """Sign a group off, unless something in it still runs."""
        with self._lock:
            if group in self._groups and not is_alive(group):
                self._sign_off(group)

    def stop(self) -> None:
        """End what is left of the children, and the watchdog."""
        with self._lock:
            if self._pipe is not None:
                os.close(self._pipe)
            process, self._process, self._pipe = self._process, None, None
            self._groups.clear()
        if process is not None:
            process.wait(5)

    def _start(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
        reader, self._pipe = os.pipe()
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "cellwright-watchdog"],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,  # the kernel's group is killed as one
        )
        os.close(reader)
        for group in self._groups:
            os.write(self._pipe, b"+ %d\n" % group)

    def _sign_off(self, group: int) -> None:
        self._groups.discard(group)
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._pipe, b"- %d\n" % group)

    def _forget(self) -> None:
        """In a forked child: the watchdog is the parent's, and must not wait for us."""
        if self._pipe is not None:
            os.close(self._pipe)
        self._pid, self._pipe, self._process = os.getpid(), None, None
        self._groups = set()


watchdog = Watchdog()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=watchdog._forget)


def is_alive(group: int) -> bool:
    """Whether any process of the group is there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end_group(group: int, sign: signal.Signals) -> None:
    """Send a signal to every process of the group; nothing happens when there is none left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sign)
