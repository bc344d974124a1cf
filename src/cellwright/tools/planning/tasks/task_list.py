"""TaskList: all tasks, a line each."""

from __future__ import annotations

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.tools.planning.tasks.tasks import LIMITS, TasksOf
from cellwright.tools.planning.todos import TodosOutput, todos_output

DESCRIPTION = "Return all tasks with their ids, status, owner and blockers."


class TaskListInput(ToolInput):
    """The input of TaskList, which takes nothing."""


def task_list_tool(tasks_of: TasksOf) -> Tool:
    """TaskList, for the list that `tasks_of` gives."""

    @tool(
        name="TaskList",
        output=TodosOutput,
        description=DESCRIPTION,
        access=ToolAccess("todos"),
        read_only=True,
        category="planning",
        limits=LIMITS,
        examples=[{}],
        title=lambda _given: "all tasks",
    )
    async def task_list(_given: TaskListInput, ctx: ToolContext) -> ToolResult:
        tasks = tasks_of(ctx)
        text = "\n".join(map(tasks.line, tasks.by_id.values())) or "There are no tasks."
        return ToolResult(text, structured=todos_output(tasks.todos()))

    return task_list
