"""Child processes that end with us, also when we are killed: groups, marks, and a watchdog that outlives us briefly.

Each child leads a group of its own and carries a mark in its environment. The watchdog, one tiny process, reads from
a pipe which groups there are; when the pipe ends, because this process has, however it did, it ends them. Covered
are:

    the child and all that stays in its group      everywhere
    what left the group (`setsid`, a daemon)       on Linux, by the mark
    the same with a cleared environment (`env -i`) on Linux, by a limit that bounds nothing: a confined process can't
                                                   change it; others could, and only have it where memory is bounded

    what runs in a container of ours               everywhere: the container is removed

Not covered: what somebody else starts for the child (systemd-run, a container engine, at, another machine).

On Windows, which has neither groups nor a shell, a child and what runs below it are ended, and a job object ends what is
left when this process has ended (`windows.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement, in_engine
from cellwright.sandbox.confined_process import SAME_DIGITS, marked_processes, new_mark
from cellwright.text import lazy_pattern
from cellwright.this_process.files import process_folder

if TYPE_CHECKING:
    from cellwright.sandbox.confined_process import ConfinedProcess
    from cellwright.sandbox.containers.images import Making
    from cellwright.sandbox.containers.pool import ContainerPool
    from cellwright.sandbox.mechanisms import Sandbox, Start
    from cellwright.sandbox.private_folder import PrivateFolder
    from cellwright.tools.process.windows import WindowsJob

GRACE_SECONDS = 0.08
"""Between asking a group to end and ending it."""

STOP_SECONDS = 2.0
"""The time the watchdog may take to end what is left."""

KILL = 9
"""SIGKILL, which has no name on Windows."""

MARK_NAME = "CELLWRIGHT_CHILD"

# $1 is the mark, and $2 begins the limits that are marks, too (sandbox/confined_process.py); groups come as lines
# `+ GROUP` and `- GROUP`, the folder to remove at the end as `f FOLDER`, and a command to run then as `c COMMAND`;
# `x` is: none of these
_WATCHDOG = """
trap '' INT TERM HUP QUIT
groups=' '
while read -r sign group; do
  case $sign in
    +) groups="$groups$group " ;;
    f) folder=$group ;;
    c) at_end="$at_end$group >/dev/null 2>&1 &
" ;;
    x) at_end= ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
end() {
  for group in $groups; do kill -s "$1" -- "-$group" 2>/dev/null; done
  for file in $(grep -laF "$2" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    kill -s "$1" "${pid%/environ}" 2>/dev/null && left=1
  done
  for file in $(grep -la "^Max [a-z ]* $3[0-9]* " /proc/[0-9]*/limits 2>/dev/null); do
    pid=${file#/proc/}
    pid=${pid%/limits}
    # the limit of a confined process was ours for a moment, and another child may have it from us
    if ! grep -q "^Max resident set * $3" "$file"; then
      filters=$(grep Seccomp_filters: "/proc/$pid/status" 2>/dev/null) || continue
      [ "$filters" = "$own" ] && continue
    fi
    kill -s "$1" "$pid" 2>/dev/null && left=1
  done
}
own=$(grep Seccomp_filters: /proc/self/status 2>/dev/null)
end TERM "$1" "$2"
[ "$groups$left" = ' ' ] || sleep 0.2
left=1
for again in 1 2 3 4 5 6 7 8; do  # what begins others all the time is met again
  [ -n "$left" ] || break
  left=
  end KILL "$1" "$2"
done
eval "$at_end"
wait
[ -z "$folder" ] && exit
chmod -R u+rwX -- "$folder" 2>/dev/null
rm -rf -- "$folder"
"""


# the limit is set before the program begins, so that nothing that it starts can be without it; a lower one stays
_BOUND_MEMORY = 'ulimit -d "$0" 2>/dev/null; ulimit -S -m "$1" 2>/dev/null; shift; exec "$@"'
_SHELL_NAME = lazy_pattern("[A-Za-z_][A-Za-z0-9_]*")


class Command(Struct, frozen=True, kw_only=True):
    """A program to start: its arguments, the folder it runs in, its environment, and what bounds it.

    `own_variables` are set besides `environ`: whoever wrote the command may have chosen them, so they steer no sandbox.
    `memory_mb` is the private memory, in MiB, that it and each process that it starts may take, where the system can bound
    that (None: no bound). `read_only` says that it changes nothing and leaves nothing behind, as a search does: it leads a
    group but no session, and is killed at once instead of being asked to end. `confinement` is what it may touch (None: no
    bounds); a program that is confined and cannot be is not started. `keeps_changes` is asked on a thread with its exit
    code whether changes that were staged are made (None: they are). `proxy_port` is where the proxy listens by which a
    confined program reaches the hosts that it may reach. `folder_id` is the identity that the folder `cwd` must still
    have: another one in its place is not entered (None: whichever is there).
    `says` gets, from any thread, what is shown while an image for its container is fetched or built.

    What a child may do is said here and enforced by `ChildProcesses.start`, and nowhere else: a limit or a sandbox then
    holds alike for shell commands, hooks, searches, git, tests, linters and fresh kernels.
    """

    arguments: Sequence[str]
    cwd: Path
    environ: Mapping[str, str]
    own_variables: Mapping[str, str] = {}
    memory_mb: int | None = None
    read_only: bool = False
    confinement: Confinement | None = None
    proxy_port: int | None = None
    folder_id: FolderId | None = None
    keeps_changes: Callable[[int], bool] | None = None
    says: Callable[[str], object] | None = None

    @property
    def whole_environ(self) -> dict[str, str]:
        """All variables that it gets."""
        return {**self.environ, **self.own_variables}


FolderId = tuple[int, int]
"""A folder's device and inode: what stays when its name leads elsewhere."""


def folder_id(folder: str | int | Path) -> FolderId:
    """Return the identity of a folder, or of the one that a descriptor is open on. Raises OSError."""
    found = os.stat(folder)  # noqa: PTH116  a descriptor too
    return found.st_dev, found.st_ino


class Launched(NamedTuple):
    """A process that was started and that nobody follows yet."""

    process: subprocess.Popen[bytes]
    mark: str
    read_only: bool
    confined: ConfinedProcess | None
    limit_mark: int


class Child:
    """One running child, the leader of its group. Made by `ChildProcesses.start`, on a running loop."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        mark: str,
        *,
        read_only: bool,
        confined: ConfinedProcess | None = None,
        limit_mark: int = 0,
    ) -> None:
        self.group = process.pid
        self.mark = mark
        self._limit_mark = limit_mark
        self._process = process
        self._read_only = read_only
        self._confined = confined
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = loop.create_future()
        # a thread of its own: asyncio's watchers differ between versions, and some need the main thread
        threading.Thread(target=self._wait, args=(loop,), name="cellwright-child", daemon=True).start()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self._process.wait() if self._confined is None else self._confined.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(self.exited.set_result, code)

    @property
    def told(self) -> str:
        """The reason why a sandbox has not made what it changed, once it has ended; "" where there is none."""
        return "" if self._confined is None else self._confined.told

    @property
    def made_protected(self) -> tuple[str, ...]:
        """The protected places that it made in a container, once it has ended."""
        return () if self._confined is None else self._confined.made_protected

    @property
    def ended_rest(self) -> bool:
        """True if what the command left running was ended, so that its changes could be made."""
        return self._confined is not None and self._confined.ended_rest

    @property
    def left_behind(self) -> bool:
        """True when something of the group runs on although its leader has ended."""
        return self.exited.done() and self.is_alive()

    def is_alive(self) -> bool:
        """Return whether anything of the group is there; never known where there are no groups."""
        if self._confined is not None and self._confined.ended:
            return False
        return is_alive(self.group)

    def release(self) -> None:
        """Give back what a sandbox held, once nothing of the group is there."""
        if self._confined is not None:
            self._confined.close()

    def kill(self) -> None:
        """End the group and what left it, now and without waiting."""
        self._signal(KILL)

    async def end(self) -> None:
        """End the group and what left it: ask, wait a moment, insist. Takes 0.12 s at most, whatever the children do.

        What only reads is not asked.
        """
        if self._read_only:
            if not self.exited.done():
                self.kill()
                await asyncio.wait({self.exited}, timeout=GRACE_SECONDS)
            return
        self._signal(signal.SIGTERM)
        await self._wait_until_gone(GRACE_SECONDS)
        self._signal(KILL)
        # what hangs in the operating system dies when that lets go of it; its thread reaps it then
        await self._wait_until_gone(GRACE_SECONDS / 2)

    def _signal(self, sign: int) -> None:
        if sys.platform == "win32":
            from cellwright.tools.process.windows import ask_tree, end_tree  # Windows only

            if sign == KILL:
                end_tree(self._process)
            else:
                ask_tree(self._process)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, sign)
        if self._read_only:  # nothing has left the group, and looking for it would take longer than most searches
            return
        found = _marked(f"{MARK_NAME}={self.mark}\0".encode())
        for pid in dict.fromkeys((*found, *marked_processes(self._limit_mark))):  # those that left the group, too
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != self.group:  # the group has heard it: what it does then, it does once
                    os.kill(pid, sign)

    async def _wait_until_gone(self, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while not self.exited.done() or self.is_alive():
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.005)


class ChildProcesses:
    """The children of this process and their watchdog, which is started with the first of them."""

    def __init__(self, find_sandbox: Callable[[], Sandbox | None] | None = None) -> None:
        """Confine commands by what `find_sandbox` finds (default: the sandbox of this machine)."""
        self._lock = threading.RLock()
        self._find_sandbox = find_sandbox
        self._mark = secrets.token_hex(12)
        self._limit_mark = new_mark()
        self._count = 0
        self._groups: dict[int, Child] = {}
        self._pipe: int | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._job: WindowsJob | None = None
        self._private: PrivateFolder | None = None
        self._containers: ContainerPool | None = None
        self._end_commands: list[str] = []
        self._folder: Path | None = None
        if hasattr(os, "register_at_fork"):
            # a forked worker that held the pipe would keep the watchdog from seeing our end
            os.register_at_fork(after_in_child=self._forget)

    def start(
        self,
        command: Command,
        *,
        output: int,
        errors: int | None = None,
        source: int = subprocess.DEVNULL,
        inherited: Sequence[int] = (),
    ) -> Child:
        """Start `command`: every child of ours begins here, so that what a `Command` asks for holds for each of them.

        It writes to the descriptor `output` and, where that is given, its errors to `errors`; it reads from `source` and
        has the descriptors `inherited` besides. Raises OSError and, for a NUL byte, ValueError.
        """
        launched = self.launch(command, output=output, errors=errors, source=source, inherited=inherited)
        return self.adopt(launched)

    def launch(
        self,
        command: Command,
        *,
        output: int,
        errors: int | None = None,
        source: int = subprocess.DEVNULL,
        inherited: Sequence[int] = (),
        making: Making | None = None,
    ) -> Launched:
        """The first half of `start`, from any thread; `adopt` must follow. Raises what `start` raises.

        `making` is told of an image that a container needs first, and can stop that.
        """
        with self._lock:
            self._count += 1
            mark = f"{self._mark}.{self._count}"
            # as many children have different limits; a mark is in whole KiB, and its first digits are those of all
            limit_mark = self._limit_mark + self._count % 900 * 1024
        self.watch()
        # a session of its own has a share of its own of a busy processor, and may wait for it longer than a search takes;
        # but what is confined must not have the user's terminal
        session = not command.read_only or command.confinement is not None

        def start(
            arguments: Sequence[str], environ: Mapping[str, str], more: Sequence[int] = ()
        ) -> subprocess.Popen[bytes]:
            systems_own: dict[str, Any]
            if sys.platform == "win32":  # it hands on no other descriptors
                systems_own = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
            else:
                systems_own = {
                    "pass_fds": (*inherited, *more),
                    "start_new_session": session,
                    "process_group": None if session else 0,
                }
            process: subprocess.Popen[bytes] = subprocess.Popen(
                arguments,
                cwd=cwd,
                env={**environ, MARK_NAME: mark},
                stdin=source,
                stdout=output,
                stderr=output if errors is None else errors,
                **systems_own,
            )
            if self._job is not None:
                self._job.add(process.pid)
            return process

        confined = None
        with _entered(command) as cwd:
            if command.confinement is None:
                process = start(_arguments(command, limit_mark), command.whole_environ)
            else:
                confined = self._start_confined(
                    command, command.confinement, start, limit_mark, mark, inherited, making
                )
                confined.keeps = command.keeps_changes
                process = confined.process
        if command.read_only and command.memory_mb is not None:
            _bound_memory(process.pid, command.memory_mb)
        return Launched(process, mark, command.read_only, confined, limit_mark)

    def adopt(self, launched: Launched) -> Child:
        """The second half of `start`: follow what was launched. On a running loop."""
        child = Child(
            launched.process,
            launched.mark,
            read_only=launched.read_only,
            confined=launched.confined,
            limit_mark=launched.limit_mark,
        )
        with self._lock:
            self._groups[child.group] = child
            self._write(f"+ {child.group}\n")
        return child

    def _start_confined(
        self,
        command: Command,
        confinement: Confinement,
        start: Start,
        limit_mark: int,
        mark: str,
        inherited: Sequence[int],
        making: Making | None,
    ) -> ConfinedProcess:
        """Start `command` by `start` in the sandbox. Raises ConfinementError, an OSError, where it would not be confined."""
        from cellwright.sandbox.mechanisms import (
            find_sandbox,  # most processes confine nothing
            may_look_at_processes,
        )

        if confinement.container is not None:
            from cellwright.sandbox.containers.engine import called_inside

            command = replace(command, arguments=called_inside(command.arguments, confinement))
        if in_engine(confinement):
            return self._start_in_container(command, confinement, start, mark, inherited, making)
        if confinement.container is None:
            _check_program(command)  # the sandbox would tell by its exit code alone
        sandbox = (self._find_sandbox or find_sandbox)()
        if sandbox is None:
            message = "it was to be confined, and this machine has no sandbox (`/sandbox` says why)"
            raise OSError(message)
        private = self._private_folder()
        return sandbox.start(
            start,
            _arguments(command, limit_mark),
            confinement,
            cwd=command.cwd,
            environ=command.environ,
            own_variables=command.own_variables,
            private=private,
            proxy_port=command.proxy_port,
            processes=may_look_at_processes(command.arguments),
            mark=limit_mark,
        )

    def _start_in_container(
        self,
        command: Command,
        confinement: Confinement,
        start: Start,
        mark: str,
        inherited: Sequence[int],
        making: Making | None,
    ) -> ConfinedProcess:
        from cellwright.sandbox.containers.pool import ContainerPool  # few sessions have one

        private = self._private_folder()
        with self._lock:
            pool = self._containers = self._containers or ContainerPool(self._removed_at_end)
        return pool.start(
            start,
            command.arguments,
            confinement,
            cwd=command.cwd,
            environ=command.environ,
            own_variables=command.own_variables,
            private=private,
            memory_mb=command.memory_mb,
            mark=f"{MARK_NAME}={mark}",
            inherited=inherited,
            making=making,
        )

    def _private_folder(self) -> PrivateFolder:
        from cellwright.sandbox.private_folder import PrivateFolder  # most processes confine nothing

        with self._lock:
            self._private = PrivateFolder() if self._private is None else self._private.mended()
            return self._private

    def _removed_at_end(self, command: str) -> None:
        """Have the watchdog run `command`, a line for the shell, when this process is gone."""
        with self._lock:
            self._end_commands.append(command)
            self._write(f"c {command}\n")

    @property
    def running(self) -> bool:
        """True while a child, or something that one has left in its group, runs on."""
        with self._lock:
            return any(child.is_alive() for child in self._groups.values())

    def stop(self) -> None:
        """End what is left of the children, and the watchdog."""
        with self._lock:
            watchdog, self._watchdog = self._watchdog, None
            pipe, self._pipe = self._pipe, None
            private, self._private = self._private, None
            containers, self._containers = self._containers, None
            job, self._job = self._job, None
            children, self._groups = self._groups, {}
        if containers is not None:
            containers.close()
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(pipe, b"f\nx\n")  # the process goes on, and removes its folder itself
            os.close(pipe)
        if watchdog is not None:
            try:
                watchdog.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:  # foreign code forked and holds the pipe
                watchdog.kill()
                watchdog.wait()
        if job is not None:
            job.close()
        for child in children.values():
            child.release()
        if private is not None:
            private.close()

    def mark_for_others(self) -> str:
        """Have the watchdog run, and give the mark of a process that was not started here: what carries it ends with us."""
        self.watch()
        return f"{self._mark}.0"

    def watch(self) -> None:
        """Have the watchdog run: it ends what a child leaves, and removes this process's temporary files."""
        if sys.platform == "win32":
            import ctypes

            from cellwright.tools.process.windows import WindowsJob  # Windows only

            with self._lock:
                self._job = WindowsJob(ctypes.WinDLL("kernel32")) if self._job is None else self._job
            return
        with self._lock:
            if self._watchdog is not None and self._watchdog.poll() is None:
                self._name_folder()
                return
            if self._pipe is not None:
                os.close(self._pipe)
            reader, self._pipe = os.pipe()
            try:
                self._watchdog = subprocess.Popen(
                    [
                        "/bin/sh",
                        "-c",
                        _WATCHDOG,
                        "cellwright-watchdog",
                        f"{MARK_NAME}={self._mark}.",
                        str(self._limit_mark)[:SAME_DIGITS],
                    ],
                    stdin=reader,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={"PATH": os.defpath, "LC_ALL": "C"},
                    cwd="/",
                    start_new_session=True,  # Jupyter kills the kernel's whole group
                )
            finally:
                os.close(reader)
            for group in self._groups:
                self._write(f"+ {group}\n")
            for line in self._end_commands:
                self._write(f"c {line}\n")
            self._folder = None
            self._name_folder()

    def _name_folder(self) -> None:
        """Tell the watchdog which folder it is to remove: another, where somebody has tidied up."""
        with contextlib.suppress(OSError):  # then there is nothing to remove
            if (folder := process_folder()) != self._folder:
                self._folder = folder
                self._write(f"f {folder}\n")

    def sweep(self) -> None:
        """Have the watchdog forget the groups that have ended: their numbers may be given to others."""
        with self._lock:
            ended = [child for child in self._groups.values() if not child.is_alive()]
            for child in ended:
                del self._groups[child.group]
                self._write(f"- {child.group}\n")
        for child in ended:
            child.release()

    def _write(self, line: str) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # it was killed: the next child starts another
                os.write(self._pipe, line.encode())

    def _forget(self) -> None:
        """In a forked process: watchdog and children are the parent's."""
        pipe, self._pipe, self._watchdog = self._pipe, None, None
        self._lock, self._groups, self._mark = threading.RLock(), {}, secrets.token_hex(12)
        self._limit_mark = new_mark()
        self._private, self._containers, self._end_commands = None, None, []
        if pipe is not None:
            os.close(pipe)


@functools.cache
def child_processes() -> ChildProcesses:
    """The children of this process: one watchdog serves every session in it."""
    return ChildProcesses()


@contextlib.contextmanager
def _entered(command: Command) -> Iterator[str]:
    """Give the path by which a child enters its folder. Raises OSError if another folder than the one meant is there.

    On Linux that path is a descriptor of the folder itself, so nothing that happens to names meanwhile leads elsewhere.
    bubblewrap alone goes by the name, within bounds that hold for every name.
    """
    if command.folder_id is None:
        yield str(command.cwd)
        return
    if sys.platform == "win32":  # which opens no folders
        _check_folder(folder_id(command.cwd), command)
        yield str(command.cwd)
        return
    # where there is O_PATH, a folder that may be entered and not listed will do
    opened = os.open(command.cwd, os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY))
    try:
        _check_folder(folder_id(opened), command)
        by_descriptor = f"/proc/self/fd/{opened}"
        yield by_descriptor if os.path.isdir(by_descriptor) else str(command.cwd)  # noqa: PTH112
    finally:
        os.close(opened)


def _check_folder(found: FolderId, command: Command) -> None:
    if found != command.folder_id:
        raise OSError(errno.ESTALE, "the folder has been replaced by another", str(command.cwd))


def _arguments(command: Command, limit_mark: int) -> Sequence[str]:
    """Build the arguments that start `command` with its memory bounded, and marked. Raises OSError if it is not found."""
    inside = command.confinement is not None and command.confinement.container is not None
    memory_mb = command.memory_mb
    container = None if command.confinement is None else command.confinement.container
    if container is not None and container.program == "bubblewrap":  # only it leaves the container's bound to us
        memory_mb = min((each for each in (memory_mb, container.memory_mb) if each is not None), default=None)
    if memory_mb is None or (command.read_only and not inside) or sys.platform == "win32":
        return command.arguments
    if not inside:
        _check_program(command)  # the shell in between would tell by its exit code alone
    # a shell drops the variables that could not be its own
    dropped = (
        []
        if inside
        else [f"{name}={value}" for name, value in command.whole_environ.items() if not _SHELL_NAME.fullmatch(name)]
    )
    restored = ["/usr/bin/env", "--", *dropped] if dropped else []
    bounds = [str(memory_mb * 1024), str(limit_mark // 1024)]
    return ["/bin/sh", "-c", _BOUND_MEMORY, *bounds, *restored, *command.arguments]


def _bound_memory(pid: int, memory_mb: int) -> None:
    """Bound the memory of a process that already runs.

    What it has started by then is without the bound, and a search starts nothing: a shell before it would cost 1 ms.
    """
    if sys.platform == "win32":
        return
    import resource  # not on Windows

    if hasattr(resource, "prlimit"):
        # it has ended already; a lower limit stays
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (memory_mb * 2**20,) * 2)


def _check_program(command: Command) -> None:
    program = command.arguments[0]
    file = command.cwd / program if os.sep in program else program
    if shutil.which(file, path=command.whole_environ.get("PATH", os.defpath)) is None:
        why = errno.EACCES if os.sep in program and os.path.exists(file) else errno.ENOENT  # noqa: PTH110
        raise OSError(why, os.strerror(why), program)


def is_alive(group: int) -> bool:
    """Return whether any process of the group is there; never known where there are no groups."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody is, under another user
        return True
    return True


def _marked(mark: bytes) -> list[int]:
    """The processes whose environment holds `mark`; none where the system does not tell."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        # gone meanwhile, or somebody else's
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found
