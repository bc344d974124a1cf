"""The list of what is to be done: what views need to know of it, and which tools keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LIST_TOOLS = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList"})
"""The tools whose work shows in the list itself; views need not show each call as well."""

MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
"""The marks for how far a todo is, in plain text."""


def describe_progress(todos: Sequence[Mapping[str, Any]]) -> str:
    """`2 of 5 done`, or that there is nothing to do."""
    if not todos:
        return "nothing to do"
    done = sum(todo["status"] == "completed" for todo in todos)
    return f"{done} of {len(todos)} done"


def task_tools_enabled(environ: Mapping[str, str]) -> bool:
    """Return whether the user opted in to the Task tools, in the place of TodoWrite.

    As in Claude Code, `CLAUDE_CODE_ENABLE_TASKS` or `CLAUDE_CODE_ENABLE_TODO_TOOLS` opt in, and
    `CLAUDE_CODE_ENABLE_TASKS=0` selects TodoWrite whatever the other says.
    """
    tasks = environ.get("CLAUDE_CODE_ENABLE_TASKS", "")
    return _is_on(tasks) if tasks else _is_on(environ.get("CLAUDE_CODE_ENABLE_TODO_TOOLS", ""))


def _is_on(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "no", "off")
