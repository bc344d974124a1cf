"""TodoWrite and TodoRead: what is to be done, as a list that Claude keeps, reads again, and the user sees.

The fields and names are Claude Code's. A list changes nothing but what views show, so nobody is asked about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field, to_builtins

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import TodosChanged
from cellwright.tools.planning.todos import MARKS, TodosOutput, describe_progress, todos_output, writes_whole_list

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
    failed = {block["tool_use_id"] for block in _blocks(messages, "tool_result") if block.get("is_error")}
    calls = [block for block in _blocks(messages, "tool_use") if writes_whole_list(block)]
    for call in reversed(calls):
        if call["id"] in failed:
            continue
        try:
            return tuple(to_builtins(TodoWriteInput.from_json(call["input"]).todos))
        except (ToolError, ValueError):
            continue
    return ()


def _blocks(messages: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            yield from (block for block in content if block["type"] == kind)
