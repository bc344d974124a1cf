"""TodoRead: the list of what is to be done, as it stands: the last that TodoWrite was given in the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.tools.planning.todo_write import MAX_TODOS, TodoWriteInput
from cellwright.tools.planning.todos import MARKS, TodosOutput, todos_output, writes_whole_list

DESCRIPTION = "Return the current to-do list, with each item's status."


class TodoReadInput(ToolInput):
    """The input of TodoRead, which takes nothing."""


def todo_read_tool() -> Tool:
    """TodoRead."""

    @tool(
        name="TodoRead",
        rarely_used=True,
        output=TodosOutput,
        description=DESCRIPTION,
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
