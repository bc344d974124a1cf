"""A program with an input, its output and its errors apart, and nothing of it left when it is not waited for any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cellwright.tools.process.children import Child, ChildProcesses

MAX_BYTES = 2_000_000
"""Of each output; what comes after it is read and thrown away, so that the program can end."""

DRAIN_SECONDS = 0.1
"""How long output is still awaited from what a program left in the background."""
CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class HookExit:
    """How a program ended. `cut`: it wrote more than is kept."""

    code: int
    output: str
    errors: str
    cut: bool


class _Taken:
    """What comes out of a pipe, up to `MAX_BYTES`."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.data = bytearray()
        self.cut = False
        self.at_end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        os.close(self.writer)
        self.writer = -1
        self._loop.add_reader(self.reader, self._take)

    def _take(self) -> None:
        try:
            data = os.read(self.reader, CHUNK_BYTES)
        except BlockingIOError:
            return
        room = MAX_BYTES - len(self.data)
        self.data += data[:room]
        self.cut |= len(data) > room
        if not data:
            self._loop.remove_reader(self.reader)
            self.at_end.set_result(None)

    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    def close(self) -> None:
        self._loop.remove_reader(self.reader)
        for descriptor in (self.reader, self.writer):
            if descriptor >= 0:
                os.close(descriptor)


class _Given:
    """What goes into a pipe, as fast as the program reads it."""

    def __init__(self, data: bytes) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._rest = memoryview(data)
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        os.close(self.reader)
        self.reader = -1
        self._loop.add_writer(self._writer, self._give)

    def _give(self) -> None:
        try:
            self._rest = self._rest[os.write(self._writer, self._rest[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not read its input, which is its right
            self._rest = self._rest[:0]
        if not self._rest:
            self._done()

    def _done(self) -> None:
        if self._writer >= 0:
            self._loop.remove_writer(self._writer)
            os.close(self._writer)
            self._writer = -1

    def close(self) -> None:
        self._done()
        if self.reader >= 0:
            os.close(self.reader)


async def run_program(
    arguments: Sequence[str], source: bytes, *, cwd: Path, environ: Mapping[str, str], children: ChildProcesses
) -> HookExit:
    """Run a program with `source` as its input. Raises OSError when it cannot start.

    Cancelled, it ends the program and all that it started, and goes on with that when it is cancelled once more.
    """
    with contextlib.ExitStack() as open_pipes:
        given = open_pipes.enter_context(contextlib.closing(_Given(source)))
        output = open_pipes.enter_context(contextlib.closing(_Taken()))
        errors = open_pipes.enter_context(contextlib.closing(_Taken()))
        child = children.start(
            arguments, cwd=cwd, environ=environ, output=output.writer, errors=errors.writer, source=given.reader
        )
        for pipe in (given, output, errors):
            pipe.start()
        try:
            code = await asyncio.shield(child.exited)
            await asyncio.wait({output.at_end, errors.at_end}, timeout=DRAIN_SECONDS)
        except BaseException:
            await _ended(child)
            raise
        finally:
            children.sweep()
        return HookExit(code, output.text(), errors.text(), output.cut or errors.cut)


_ending: set[asyncio.Task[None]] = set()
# asyncio keeps no task alive; these go on when their caller is cancelled once more


async def _ended(child: Child) -> None:
    task = asyncio.get_running_loop().create_task(child.end())
    _ending.add(task)
    task.add_done_callback(_ending.discard)
    await asyncio.shield(task)
