"""The Task tools: TaskCreate, TaskGet, TaskUpdate and TaskList, in Claude Code's spelling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolError, ToolLimits, ToolResult
from cellwright.errors import ErrorCode
from cellwright.events import TodosChanged
from cellwright.tools.schema import object_schema
from cellwright.tools.task_list import MAX_TASKS, Task, TaskList, created, task_list_of

Input = Mapping[str, Any]


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
