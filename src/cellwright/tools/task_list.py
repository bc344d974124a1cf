"""A list of tasks with ids, changed one at a time: what the session's calls made of it.

Nothing is kept but the session's messages: where a session goes on in another process, its calls are gone through again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode

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
