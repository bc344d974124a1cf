"""A list of tasks with ids, and what the fields of the Task tools share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from cellwright.agent.tool import ToolContext, ToolLimits
from cellwright.errors import ErrorCode, ToolError

Status = Literal["pending", "in_progress", "completed"]

MAX_TASKS = 200
LIMITS = ToolLimits(results=MAX_TASKS)

TaskId = Annotated[
    str, Meta(min_length=1, max_length=20, description="The task's id, as TaskCreate and TaskList give it.")
]
ActiveForm = Annotated[
    str, Meta(min_length=1, max_length=500, description="The subject in progressive form: `Fixing the parser`.")
]
Metadata = Annotated[dict[str, Any], Meta(description="Notes of your own, by key; null takes a key away.")]


class Task(Struct):
    """One task; `blocked_by` are ids of tasks that must be done before it."""

    id: str
    subject: str
    description: str
    active_form: str = ""
    status: Status = "pending"
    owner: str = ""
    blocked_by: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class Tasks(Struct):
    """The tasks of one session, by id. Ids are not given twice."""

    by_id: dict[str, Task] = field(default_factory=dict)
    last_id: int = 0

    def find(self, task_id: str) -> Task:
        """The task of this id. Raises ToolError."""
        task = self.by_id.get(task_id.removeprefix("#"))
        if task is None:
            known = ", ".join(self.by_id) or "none"
            raise ToolError(
                f"Task {task_id!r} was not found. The ids are: {known}.",
                code=ErrorCode.INVALID_PARAMETERS,
                details={"field": "taskId"},
            )
        return task

    def line(self, task: Task) -> str:
        """The task in one line, with the ids of those that must be done before it and are not."""
        owner = f" ({task.owner})" if task.owner else ""
        blockers = [other for other in task.blocked_by if self.by_id[other].status != "completed"]
        waits = f" [waits for {', '.join(f'#{other}' for other in blockers)}]" if blockers else ""
        return f"#{task.id} [{task.status}] {task.subject}{owner}{waits}"

    def todos(self) -> tuple[dict[str, str], ...]:
        """The list as views have it."""
        return tuple(
            {"content": task.subject, "status": task.status, "activeForm": task.active_form or task.subject}
            for task in self.by_id.values()
        )


TasksOf = Callable[[ToolContext], Tasks]
"""Gives the list of the session that calls."""


async def unless_objected(asked: Awaitable[str], what_is_not: str) -> None:
    """Raise ToolError where hooks have something against it."""
    if objection := await asked:
        raise ToolError(f"The task {what_is_not}: {objection}", code=ErrorCode.PERMISSION_DENIED)
