"""Commands that run on while Claude does something else, and TaskStop, which ends one of them or an agent.

A command is started so, or moved here when its time was up.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import visible_line
from cellwright.tools.shell.run_command import ShellRun, exit_code, meaning

DESCRIPTION = (
    "Stop a command that runs in the background, and everything it started, by its task id, or an agent by its agentId."
)

StopAgent = Callable[[str], Awaitable[str]]
"""Ends the agent of an id; says what became of it, "" where there is none."""


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

        async def watch() -> None:
            if not await run.wait(seconds):
                task.stopped = f"its time limit of {seconds:g} s"
                await run.stop()

        watching = asyncio.get_running_loop().create_task(watch())
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


@functools.cache
def background_tasks() -> BackgroundTasks:
    """The background tasks of this process."""
    return BackgroundTasks()


class TaskStopInput(ToolInput):
    """The input of TaskStop."""

    # of Claude Code's KillShell and BashOutput, which TaskStop has replaced
    aliases: ClassVar = {"shell_id": "task_id", "bash_id": "task_id"}

    task_id: Annotated[str, Meta(min_length=1, description="The task's id, such as bash-1, or an agentId")]


class TaskStopOutput(ToolOutput):
    """The task that was stopped; `exit_code` is its own where it had ended by itself."""

    task_id: str
    task_type: str
    command: str
    output_file: str | None
    exit_code: int | None


def task_stop_tool(tasks: BackgroundTasks, stop_agent: StopAgent | None = None) -> Tool:
    """TaskStop, for the commands among `tasks` and the agents that `stop_agent` knows."""

    @tool(
        name="TaskStop",
        other_names=(
            "kill_shell",
            "kill_bash",
            "kill_task",
        ),
        rarely_used=True,
        output=TaskStopOutput,
        description=DESCRIPTION,
        access=ToolAccess("notes"),
        category="shell",
        everyday=True,
        best_for="ending what runs in the background",
        examples=[{"task_id": "bash-1"}],
        title=lambda input: f"Stop {visible_line(input.task_id)}",
    )
    async def task_stop(input: TaskStopInput) -> ToolResult:
        if stop_agent is not None and (ended := await stop_agent(input.task_id)):
            output = TaskStopOutput(
                task_id=input.task_id, task_type="agent", command="", output_file=None, exit_code=None
            )
            return ToolResult(ended, structured=output)
        task = tasks.get(input.task_id)
        if task.run.ended.done():
            task.reported = True
            text = f"{task.status[:1].upper()}{task.status[1:]} already; {task.where}."
            return ToolResult(text, structured=_output(task, exit_code(task.run.returncode)))
        task.stopped, task.reported = "by TaskStop", True
        await task.run.stop_from_any_loop()
        kept = " Its changes of files were discarded." if task.run.staged else ""
        text = f"Stopped {task.id}: `{task.shown_command}`; {task.where}.{kept}"
        return ToolResult(text, structured=_output(task, None))

    return task_stop


def _output(task: BackgroundTask, code: int | None) -> TaskStopOutput:
    return TaskStopOutput(
        task_id=task.id,
        task_type="bash",
        command=task.run.command,
        output_file=None if task.output_file is None else str(task.output_file),
        exit_code=code,
    )
