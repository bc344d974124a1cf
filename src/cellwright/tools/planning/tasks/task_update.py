"""TaskUpdate: how far a task is, what it waits for, or that it is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.events import TodosChanged
from cellwright.tools.planning.tasks.tasks import (
    LIMITS,
    MAX_TASKS,
    ActiveForm,
    Metadata,
    Task,
    TaskId,
    Tasks,
    TasksOf,
    unless_objected,
)
from cellwright.tools.planning.todos import TodosOutput, todos_output

DESCRIPTION = (
    "Change a task: mark it in_progress when you begin with it and completed as soon as it is wholly done, "
    "or delete it with the status `deleted`. Keep one task in_progress at a time."
)


class TaskUpdateInput(ToolInput):
    """The input of TaskUpdate."""

    task_id: TaskId = field(name="taskId")
    subject: Annotated[str, Meta(min_length=1, max_length=500, description="A new subject.")] | None = None
    description: Annotated[str, Meta(min_length=1, max_length=5_000, description="A new description.")] | None = None
    active_form: ActiveForm | None = field(default=None, name="activeForm")
    status: (
        Annotated[
            Literal["pending", "in_progress", "completed", "deleted"],
            Meta(description="How far it is; `deleted` takes it off the list."),
        ]
        | None
    ) = None
    add_blocks: Annotated[
        tuple[str, ...], Meta(max_length=MAX_TASKS, description="Ids of tasks that wait for this one.")
    ] = field(default=(), name="addBlocks")
    add_blocked_by: Annotated[
        tuple[str, ...], Meta(max_length=MAX_TASKS, description="Ids of tasks that this one waits for.")
    ] = field(default=(), name="addBlockedBy")
    owner: Annotated[str, Meta(min_length=1, max_length=100, description="Who does it.")] | None = None
    metadata: Metadata = field(default_factory=dict)


def task_update_tool(tasks_of: TasksOf) -> Tool:
    """TaskUpdate, for the list that `tasks_of` gives."""

    @tool(
        name="TaskUpdate",
        output=TodosOutput,
        description=DESCRIPTION,
        access=ToolAccess("todos"),
        category="planning",
        limits=LIMITS,
        examples=[{"taskId": "2", "status": "in_progress"}, {"taskId": "3", "addBlockedBy": ["2"]}],
        title=lambda input: f"task {input.task_id} {input.status or ''}".strip(),
    )
    async def task_update(input: TaskUpdateInput, ctx: ToolContext) -> ToolResult:
        tasks = tasks_of(ctx)
        if input.status == "completed" and (task := tasks.find(input.task_id)).status != "completed":
            about = {"task_id": task.id, "task_subject": task.subject, "task_description": task.description}
            await unless_objected(ctx.ask_hooks("TaskCompleted", about), "is not completed")
        changed = change_task(tasks, input)
        todos = tasks.todos()
        ctx.emit(TodosChanged(todos))
        what = "deleted" if input.status == "deleted" else f"updated: {', '.join(changed) or 'nothing is new'}"
        task_id = input.task_id.removeprefix("#")
        return ToolResult(f"Task #{task_id} {what}.", structured=todos_output(todos, task_id))

    return task_update


_FIELDS = {
    "subject": "subject",
    "description": "description",
    "active_form": "activeForm",
    "status": "status",
    "owner": "owner",
}
"""The fields that are simply set, with their names in the input."""


def change_task(tasks: Tasks, input: TaskUpdateInput) -> list[str]:
    """Change what is given of a task; the names of the fields that are different now. Raises ToolError."""
    task = tasks.find(input.task_id)
    if input.status == "deleted":
        del tasks.by_id[task.id]
        for other in tasks.by_id.values():
            if task.id in other.blocked_by:
                other.blocked_by.remove(task.id)
        return ["status"]
    # looked up before anything is changed: a call is done wholly or not at all
    blocked = [tasks.find(other) for other in input.add_blocks]
    blockers = [tasks.find(other) for other in input.add_blocked_by]
    changed = [name for attribute, name in _FIELDS.items() if _set(task, attribute, getattr(input, attribute))]
    for name, pairs in (
        ("addBlocks", [(other, task) for other in blocked]),
        ("addBlockedBy", [(task, other) for other in blockers]),
    ):
        if [_block(after, before) for after, before in pairs].count(True):
            changed.append(name)
    if _merge(task.metadata, input.metadata):
        changed.append("metadata")
    return changed


def _set(task: Task, attribute: str, value: str | None) -> bool:
    if value is None or getattr(task, attribute) == value:
        return False
    setattr(task, attribute, value)
    return True


def _block(task: Task, by: Task) -> bool:
    if by.id in task.blocked_by or by.id == task.id:
        return False
    task.blocked_by.append(by.id)
    return True


def _merge(metadata: dict[str, Any], more: Mapping[str, Any]) -> bool:
    """Put `more` into `metadata`; null takes a key away."""
    before = dict(metadata)
    for key, value in more.items():
        if value is None:
            metadata.pop(key, None)
        else:
            metadata[key] = value
    return metadata != before
