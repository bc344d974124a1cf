"""A list of todos for those who show it: what is known without the tools that keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
