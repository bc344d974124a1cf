"""Commands that run on while Claude does something else: started so, or moved here when their time was up."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import visible_line
from cellwright.tools.shell.output import exit_code, meaning
from cellwright.tools.shell.run_command import ShellRun


class BackgroundTask(Struct, eq=False):
    """One command in the background; `stopped` says why it did not end by itself, or nothing."""

    id: str
    run: ShellRun
    session_id: str
    started: float = field(default_factory=time.monotonic)
    stopped: str = ""
    reported: bool = False

    @property
    def output_file(self) -> Path | None:
        return self.run.output.path

    @property
    def shown_command(self) -> str:
        """Its command as one line, shortened."""
        line = visible_line(self.run.command)
        return line if len(line) <= 80 else f"{line[:79]}…"

    @property
    def where(self) -> str:
        """The place of its output, in words."""
        return f"its output is in {self.output_file}" if self.output_file else "its output could not be kept"

    @property
    def status(self) -> str:
        """Its state, as a sentence without its end."""
        if not self.run.ended.done():
            return f"{self.id} has run for {time.monotonic() - self.started:.0f} s"
        if self.stopped:
            return f"{self.id} was stopped ({self.stopped})"
        code = exit_code(self.run.returncode)
        means = f" ({meaning(code)})" if meaning(code) else ""
        return f"{self.id} has ended with exit code {code}{means}"


class BackgroundTasks:
    """The commands in the background of this process, by id. They end with it at the latest."""

    def __init__(self) -> None:
        self._tasks: dict[str, BackgroundTask] = {}
        self._numbers: Iterator[int] = itertools.count(1)
        self._watching: set[asyncio.Task[None]] = set()  # asyncio keeps no task alive

    def add(self, run: ShellRun, session_id: str, seconds: float) -> BackgroundTask:
        """Let `run` go on by itself for at most `seconds`."""
        run.go_unseen()
        task = BackgroundTask(f"bash-{next(self._numbers)}", run, session_id)
        self._tasks[task.id] = task
        watching = asyncio.get_running_loop().create_task(_watch(task, seconds))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return task

    def get(self, task_id: str) -> BackgroundTask:
        """The task of this id. Raises ToolError."""
        if (task := self._tasks.get(task_id)) is None:
            known = ", ".join(self._tasks) or "none"
            raise ToolError(
                f"Background task {task_id!r} was not found. Available: {known}.", code=ErrorCode.INVALID_PARAMETERS
            )
        return task

    def all(self) -> list[BackgroundTask]:
        """Every task there was, in the order they were started."""
        return list(self._tasks.values())

    def unreported(self, session_id: str) -> list[str]:
        """List what has ended in this session since this was last asked for: a line each, for Claude."""
        ended = [
            task
            for task in self._tasks.values()
            if task.session_id == session_id and task.run.ended.done() and not task.reported
        ]
        for task in ended:
            task.reported = True
        return [f"[Background task {task.status}: `{task.shown_command}`; {task.where}.]" for task in ended]


async def _watch(task: BackgroundTask, seconds: float) -> None:
    if not await task.run.wait(seconds):
        task.stopped = f"its time limit of {seconds:g} s"
        await task.run.stop()


@functools.cache
def background_tasks() -> BackgroundTasks:
    """The background tasks of this process."""
    return BackgroundTasks()
