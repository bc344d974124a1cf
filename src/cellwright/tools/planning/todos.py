"""TodoWrite and TodoRead: what is to be done, as a list that Claude keeps, reads again, and the user sees.

The fields and names are Claude Code's. A list changes nothing but what views show, so nobody is asked about it. What views
need to know of it holds for the list that the Task tools keep (`tasks.py`), too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, field, to_builtins

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_names import access_of
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import TodosChanged

MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
"""The marks for how far a todo is, in plain text."""

WRITE_DESCRIPTION = """\
Keep the to-do list, which the user sees. For work of three steps and more, or several \
requests at once; not for one simple step. Each call replaces the whole list. Keep exactly one todo in_progress \
while you work, mark it completed as soon as it is done (and only when it is wholly done), add new ones as they turn up."""

MAX_TODOS = 100

EXAMPLE = {
    "todos": [
        {"content": "Read the loader", "status": "completed", "activeForm": "Reading the loader"},
        {"content": "Fix the parser", "status": "in_progress", "activeForm": "Fixing the parser"},
    ]
}

READ_DESCRIPTION = "Return the current to-do list, with each item's status."


def keeps_the_list(tool_name: str) -> bool:
    """Return whether a tool's work shows in the list itself; views need not show each call as well."""
    return access_of(tool_name).kind == "todos"


def writes_whole_list(tool_use: Mapping[str, Any]) -> bool:
    """Return whether a call, of this program or another, gives the whole list (`todos` of its input)."""
    return bool(tool_use["name"] == "TodoWrite")


def describe_progress(todos: Sequence[Mapping[str, Any]]) -> str:
    """`2 of 5 done`, or that there is nothing to do."""
    if not todos:
        return "nothing to do"
    done = sum(todo["status"] == "completed" for todo in todos)
    return f"{done} of {len(todos)} done"


class TodoItem(msgspec.Struct, kw_only=True, frozen=True):
    """One thing to be done, as views have it."""

    content: str
    status: str
    active_form: str = msgspec.field(name="activeForm")


class TodosOutput(ToolOutput):
    """The whole list as it is now, and how many there are of each status."""

    todos: tuple[TodoItem, ...]
    total: int
    completed: int
    in_progress: int
    pending: int
    task_id: str | None = None


def todos_output(todos: Sequence[Mapping[str, Any]], task_id: str | None = None) -> TodosOutput:
    """The structured result of a tool that keeps the list; `task_id`: the task that the call was about."""
    items = msgspec.convert([dict(todo) for todo in todos], tuple[TodoItem, ...])
    statuses = [item.status for item in items]
    return TodosOutput(
        todos=items,
        total=len(items),
        completed=statuses.count("completed"),
        in_progress=statuses.count("in_progress"),
        pending=statuses.count("pending"),
        task_id=task_id,
    )


def task_tools_enabled(environ: Mapping[str, str]) -> bool:
    """Return whether the user opted in to the Task tools, in the place of TodoWrite.

    As in Claude Code, `CLAUDE_CODE_ENABLE_TASKS` or `CLAUDE_CODE_ENABLE_TODO_TOOLS` opt in, and
    `CLAUDE_CODE_ENABLE_TASKS=0` selects TodoWrite whatever the other says.
    """
    tasks = environ.get("CLAUDE_CODE_ENABLE_TASKS", "")
    return _is_on(tasks) if tasks else _is_on(environ.get("CLAUDE_CODE_ENABLE_TODO_TOOLS", ""))


def _is_on(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "no", "off")


class Todo(ToolInput):
    """One thing to be done."""

    aliases: ClassVar = {"active_form": "activeForm"}
    ignored: ClassVar = ("id", "priority")  # of Claude Code's earlier TodoWrite

    content: Annotated[str, Meta(min_length=1, max_length=500, description="The task, in the imperative.")]
    status: Annotated[Literal["pending", "in_progress", "completed"], Meta(description="How far it is.")]
    active_form: Annotated[
        str,
        Meta(min_length=1, max_length=500, description="The same in progressive form: `Running the tests`."),
    ] = field(name="activeForm")

    @classmethod
    def canonical(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """As for any input; a todo that does not say how it reads while it is done reads as it stands."""
        kept = super().canonical(values)
        return {**kept, "activeForm": kept["content"]} if "activeForm" not in kept and "content" in kept else kept


class TodoWriteInput(ToolInput):
    """The input of TodoWrite."""

    todos: Annotated[
        tuple[Todo, ...],
        Meta(max_length=MAX_TODOS, description="The whole list, in the order of work; empty to take the list away."),
    ]


def todo_write_tool() -> Tool:
    """TodoWrite."""

    @tool(
        name="TodoWrite",
        other_names=(
            "update_todos",
            "write_todos",
        ),
        output=TodosOutput,
        description=WRITE_DESCRIPTION,
        access=ToolAccess("todos"),
        category="planning",
        everyday=True,
        limits=ToolLimits(results=MAX_TODOS),
        examples=[EXAMPLE],
        title=lambda input: describe_progress(to_builtins(input.todos)),
    )
    async def todo_write(input: TodoWriteInput, ctx: ToolContext) -> ToolResult:
        todos = tuple(to_builtins(input.todos))
        ctx.emit(TodosChanged(todos))
        doing = [todo for todo in input.todos if todo.status == "in_progress"]
        lines = [f"The list is kept: {describe_progress(todos)}."]
        if len(doing) > 1:
            lines.append(f"{len(doing)} todos are in_progress; keep it to one at a time.")
        elif not doing and any(todo.status == "pending" for todo in input.todos):
            lines.append("None is in_progress: mark the one you work on.")
        return ToolResult(" ".join(lines), structured=todos_output(todos))

    return todo_write


class TodoReadInput(ToolInput):
    """The input of TodoRead, which takes nothing."""


def todo_read_tool() -> Tool:
    """TodoRead."""

    @tool(
        name="TodoRead",
        rarely_used=True,
        output=TodosOutput,
        description=READ_DESCRIPTION,
        access=ToolAccess("todos"),
        read_only=True,
        category="planning",
        best_for="the list as it stands",
        limits=ToolLimits(results=MAX_TODOS),
        examples=[{}],
        title=lambda _given: "Read the to-do list",
    )
    async def todo_read(_given: TodoReadInput, ctx: ToolContext) -> ToolResult:
        todos = _last_list(ctx.history())
        lines = [f"{MARKS[todo['status']]} {todo['content']}" for todo in todos]
        return ToolResult("\n".join(lines) or "There is nothing on the list.", structured=todos_output(todos))

    return todo_read


def _last_list(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The list of the last call of TodoWrite that went well; another program may have made it."""
    failed = {block["tool_use_id"] for block in blocks_of(messages, "tool_result") if block.get("is_error")}
    calls = [block for block in blocks_of(messages, "tool_use") if writes_whole_list(block)]
    for call in reversed(calls):
        if call["id"] in failed:
            continue
        try:
            return tuple(to_builtins(TodoWriteInput.from_json(call["input"]).todos))
        except (ToolError, ValueError):
            continue
    return ()


def blocks_of(messages: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Mapping[str, Any]]:
    """The content blocks of one type, in the order in which they were sent."""
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            yield from (block for block in content if block["type"] == kind)
