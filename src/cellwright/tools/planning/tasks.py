"""The Task tools: TaskCreate, TaskGet, TaskUpdate and TaskList, in Claude Code's spelling.

A list of tasks with ids, changed one at a time: what the session's calls made of it.

Nothing is kept but the session's messages: where a session goes on in another process, its calls are gone through again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cellwright.agent.tool import Tool, ToolContext, ToolLimits, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import TodosChanged
from cellwright.tools.schema import object_schema

Status = Literal["pending", "in_progress", "completed"]
Input = Mapping[str, Any]

MAX_TASKS = 200


@dataclass(slots=True)
class Task:
    """One task; `blocked_by` are ids of tasks that must be done before it."""

    id: str
    subject: str
    description: str
    active_form: str = ""
    status: Status = "pending"
    owner: str = ""
    blocked_by: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TaskList:
    """The tasks of one session. Ids are not given twice."""

    tasks: dict[str, Task] = field(default_factory=dict)
    last_id: int = 0

    def create(self, given: Input) -> Task:
        if len(self.tasks) >= MAX_TASKS:
            raise ToolError(f"There are {MAX_TASKS} tasks already. Delete what is done with first.")
        self.last_id += 1
        task = Task(str(self.last_id), given["subject"], given["description"], given.get("activeForm", ""))
        task.metadata.update(given.get("metadata", {}))
        self.tasks[task.id] = task
        return task

    def find(self, task_id: str) -> Task:
        task = self.tasks.get(task_id.removeprefix("#"))
        if task is None:
            known = ", ".join(self.tasks) or "none"
            raise ToolError(
                f"There is no task {task_id!r}. The ids are: {known}.",
                code=ErrorCode.INVALID_PARAMETERS,
                details={"field": "taskId"},
            )
        return task

    def update(self, given: Input) -> list[str]:
        """Change what is given of a task; the names of the fields that are different now."""
        task = self.find(given["taskId"])
        if given.get("status") == "deleted":
            del self.tasks[task.id]
            for other in self.tasks.values():
                if task.id in other.blocked_by:
                    other.blocked_by.remove(task.id)
            return ["status"]
        # looked up before anything is changed: a call is done wholly or not at all
        blocked = [self.find(other) for other in given.get("addBlocks", ())]
        blockers = [self.find(other) for other in given.get("addBlockedBy", ())]
        changed = [key for key, name in _FIELDS.items() if key in given and _set(task, name, given[key])]
        for key, pairs in (
            ("addBlocks", [(other, task) for other in blocked]),
            ("addBlockedBy", [(task, other) for other in blockers]),
        ):
            if [_block(after, before) for after, before in pairs].count(True):
                changed.append(key)
        if _merge(task.metadata, given.get("metadata", {})):
            changed.append("metadata")
        return changed

    def open_blockers(self, task: Task) -> list[str]:
        """The ids of the tasks that must be done before `task` and are not."""
        return [other for other in task.blocked_by if self.tasks[other].status != "completed"]

    def todos(self) -> tuple[dict[str, str], ...]:
        """The list as views have it."""
        return tuple(
            {"content": task.subject, "status": task.status, "activeForm": task.active_form or task.subject}
            for task in self.tasks.values()
        )


_FIELDS = {
    "subject": "subject",
    "description": "description",
    "activeForm": "active_form",
    "status": "status",
    "owner": "owner",
}


def _set(task: Task, name: str, value: str) -> bool:
    if getattr(task, name) == value:
        return False
    setattr(task, name, value)
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


def created(task: Task) -> str:
    """What Claude reads when `task` was made; `task_list_of` finds the id in it."""
    return f"Task #{task.id} created: {task.subject}"


_CREATED = re.compile(r"Task #(\d+) created")


def task_list_of(messages: Sequence[Mapping[str, Any]]) -> TaskList:
    """The list that the calls in `messages` left: those that were done, in their order."""
    tasks = TaskList()
    results = {block["tool_use_id"]: block for message in messages for block in _blocks(message, "tool_result")}
    for message in messages:
        for call in _blocks(message, "tool_use"):
            result = results.get(call["id"])
            if result is None or result.get("is_error"):
                continue
            # what a call was about may be in messages that are no longer there
            with contextlib.suppress(ToolError):
                if call["name"] == "TaskCreate" and (said := _CREATED.match(str(result["content"]))):
                    tasks.last_id = int(said[1]) - 1
                    tasks.create(call["input"])
                elif call["name"] == "TaskUpdate":
                    tasks.update(call["input"])
    return tasks


def _blocks(message: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    content = message["content"]
    if not isinstance(content, str):
        yield from (block for block in content if block["type"] == kind)


class _Lists:
    """The task list of the session that calls, made from its messages when it is first asked for."""

    def __init__(self) -> None:
        self._session_id: str | None = None
        self._tasks = TaskList()

    def of(self, ctx: ToolContext) -> TaskList:
        if ctx.session_id != self._session_id:
            self._tasks = task_list_of(ctx.history())
            self._session_id = ctx.session_id
        return self._tasks


def task_tools(limits: ToolLimits) -> tuple[Tool, ...]:
    """TaskCreate, TaskGet, TaskUpdate and TaskList, about one list."""
    lists = _Lists()

    async def create(given: dict[str, Any], ctx: ToolContext) -> ToolResult:
        tasks = lists.of(ctx)
        about = {"task_id": str(tasks.last_id + 1), "task_subject": given["subject"]}
        await _unless_objected(
            ctx.ask_hooks("TaskCreated", {**about, "task_description": given["description"]}), "was not created"
        )
        task = tasks.create(given)
        ctx.emit(TodosChanged(tasks.todos()))
        return ToolResult(created(task))

    async def get(given: dict[str, Any], ctx: ToolContext) -> ToolResult:
        return ToolResult(_in_full(lists.of(ctx), given["taskId"]))

    async def update(given: dict[str, Any], ctx: ToolContext) -> ToolResult:
        tasks = lists.of(ctx)
        if given.get("status") == "completed" and (task := tasks.find(given["taskId"])).status != "completed":
            about = {"task_id": task.id, "task_subject": task.subject, "task_description": task.description}
            await _unless_objected(ctx.ask_hooks("TaskCompleted", about), "is not completed")
        changed = tasks.update(given)
        ctx.emit(TodosChanged(tasks.todos()))
        what = "deleted" if given.get("status") == "deleted" else f"updated: {', '.join(changed) or 'nothing is new'}"
        return ToolResult(f"Task #{given['taskId'].removeprefix('#')} {what}.")

    async def show(_given: dict[str, Any], ctx: ToolContext) -> ToolResult:
        tasks = lists.of(ctx)
        return ToolResult("\n".join(_line(tasks, task) for task in tasks.tasks.values()) or "There are no tasks.")

    calls: Mapping[str, Callable[..., Any]] = {
        "TaskCreate": create,
        "TaskGet": get,
        "TaskUpdate": update,
        "TaskList": show,
    }
    return tuple(
        Tool(
            name=name,
            description=_DESCRIPTIONS[name],
            input_schema=_SCHEMAS[name],
            call=call,
            read_only=name in ("TaskGet", "TaskList"),
            limits=limits,
            category="planning",
            input_examples=_EXAMPLES[name],
            title=_TITLES[name],
        )
        for name, call in calls.items()
    )


async def _unless_objected(asked: Awaitable[str], what_is_not: str) -> None:
    if objection := await asked:
        raise ToolError(f"The task {what_is_not}: {objection}", code=ErrorCode.PERMISSION_DENIED)


def _line(tasks: TaskList, task: Task) -> str:
    owner = f" ({task.owner})" if task.owner else ""
    blockers = tasks.open_blockers(task)
    waits = f" [waits for {', '.join(f'#{other}' for other in blockers)}]" if blockers else ""
    return f"#{task.id} [{task.status}] {task.subject}{owner}{waits}"


def _in_full(tasks: TaskList, task_id: str) -> str:
    task = tasks.find(task_id)
    blocks = [other.id for other in tasks.tasks.values() if task.id in other.blocked_by]
    lines = [_line(tasks, task), task.description]
    if blocks:
        lines.append(f"Blocks: {', '.join(f'#{other}' for other in blocks)}")
    if task.metadata:
        lines.append(f"Metadata: {task.metadata}")
    return "\n".join(lines)


_DESCRIPTIONS = {
    "TaskCreate": "Add a task to the list of what is to be done, which the user sees. For work of three steps and more. "
    "Gives the task's id.",
    "TaskGet": "A task with its description, what it blocks and what it waits for. TaskList shows all ids.",
    "TaskUpdate": "Change a task: mark it in_progress when you begin with it and completed as soon as it is wholly done, "
    "or delete it with the status `deleted`. Keep one task in_progress at a time.",
    "TaskList": "All tasks with their ids, status, owner and what they wait for.",
}

_TITLES: Mapping[str, Callable[[Input], str]] = {
    "TaskCreate": lambda given: str(given["subject"]),
    "TaskGet": lambda given: f"task {given['taskId']}",
    "TaskUpdate": lambda given: " ".join(
        str(part) for part in ("task", given["taskId"], given.get("status", ""))
    ).strip(),
    "TaskList": lambda _given: "all tasks",
}

_EXAMPLES: Mapping[str, Sequence[Input]] = {
    "TaskCreate": [
        {"subject": "Fix the parser", "description": "Dates before 1970 are lost.", "activeForm": "Fixing the parser"}
    ],
    "TaskGet": [{"taskId": "2"}],
    "TaskUpdate": [{"taskId": "2", "status": "in_progress"}, {"taskId": "3", "addBlockedBy": ["2"]}],
    "TaskList": [{}],
}


def _text(description: str, most: int = 500) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": description}


def _ids(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "maxItems": MAX_TASKS, "description": description}


_ID = _text("The task's id, as TaskCreate and TaskList give it.", 20)
_FORM = _text("The subject as what is being done: `Fixing the parser`.")
_METADATA = {"type": "object", "description": "Notes of your own, by key; null takes a key away."}

_SCHEMAS = {
    "TaskCreate": object_schema(
        {
            "subject": _text("What is to be done, in one line, as an order."),
            "description": _text("What it takes and when it is done.", 5_000),
            "activeForm": _FORM,
            "metadata": _METADATA,
        },
        ["subject", "description"],
    ),
    "TaskGet": object_schema({"taskId": _ID}, ["taskId"]),
    "TaskUpdate": object_schema(
        {
            "taskId": _ID,
            "subject": _text("A new subject."),
            "description": _text("A new description.", 5_000),
            "activeForm": _FORM,
            "status": {
                "enum": ["pending", "in_progress", "completed", "deleted"],
                "description": "How far it is; `deleted` takes it off the list.",
            },
            "addBlocks": _ids("Ids of tasks that wait for this one."),
            "addBlockedBy": _ids("Ids of tasks that this one waits for."),
            "owner": _text("Who does it.", 100),
            "metadata": _METADATA,
        },
        ["taskId"],
    ),
    "TaskList": object_schema({}, []),
}
