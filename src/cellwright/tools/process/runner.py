"""Running a program: given its input, listened to while it runs, bounded in time, and ended with all that it started.

All that a conversation runs is run by this: shell commands, hooks, searches, git, tests, linters, fresh kernels.
`child_environment` is what each gets: the user's own variables, less secrets and less what would run code in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict

from cellwright.redaction.redaction import is_secret
from cellwright.text import lazy_pattern
from cellwright.tools.process.child_processes import KILL, Child, ChildProcesses, Command, child_processes

THREAD_DRAIN_SECONDS = 2.0
"""The same where threads read: on a busy machine one may not have run yet since the program wrote its last words."""

CHUNK_BYTES = 64 * 1024

TakeOutput = Callable[[bytes], bool]
"""Gets the next piece of output; false means that it is enough, and the program is ended."""

_OURS = lazy_pattern(r"(ANTHROPIC|JPY|CELLWRIGHT)_.*", re.IGNORECASE)
"""Variables that are withheld whatever they hold: settings of the model, of the kernel and of ours."""

_INJECTION = lazy_pattern(
    r"""
    (BASH_FUNC_.* | BASH_ENV | ENV | SHELLOPTS | BASHOPTS | BASH_XTRACEFD | PS4 | PROMPT_COMMAND | CDPATH | GLOBIGNORE
    | EXECIGNORE | LD_PRELOAD | LD_AUDIT | DYLD_INSERT_LIBRARIES | PYTHONSTARTUP | PYTHONINSPECT | PERL5OPT | PERL5DB
    | RUBYOPT | LESSOPEN | LESSCLOSE | GIT_EXTERNAL_DIFF | GIT_ASKPASS | SSH_ASKPASS)
    """,
    re.VERBOSE,
)
_ELSEWHERE = lazy_pattern(r"FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|GIT_CONFIG_(COUNT|KEY_\d+|VALUE_\d+)")
"""The variables that ipykernel sets for its own output, whose colours would only cost tokens, and git's settings."""

_FIXED = {
    **{"CLAUDECODE": "1", "PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"},
    "GIT_OPTIONAL_LOCKS": "0",  # looking at a repository must not lock out what the user does in it
}


class OutputHead:
    """The beginning of an output, at most `most` bytes; the rest is thrown away, so that the program can end."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.cut = False
        self._most = most

    def take(self, chunk: bytes) -> bool:
        """Keep what there is room for."""
        room = self._most - len(self.data)
        self.data += chunk[:room]
        self.cut |= len(chunk) > room
        return True

    def text(self) -> str:
        """Return what was kept; what is not UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


class _Ends(TypedDict):
    """The descriptors of a child."""

    output: int
    errors: int | None
    source: int


class RunningProgram:
    """A program that has been started, with what it writes. Made on a running loop, to which it belongs.

    It is followed to its end whether anybody waits for it or not: `ended` is done when it has ended and its output was
    handed on. Where the loop is closed before that, it is killed.
    """

    def __init__(
        self,
        command: Command,
        *,
        output: TakeOutput | int,
        errors: TakeOutput | int | None = None,
        source: bytes = b"",
        keeps_input_open: bool = False,
        inherited: Sequence[int] = (),
        at_end: Callable[[], None] | None = None,
        children: ChildProcesses | None = None,
    ) -> None:
        """Start `command` as one of `children` (default: this process's) with `source` as its input.

        `output` takes its standard output, `errors` its standard error: functions that are called as it comes, or
        descriptors. Without `errors` both go to `output`. `keeps_input_open`: more input may follow (`send`). It has the
        descriptors `inherited` besides. `at_end` is called
        once, when nothing more will be handed on. Raises OSError when it cannot be started, ValueError for a NUL byte.
        """
        self._begin(children, at_end)
        with contextlib.ExitStack() as pipes:
            ends = self._open(pipes, output, errors, source, keeps_input_open=keeps_input_open)
            child = self._children.start(command, **ends, inherited=inherited)
            self._go_on(child, pipes)

    @classmethod
    async def started(
        cls,
        command: Command,
        *,
        output: TakeOutput | int,
        errors: TakeOutput | int | None = None,
        source: bytes = b"",
        inherited: Sequence[int] = (),
        at_end: Callable[[], None] | None = None,
        children: ChildProcesses | None = None,
    ) -> Self:
        """The same, started in a thread if it is to be confined: that takes milliseconds, in which the loop goes on.

        Cancelled, it leaves nothing running.
        """
        if command.confinement is None:
            return cls(
                command,
                output=output,
                errors=errors,
                source=source,
                inherited=inherited,
                at_end=at_end,
                children=children,
            )
        self = cls.__new__(cls)
        self._begin(children, at_end)
        with contextlib.ExitStack() as pipes:
            ends = self._open(pipes, output, errors, source, keeps_input_open=False)
            making = None
            if command.confinement.container is not None:
                from cellwright.sandbox.containers.images import Making  # few sessions have one

                making = Making(command.says)
            launch = functools.partial(self._children.launch, command, **ends, inherited=inherited, making=making)
            launching = self._loop.run_in_executor(None, launch)
            try:
                launched = await asyncio.shield(launching)
            except asyncio.CancelledError:
                if making is not None:
                    making.stop()
                await asyncio.wait({launching})
                if launching.exception() is None:
                    self._children.adopt(launching.result()).kill()
                raise
            self._go_on(self._children.adopt(launched), pipes)
        return self

    def _begin(self, children: ChildProcesses | None, at_end: Callable[[], None] | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._children = child_processes() if children is None else children
        self._enough: asyncio.Future[None] = self._loop.create_future()
        self._ending: asyncio.Task[None] | None = None
        self._at_end = at_end

    def _open(
        self,
        pipes: contextlib.ExitStack,
        output: TakeOutput | int,
        errors: TakeOutput | int | None,
        source: bytes,
        *,
        keeps_input_open: bool,
    ) -> _Ends:
        """Open the pipes that it needs; the ends that it gets."""
        self._outputs: list[_Output] = []

        def writer(sink: TakeOutput | int) -> int:
            if isinstance(sink, int):
                return sink
            pipe = pipes.enter_context(contextlib.closing(_Output(sink, self._has_enough)))
            self._outputs.append(pipe)
            return pipe.writer

        self._input = (
            pipes.enter_context(contextlib.closing(_Input(source, stays_open=keeps_input_open))) if source else None
        )
        return {
            "output": writer(output),
            "errors": None if errors is None else writer(errors),
            "source": subprocess.DEVNULL if self._input is None else self._input.reader,
        }

    def _go_on(self, child: Child, pipes: contextlib.ExitStack) -> None:
        """Follow `child`, which has the other ends of `pipes`."""
        self._child = child
        for pipe in self._outputs:
            pipe.start()
        if self._input is not None:
            self._input.start()
        self.ended = self._loop.create_task(self._follow(self._outputs, pipes.pop_all()))

    @property
    def exit_code(self) -> int:
        """Its exit code, once it has ended; negative for a signal."""
        # what hangs in the operating system was killed, and ends when that lets go of it
        return self._child.exited.result() if self._child.exited.done() else -KILL

    @property
    def told(self) -> str:
        """The reason why a sandbox has not made what it changed, once it has ended; "" where there is none."""
        return self._child.told

    @property
    def made_protected(self) -> tuple[str, ...]:
        """The protected places that it made in a container, once it has ended."""
        return self._child.made_protected

    @property
    def ended_rest(self) -> bool:
        """True if what the command left running was ended, so that its changes could be made."""
        return self._child.ended_rest

    @property
    def had_enough(self) -> bool:
        """True when it was ended because what took its output had enough."""
        return self._enough.done()

    @property
    def left_behind(self) -> bool:
        """True when something that it started runs on although it has ended."""
        return self._child.left_behind

    def send(self, data: bytes) -> None:
        """Give it more input, if that was kept open. What has ended takes nothing."""
        if self._input is not None:
            self._input.send(data)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; False when it has not come in `seconds`. Cancelled, it ends the program first."""
        try:
            await asyncio.wait({self.ended}, timeout=seconds)
        except asyncio.CancelledError:
            await self.end()
            raise
        return self.ended.done()

    async def drained(self) -> None:
        """Wait until all that a program has written is handed on, once nothing that may write runs any more."""
        if self._outputs:
            await asyncio.wait({pipe.at_end for pipe in self._outputs}, timeout=THREAD_DRAIN_SECONDS)

    async def finish(self, seconds: float) -> bool:
        """Wait for the end, and after `seconds` bring it about; False when that was necessary."""
        in_time = await self.wait(seconds)
        if not in_time:
            await self.end()
        return in_time

    async def end(self) -> None:
        """End the program and all that it started; goes on when its caller is cancelled once more."""
        if self._ending is None:

            async def end() -> None:
                await self._child.end()
                await asyncio.wait({self.ended})

            self._ending = self._loop.create_task(end())
        await asyncio.shield(self._ending)

    def _has_enough(self) -> None:
        if not self._enough.done():
            self._enough.set_result(None)

    async def _follow(self, outputs: Sequence[_Output], pipes: contextlib.ExitStack) -> None:
        with contextlib.ExitStack() as at_end:
            if self._at_end is not None:
                at_end.callback(self._at_end)
            at_end.callback(self._children.sweep)
            at_end.enter_context(pipes)
            try:
                either: set[asyncio.Future[Any]] = {self._child.exited, self._enough}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not self._child.exited.done():
                    await self._child.end()
                if outputs:
                    # what it left in the background may hold the pipes, and is not waited for
                    seconds = max(pipe.drain_seconds for pipe in outputs)
                    await asyncio.wait({pipe.at_end for pipe in outputs}, timeout=seconds)
            except asyncio.CancelledError:
                self._child.kill()  # the loop is being closed: nobody could end it later
                raise


def _wait_by(add: Callable[[int, Callable[[], None]], object], descriptor: int, call: Callable[[], None]) -> None:
    """Have a loop wait for a pipe by its method `add`. Raises NotImplementedError if it cannot: threads must then.

    On Windows one kind of loop says so, and the other, which Jupyter's kernels run, would fail when it next waits.
    """
    if sys.platform == "win32":
        raise NotImplementedError
    add(descriptor, call)
    os.set_blocking(descriptor, False)


class _Output:
    """The reading end of a pipe: what comes is handed on until there is enough or no more."""

    def __init__(self, take: TakeOutput, enough: Callable[[], None]) -> None:
        self.reader, self.writer = os.pipe()
        self._loop = asyncio.get_running_loop()
        self.at_end: asyncio.Future[None] = self._loop.create_future()
        self._take: TakeOutput | None = take
        self._enough = enough
        self._thread: threading.Thread | None = None

    @property
    def drain_seconds(self) -> float:
        """The time that it may need to hand on what is there. A loop reads all of that before it looks at its clock."""
        # the time for which output is still awaited from what a program left in the background
        return 0.05 if self._thread is None else THREAD_DRAIN_SECONDS

    def start(self) -> None:
        """Leave the writing end to the child, and listen."""
        os.close(self.writer)
        self.writer = -1
        try:
            _wait_by(self._loop.add_reader, self.reader, self._read)
        except NotImplementedError:
            self._thread = threading.Thread(target=self._read_on, name="cellwright-output", daemon=True)
            self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._got(os.read(self.reader, CHUNK_BYTES))

    def _read_on(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            while data := os.read(self.reader, CHUNK_BYTES):
                self._loop.call_soon_threadsafe(self._got, data)
            self._loop.call_soon_threadsafe(self._got, b"")
        os.close(self.reader)

    def _got(self, data: bytes) -> None:
        if self._take is None:
            return
        if not data:
            self._stop()
        elif not self._take(data):
            self._stop()
            self._enough()

    def _stop(self) -> None:
        self._take = None
        if self._thread is None:
            self._loop.remove_reader(self.reader)
        if not self.at_end.done():
            self.at_end.set_result(None)

    def close(self) -> None:
        """Nothing is taken any more."""
        if self.writer >= 0:  # nothing was started
            os.close(self.writer)
        else:
            self._stop()
        if self._thread is None:  # which reads on until the other end is closed
            os.close(self.reader)


class _Input:
    """The writing end of a pipe: `data` goes into it as fast as the program reads, and more if it `stays_open`."""

    def __init__(self, data: bytes, *, stays_open: bool = False) -> None:
        self.reader, self._writer = os.pipe()
        self._rest = bytearray(data)
        self._stays_open = stays_open
        self._loop = asyncio.get_running_loop()
        self._in_threads = False
        self._writing = threading.Lock()

    def start(self) -> None:
        """Leave the reading end to the child, and write."""
        os.close(self.reader)
        self.reader = -1
        try:
            _wait_by(self._loop.add_writer, self._writer, self._write)
        except NotImplementedError:
            self._in_threads = True
            self._write_in_thread(bytes(self._rest))

    def send(self, data: bytes) -> None:
        """Write this, too."""
        if self._in_threads:
            self._write_in_thread(data)
        elif self._writer >= 0:
            self._rest += data
            self._loop.add_writer(self._writer, self._write)

    def _write(self) -> None:
        try:
            del self._rest[: os.write(self._writer, self._rest[:CHUNK_BYTES])]
        except BlockingIOError:
            return
        except OSError:  # it does not read its input, which is its right
            self._rest.clear()
        if not self._rest:
            self._loop.remove_writer(self._writer)
            if not self._stays_open:
                self._close()

    def _write_in_thread(self, data: bytes) -> None:
        threading.Thread(target=self._write_all, args=(data,), name="cellwright-input", daemon=True).start()

    def _write_all(self, data: bytes) -> None:
        with self._writing:
            with contextlib.suppress(OSError):
                while self._writer >= 0 and data:
                    data = data[os.write(self._writer, data) :]
            if not self._stays_open:
                self._close()

    def _close(self) -> None:
        writer, self._writer = self._writer, -1
        if writer >= 0:
            os.close(writer)

    def close(self) -> None:
        """Nothing is given any more."""
        if self.reader >= 0:  # nothing was started
            os.close(self.reader)
            self._close()
        elif not self._in_threads:
            if self._writer >= 0:
                self._loop.remove_writer(self._writer)
            self._close()
        elif self._stays_open:  # else its thread closes it, which may still write
            self._close()


def runs_code_at_start(name: str) -> bool:
    """Return whether programs run what the variable `name` says, or other programs, when they start."""
    return _INJECTION.fullmatch(name) is not None


def child_environment(environ: Mapping[str, str], programs: Path | None = None) -> dict[str, str]:
    """The environment of a command: no secrets, nothing that runs code at its start, this interpreter's programs first.

    `programs` is the folder that goes first on PATH (default: this interpreter's); what is relative on PATH goes.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not (
            is_secret(name, value) or _OURS.fullmatch(name) or _ELSEWHERE.fullmatch(name) or _INJECTION.fullmatch(name)
        )
    }
    if kept.get("MPLBACKEND", "").startswith("module://"):
        del kept["MPLBACKEND"]  # the notebook's: a script has no front end to draw to
    first = str(Path(sys.executable).parent if programs is None else programs)
    # an empty or relative entry finds programs that the folder brings along
    rest = [
        part for part in kept.get("PATH", os.defpath).split(os.pathsep) if Path(part).is_absolute() and part != first
    ]
    return {**kept, **_FIXED, **_git_configuration(environ), "PATH": os.pathsep.join([first, *rest])}


def _git_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with the settings of git that `environ` has, less secret ones, and one of ours.

    GIT_OPTIONAL_LOCKS does not keep `git diff` from writing the index; `diff.autoRefreshIndex` does.
    """
    count = environ.get("GIT_CONFIG_COUNT") or "0"
    if not re.fullmatch("[0-9]{1,3}", count):
        return {"GIT_CONFIG_COUNT": count}  # git refuses to start, and says why
    pairs = [
        (environ.get(f"GIT_CONFIG_KEY_{n}", ""), environ.get(f"GIT_CONFIG_VALUE_{n}", "")) for n in range(int(count))
    ]
    pairs = [(key, value) for key, value in pairs if key and not is_secret(key.rpartition(".")[2], value)]
    variables = {"GIT_CONFIG_COUNT": str(len(pairs) + 1)}
    for number, (key, value) in enumerate([*pairs, ("diff.autoRefreshIndex", "false")]):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def own_module_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`child_environment`, in which `python -m cellwright.…` imports this very package."""
    child = child_environment(environ)
    paths = [str(Path(path).absolute()) for path in child.get("PYTHONPATH", "").split(os.pathsep) if path]
    own = str(Path(__file__).parents[3])  # the folder that the package is in
    if own not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *paths):
        paths.append(own)
    return {**child, "PYTHONPATH": os.pathsep.join(paths)} if paths else child
