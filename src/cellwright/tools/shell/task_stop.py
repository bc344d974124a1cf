"""TaskStop: the end of a command in the background."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.text import visible_line
from cellwright.tools.shell.background import BackgroundTask, BackgroundTasks

DESCRIPTION = "Stop a command that runs in the background, and everything it started, by its task id."


class TaskStopInput(ToolInput):
    """The input of TaskStop."""

    # of Claude Code's KillShell and BashOutput, which TaskStop has replaced
    aliases: ClassVar = {"shell_id": "task_id", "bash_id": "task_id"}

    task_id: Annotated[str, Meta(min_length=1, description="The task's id, such as bash-1")]


def task_stop_tool(tasks: BackgroundTasks) -> Tool:
    """TaskStop, for the commands among `tasks`."""

    @tool(
        name="TaskStop",
        description=DESCRIPTION,
        access=ToolAccess("notes"),
        category="shell",
        limits=ToolLimits(seconds=10),
        examples=[{"task_id": "bash-1"}],
        title=lambda given: f"Stop {visible_line(given.task_id)}",
    )
    async def task_stop(given: TaskStopInput) -> ToolResult:
        task = tasks.get(given.task_id)
        if task.run.ended.done():
            task.reported = True
            return ToolResult(f"{task.status[:1].upper()}{task.status[1:]} already; {task.where}.", _task_json(task))
        task.stopped, task.reported = "by TaskStop", True
        await task.run.stop_from_any_loop()
        return ToolResult(f"Stopped {task.id}: `{task.shown_command}`; {task.where}.", _task_json(task))

    return task_stop


def _task_json(task: BackgroundTask) -> dict[str, Any]:
    return {"task_id": task.id, "task_type": "bash", "command": task.run.command}
