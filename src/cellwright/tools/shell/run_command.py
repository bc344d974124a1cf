"""One running shell command: its process, what it has written so far, and its end.

It belongs to the loop that started it, and is followed there to its end whether anybody waits for it or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.errors import ToolError
from cellwright.tools.process.children import Child, ChildProcesses
from cellwright.tools.shell.output import MAX_BYTES, CommandOutput, LiveText

DRAIN_SECONDS = 0.05
"""How long output is still awaited from what a command left in the background."""
CHUNK_BYTES = 65_536


class Pipe:
    """A pipe whose reading end does not block."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._open = {self.reader, self.writer}

    def close_writer(self) -> None:
        """Leave the writing end to the children."""
        self._open.discard(self.writer)
        os.close(self.writer)

    def close(self) -> None:
        """Close what is open."""
        while self._open:
            os.close(self._open.pop())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """What to run: `memory_mb` is what each of its processes may take (None: no bound)."""

    command: str
    cwd: Path
    environ: Mapping[str, str]
    memory_mb: int | None = None
    shown_chars: int


class ShellRun:
    """A command that has been started. Made on a running loop; raises ToolError when it cannot be started.

    `ended` is done when it has ended and its output is complete; `folder` is then where its shell was, if it said so.
    """

    def __init__(self, what: ShellCommand, children: ChildProcesses, progress: Callable[..., None]) -> None:
        self.command = what.command
        self.output = CommandOutput(what.shown_chars)
        self.folder = ""
        self.too_much = False
        self._children = children
        self._live: LiveText | None = LiveText(progress)
        self._loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as unless_started:
            try:
                self._written = unless_started.enter_context(contextlib.closing(Pipe()))
                self._told = unless_started.enter_context(contextlib.closing(Pipe()))
                self._child = _start(what, children, self._written, self._told)
            except (OSError, ValueError) as error:  # no descriptors left; too long, or a NUL byte in it
                raise ToolError(f"The command could not be started: {error}.") from error
            unless_started.pop_all()
        self._at_end: asyncio.Future[None] = self._loop.create_future()
        self._overflow: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._written.reader, self._take)
        self.ended = self._loop.create_task(self._follow())

    @property
    def returncode(self) -> int:
        """The process's own; negative for a signal. Once it has ended."""
        return self._child.exited.result()

    @property
    def left_behind(self) -> bool:
        """Whether something that the command started runs on."""
        return self._child.left_behind

    async def wait(self, seconds: float) -> bool:
        """Wait for the end; False when it has not come in `seconds`. Cancelled, it ends the command first."""
        try:
            await asyncio.wait({self.ended}, timeout=seconds)
        except asyncio.CancelledError:
            await self.stop()
            raise
        return self.ended.done()

    async def stop(self) -> None:
        """End the command and all that it started; goes on when its caller is cancelled once more."""
        await asyncio.shield(self._loop.create_task(self._stopped()))

    async def stop_from_any_loop(self) -> None:
        """The same, also where another loop than the command's own is running."""
        if asyncio.get_running_loop() is self._loop:
            await self.stop()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.stop(), self._loop))

    def go_unseen(self) -> None:
        """Nothing is shown live from now on; all output is kept in a file."""
        if self._live is not None:
            self._live.close()
            self._live = None
        self.output.keep_in_file()

    async def _stopped(self) -> None:
        await self._child.end()
        await asyncio.wait({self.ended})

    async def _follow(self) -> None:
        try:
            either: set[asyncio.Future[Any]] = {self._child.exited, self._overflow}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._overflow.done():
                self.too_much = True
                await self._child.end()
            # what it left in the background may hold the pipe, and is not waited for
            await asyncio.wait({self._at_end}, timeout=DRAIN_SECONDS)
            self.folder = _last_line(self._told.reader)
        except asyncio.CancelledError:
            self._child.kill()  # the loop is being closed: nobody could end it later
            raise
        finally:
            self._loop.remove_reader(self._written.reader)
            if self._live is not None:
                self._live.close()
            self.output.close()
            self._close_pipes()
            self._children.sweep()

    def _take(self) -> None:
        try:
            data = os.read(self._written.reader, CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._written.reader)
            self._at_end.set_result(None)
            return
        text = self.output.add(data)
        if self._live is not None:
            self._live.add(text)
        if self.output.bytes > MAX_BYTES and not self._overflow.done():
            self._overflow.set_result(None)

    def _close_pipes(self) -> None:
        self._written.close()
        self._told.close()


def _start(what: ShellCommand, children: ChildProcesses, written: Pipe, told: Pipe) -> Child:
    bash = shutil.which("bash", path=what.environ["PATH"]) if os.name == "posix" else None
    if bash is None:
        raise ToolError("There is no bash here: the Bash tool needs Linux or macOS with bash. Use Python instead.")
    # private memory of each process, in KiB; a limit that is lower already stays
    bound = f"ulimit -d {what.memory_mb * 1024} 2>/dev/null; " if what.memory_mb is not None else ""
    # the shell tells the folder it ended in, however the command ended it
    script = f"{bound}trap 'pwd -P >&{told.writer} 2>/dev/null' EXIT; {what.command}"
    arguments = [bash, "--noprofile", "--norc", "-c", script]
    child = children.start(arguments, cwd=what.cwd, environ=what.environ, output=written.writer, keep=told.writer)
    written.close_writer()
    told.close_writer()
    return child


def _last_line(reader: int) -> str:
    """What the shell told last, if it got to its end."""
    try:
        return os.fsdecode(os.read(reader, CHUNK_BYTES)).rstrip("\n").rpartition("\n")[2]
    except BlockingIOError:  # something in the background has the other end
        return ""
