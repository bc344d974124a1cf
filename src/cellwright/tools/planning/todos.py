"""The list of what is to be done: what views need to know of it, and which tools keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cellwright.agent.calls.tool_names import access_of
from cellwright.agent.calls.tool_results import ToolOutput

MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
"""The marks for how far a todo is, in plain text."""


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
