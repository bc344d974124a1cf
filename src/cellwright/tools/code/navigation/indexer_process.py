"""The process that keeps a project's index up to date: started by the first question, kept for those that follow.

To start Python and import what parses takes ten times what a look at the files takes. It ends by itself when nobody has
asked for a while (`codebase/indexer.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.environment import own_module_environment
from cellwright.tools.process.runner import OutputHead, RunningProgram


class Look:
    """One look at what changed: `ended` is done when the index is up to date, or will not be; `exit_code` says which."""

    def __init__(self, indexer: IndexerProcess, request: bytes) -> None:
        self.began = time.monotonic()
        self.exit_code = 0
        self.ended = asyncio.get_running_loop().create_task(self._follow(indexer, request))

    async def _follow(self, indexer: IndexerProcess, request: bytes) -> None:
        try:
            self.exit_code = await indexer.answer(request)
        except OSError:  # no other process can be started
            self.exit_code = 1


class IndexerProcess:
    """The indexer of the index at `database`. It is one loop's at a time: that of who asks first."""

    def __init__(self, database: Path, environ: Mapping[str, str]) -> None:
        self._database = database
        self._environ = environ
        self._program: RunningProgram | None = None
        self._answers: _Answers | None = None
        self._errors = OutputHead(4_096)

    @property
    def said(self) -> str:
        """The last line of its complaints."""
        return self._errors.text().strip().rpartition("\n")[2]

    def look(self, request: bytes) -> Look:
        """Have it look, one look after another. On a running loop. Raises OSError where no process can be started."""
        if self._program is None or self._program.ended.done():
            self._start(request)
        return Look(self, request)

    async def answer(self, request: bytes) -> int:
        """The answer to `request`, which a process that has just been started was given: an exit code."""
        while True:
            program, answers = self._program, self._answers
            assert program is not None
            assert answers is not None
            kept = answers.asked
            if kept:
                program.send(request)
            answers.asked = True
            either: set[asyncio.Future[Any]] = {answers.next, program.ended}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if answers.next.done():
                return answers.taken()
            if not kept:
                return program.exit_code
            self._start(request)  # it went for want of work, or was ended, before it had read this

    def _start(self, request: bytes) -> None:
        command = Command(
            # -P: what lies in the current folder is not what is imported
            arguments=(sys.executable, "-P", "-m", "cellwright.codebase"),
            cwd=self._database.parent,
            environ=own_module_environment(self._environ),
            memory_mb=1_000,
            read_only=True,
        )
        self._answers, self._errors = _Answers(), OutputHead(4_096)
        self._program = RunningProgram(
            command, output=self._answers.take, errors=self._errors.take, source=request, keeps_input_open=True
        )


class _Answers:
    """The answers of one process: a line for each request."""

    def __init__(self) -> None:
        self.asked = False
        """True once its first request has somebody who waits for the answer."""
        self.next: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._rest = b""

    def take(self, chunk: bytes) -> bool:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                if not self.next.done():
                    self.next.set_result(int(line))
        return True

    def taken(self) -> int:
        """The answer that is there; the next one is awaited anew."""
        code = self.next.result()
        self.next = asyncio.get_running_loop().create_future()
        return code
