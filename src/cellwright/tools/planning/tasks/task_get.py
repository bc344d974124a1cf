"""TaskGet: one task in full."""

from __future__ import annotations

from msgspec import field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.tools.planning.tasks.tasks import LIMITS, TaskId, TasksOf
from cellwright.tools.planning.todos import TodosOutput, todos_output

DESCRIPTION = "Return a task with its description, what it blocks and what blocks it. TaskList shows all ids."


class TaskGetInput(ToolInput):
    """The input of TaskGet."""

    task_id: TaskId = field(name="taskId")


def task_get_tool(tasks_of: TasksOf) -> Tool:
    """TaskGet, for the list that `tasks_of` gives."""

    @tool(
        name="TaskGet",
        output=TodosOutput,
        description=DESCRIPTION,
        access=ToolAccess("todos"),
        read_only=True,
        category="planning",
        limits=LIMITS,
        examples=[{"taskId": "2"}],
        title=lambda input: f"task {input.task_id}",
    )
    async def task_get(input: TaskGetInput, ctx: ToolContext) -> ToolResult:
        tasks = tasks_of(ctx)
        task = tasks.find(input.task_id)
        blocks = [other.id for other in tasks.by_id.values() if task.id in other.blocked_by]
        lines = [tasks.line(task), task.description]
        if blocks:
            lines.append(f"Blocks: {', '.join(f'#{other}' for other in blocks)}")
        if task.metadata:
            lines.append(f"Metadata: {task.metadata}")
        text = "\n".join(lines)
        return ToolResult(text, structured=todos_output(tasks.todos(), input.task_id.removeprefix("#")))

    return task_get
