"""The Task tools: a list of tasks with ids, changed one at a time. Names and fields are Claude Code's.

Nothing is kept but the session's messages: when a session goes on in another process, its calls are gone through
again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import TodosChanged
from cellwright.text import lazy_pattern
from cellwright.tools.planning.todos import TodosOutput, blocks_of, todos_output

Status = Literal["pending", "in_progress", "completed"]

MAX_TASKS = 200

TaskId = Annotated[
    str, Meta(min_length=1, max_length=20, description="The task's id, as TaskCreate and TaskList give it.")
]
ActiveForm = Annotated[
    str, Meta(min_length=1, max_length=500, description="The subject in progressive form: `Fixing the parser`.")
]
Metadata = Annotated[dict[str, Any], Meta(description="Notes of your own, by key; null takes a key away.")]

CREATE_DESCRIPTION = (
    "Add a task to the to-do list, which the user sees. For work of three steps and more. Gives the task's id."
)

GET_DESCRIPTION = "Return a task with its description, what it blocks and what blocks it. TaskList shows all ids."

LIST_DESCRIPTION = "Return all tasks with their ids, status, owner and blockers."

UPDATE_DESCRIPTION = (
    "Change a task: mark it in_progress when you begin with it and completed as soon as it is wholly done, "
    "or delete it with the status `deleted`. Keep one task in_progress at a time."
)


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


def _task_tool(**told: Any) -> Callable[[Callable[..., Any]], Tool]:
    limits = ToolLimits(results=MAX_TASKS)
    return tool(output=TodosOutput, access=ToolAccess("todos"), category="planning", limits=limits, **told)


def _changed(tasks: Tasks, text: str, task_id: str, ctx: ToolContext) -> ToolResult:
    """The result of a change, which the views are told of."""
    todos = tasks.todos()
    ctx.emit(TodosChanged(todos))
    return ToolResult(text, structured=todos_output(todos, task_id))


async def unless_objected(asked: Awaitable[str], what_is_not: str) -> None:
    """Raise ToolError where hooks have something against it."""
    if objection := await asked:
        raise ToolError(f"The task {what_is_not}: {objection}", code=ErrorCode.PERMISSION_DENIED)


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

    @_task_tool(
        name="TaskCreate",
        description=CREATE_DESCRIPTION,
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
        return _changed(tasks, f"Task #{task.id} created: {task.subject}", task.id, ctx)

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


class TaskGetInput(ToolInput):
    """The input of TaskGet."""

    task_id: TaskId = field(name="taskId")


def task_get_tool(tasks_of: TasksOf) -> Tool:
    """TaskGet, for the list that `tasks_of` gives."""

    @_task_tool(
        name="TaskGet",
        description=GET_DESCRIPTION,
        read_only=True,
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


class TaskListInput(ToolInput):
    """The input of TaskList, which takes nothing."""


def task_list_tool(tasks_of: TasksOf) -> Tool:
    """TaskList, for the list that `tasks_of` gives."""

    @_task_tool(
        name="TaskList",
        description=LIST_DESCRIPTION,
        read_only=True,
        examples=[{}],
        title=lambda _given: "all tasks",
    )
    async def task_list(_given: TaskListInput, ctx: ToolContext) -> ToolResult:
        tasks = tasks_of(ctx)
        text = "\n".join(map(tasks.line, tasks.by_id.values())) or "There are no tasks."
        return ToolResult(text, structured=todos_output(tasks.todos()))

    return task_list


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

    @_task_tool(
        name="TaskUpdate",
        description=UPDATE_DESCRIPTION,
        examples=[{"taskId": "2", "status": "in_progress"}, {"taskId": "3", "addBlockedBy": ["2"]}],
        title=lambda input: f"task {input.task_id} {input.status or ''}".strip(),
    )
    async def task_update(input: TaskUpdateInput, ctx: ToolContext) -> ToolResult:
        tasks = tasks_of(ctx)
        if input.status == "completed" and (task := tasks.find(input.task_id)).status != "completed":
            about = {"task_id": task.id, "task_subject": task.subject, "task_description": task.description}
            await unless_objected(ctx.ask_hooks("TaskCompleted", about), "is not completed")
        changed = change_task(tasks, input)
        what = "deleted" if input.status == "deleted" else f"updated: {', '.join(changed) or 'nothing is new'}"
        task_id = input.task_id.removeprefix("#")
        return _changed(tasks, f"Task #{task_id} {what}.", task_id, ctx)

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
    changed = []
    for attribute, name in _FIELDS.items():
        value = getattr(input, attribute)
        if value is not None and value != getattr(task, attribute):
            setattr(task, attribute, value)
            changed.append(name)
    for name, pairs in (
        ("addBlocks", [(other, task) for other in blocked]),
        ("addBlockedBy", [(task, other) for other in blockers]),
    ):
        for after, before in pairs:
            if before.id not in after.blocked_by and before.id != after.id:
                after.blocked_by.append(before.id)
                changed.append(name)
    removed = {key for key, value in input.metadata.items() if value is None}
    kept = {key: value for key, value in {**task.metadata, **input.metadata}.items() if key not in removed}
    if kept != task.metadata:
        task.metadata = kept
        changed.append("metadata")
    return list(dict.fromkeys(changed))


class SessionTasks:
    """The task list of the session that calls, made from its messages when it is first asked for."""

    def __init__(self) -> None:
        self._session_id: str | None = None
        self._tasks = Tasks()

    def of(self, ctx: ToolContext) -> Tasks:
        """The list of the session that `ctx` is a call of."""
        if ctx.session_id != self._session_id:
            self._tasks = tasks_in(ctx.history())
            self._session_id = ctx.session_id
        return self._tasks


def tasks_in(messages: Sequence[Mapping[str, Any]]) -> Tasks:
    """The list that the calls in `messages` left."""
    tasks = Tasks()
    add_calls(tasks, messages)
    return tasks


def add_calls(tasks: Tasks, messages: Sequence[Mapping[str, Any]]) -> None:
    """Do to `tasks` what the calls in `messages` did: those that were done, in their order."""
    results = {block["tool_use_id"]: block for block in blocks_of(messages, "tool_result")}
    for call in blocks_of(messages, "tool_use"):
        result = results.get(call["id"])
        if result is None or result.get("is_error"):
            continue
        # what a call was about may be in messages that are no longer there, and another program may have made it
        with contextlib.suppress(ToolError, ValueError):
            if call["name"] == "TaskCreate" and (task_id := created_id(str(result["content"]))) is not None:
                task_input = TaskCreateInput.from_json(call["input"])
                tasks.last_id = task_id - 1
                add_task(tasks, task_input)
            elif call["name"] == "TaskUpdate":
                change_task(tasks, TaskUpdateInput.from_json(call["input"]))
