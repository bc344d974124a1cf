"""TaskCreate: one more task on the list."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import TodosChanged
from cellwright.text import lazy_pattern
from cellwright.tools.planning.tasks.tasks import (
    LIMITS,
    MAX_TASKS,
    ActiveForm,
    Metadata,
    Task,
    Tasks,
    TasksOf,
    unless_objected,
)
from cellwright.tools.planning.todos import TodosOutput, todos_output

DESCRIPTION = (
    "Add a task to the to-do list, which the user sees. For work of three steps and more. Gives the task's id."
)


class TaskCreateInput(ToolInput):
    """The input of TaskCreate."""

    subject: Annotated[str, Meta(min_length=1, max_length=500, description="The task in one line, in the imperative.")]
    description: Annotated[
        str, Meta(min_length=1, max_length=5_000, description="Details, and when it counts as done.")
    ]
    active_form: ActiveForm | None = field(default=None, name="activeForm")
    metadata: Metadata = field(default_factory=dict)


def task_create_tool(tasks_of: TasksOf) -> Tool:
    """TaskCreate, for the list that `tasks_of` gives."""

    @tool(
        name="TaskCreate",
        output=TodosOutput,
        description=DESCRIPTION,
        access=ToolAccess("todos"),
        category="planning",
        limits=LIMITS,
        examples=[
            {
                "subject": "Fix the parser",
                "description": "Dates before 1970 are lost.",
                "activeForm": "Fixing the parser",
            }
        ],
        title=lambda input: input.subject,
    )
    async def task_create(input: TaskCreateInput, ctx: ToolContext) -> ToolResult:
        tasks = tasks_of(ctx)
        about = {"task_id": str(tasks.last_id + 1), "task_subject": input.subject}
        asked = ctx.ask_hooks("TaskCreated", {**about, "task_description": input.description})
        await unless_objected(asked, "was not created")
        task = add_task(tasks, input)
        todos = tasks.todos()
        ctx.emit(TodosChanged(todos))
        return ToolResult(f"Task #{task.id} created: {task.subject}", structured=todos_output(todos, task.id))

    return task_create


_CREATED = lazy_pattern(r"Task #(\d+) created")


def created_id(result: str) -> int | None:
    """The id in a result of TaskCreate."""
    said = _CREATED.match(result)
    return None if said is None else int(said[1])


def add_task(tasks: Tasks, input: TaskCreateInput) -> Task:
    """Put a new task at the end of the list. Raises ToolError."""
    if len(tasks.by_id) >= MAX_TASKS:
        raise ToolError(f"There are {MAX_TASKS} tasks already. Delete finished ones first.")
    tasks.last_id += 1
    task = Task(str(tasks.last_id), input.subject, input.description, input.active_form or "")
    task.metadata.update(input.metadata)
    tasks.by_id[task.id] = task
    return task
