"""The task list of a session, as its calls made it.

Nothing is kept but the session's messages: when a session goes on in another process, its calls are gone through
again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cellwright.agent.tool import ToolContext
from cellwright.errors import ToolError
from cellwright.tools.planning.tasks.task_create import TaskCreateInput, add_task, created_id
from cellwright.tools.planning.tasks.task_update import TaskUpdateInput, change_task
from cellwright.tools.planning.tasks.tasks import Tasks


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
    results = {block["tool_use_id"]: block for message in messages for block in _blocks(message, "tool_result")}
    for message in messages:
        for call in _blocks(message, "tool_use"):
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


def _blocks(message: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    content = message["content"]
    if not isinstance(content, str):
        yield from (block for block in content if block["type"] == kind)
