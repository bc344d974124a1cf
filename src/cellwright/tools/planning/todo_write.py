"""What is to be done, as a list that Claude keeps and the user sees: TodoWrite, or the Task tools in its place.

The fields and names are Claude Code's. A list changes nothing but what views show, so nobody is asked about it.

A list of todos for those who show it: what is known without the tools that keep it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolLimits, ToolResult
from cellwright.events import TodosChanged
from cellwright.tools.planning.tasks import task_tools
from cellwright.tools.schema import object_schema

LIST_TOOLS = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList"})
"""What these do shows in the list itself; views need not show each call as well."""


MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
"""How far a todo is, in plain text."""


def progress_in_words(todos: Sequence[Mapping[str, Any]]) -> str:
    """`2 of 5 done`, or that there is nothing to do."""
    if not todos:
        return "nothing to do"
    done = sum(todo["status"] == "completed" for todo in todos)
    return f"{done} of {len(todos)} done"


MAX_TODOS = 100

DESCRIPTION = """\
Keep the list of what is to be done, which the user sees. For work of three steps and more, or several things asked \
for at once; not for what is done in one go. Each call replaces the whole list. Keep exactly one todo in_progress \
while you work, mark it completed as soon as it is done (and only when it is wholly done), add what turns up."""

LIMITS = ToolLimits(seconds=10, results=MAX_TODOS)


def todo_tools(environ: Mapping[str, str]) -> tuple[Tool, ...]:
    """TodoWrite; the Task tools instead where the user opted in.

    As in Claude Code, `CLAUDE_CODE_ENABLE_TASKS` or `CLAUDE_CODE_ENABLE_TODO_TOOLS` opt in, and
    `CLAUDE_CODE_ENABLE_TASKS=0` selects TodoWrite whatever the other says.
    """
    tasks = environ.get("CLAUDE_CODE_ENABLE_TASKS", "")
    asked_for = _is_on(tasks) or _is_on(environ.get("CLAUDE_CODE_ENABLE_TODO_TOOLS", ""))
    if asked_for and (not tasks or _is_on(tasks)):
        return task_tools(LIMITS)
    return (todo_write_tool(),)


def _is_on(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "no", "off")


def todo_write_tool() -> Tool:
    """The whole list in one call."""
    return Tool(
        name="TodoWrite",
        description=DESCRIPTION,
        input_schema=_SCHEMA,
        call=_write,
        limits=LIMITS,
        category="planning",
        input_examples=[
            {
                "todos": [
                    {"content": "Read the loader", "status": "completed", "activeForm": "Reading the loader"},
                    {"content": "Fix the parser", "status": "in_progress", "activeForm": "Fixing the parser"},
                    {"content": "Run the tests", "status": "pending", "activeForm": "Running the tests"},
                ]
            }
        ],
        title=lambda tool_input: progress_in_words(tool_input["todos"]),
    )


async def _write(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
    todos: list[dict[str, Any]] = tool_input["todos"]
    ctx.emit(TodosChanged(tuple(todos)))
    doing = [todo["content"] for todo in todos if todo["status"] == "in_progress"]
    lines = [f"The list is kept: {progress_in_words(todos)}."]
    if len(doing) > 1:
        lines.append(f"{len(doing)} todos are in_progress; keep it to one at a time.")
    elif not doing and any(todo["status"] == "pending" for todo in todos):
        lines.append("None is in_progress: mark the one you work on.")
    return ToolResult(" ".join(lines))


_SCHEMA = object_schema(
    {
        "todos": {
            "type": "array",
            "maxItems": MAX_TODOS,
            "description": "The whole list, in the order of work; empty to take the list away.",
            "items": object_schema(
                {
                    "content": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 500,
                        "description": "What is to be done, as an order.",
                    },
                    "status": {
                        "enum": ["pending", "in_progress", "completed"],
                        "description": "How far it is.",
                    },
                    "activeForm": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 500,
                        "description": "The same as what is being done: `Running the tests`.",
                    },
                },
                ["content", "status", "activeForm"],
            ),
        }
    },
    ["todos"],
)
