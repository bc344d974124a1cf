"""TaskStop: the end of a command or an agent in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.text import visible_line
from cellwright.tools.shell.background import BackgroundTask, BackgroundTasks
from cellwright.tools.shell.output import exit_code

DESCRIPTION = (
    "Stop a command that runs in the background, and everything it started, by its task id, or an agent by its agentId."
)

StopAgent = Callable[[str], Awaitable[str]]
"""Ends the agent of an id; says what became of it, "" where there is none."""


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
