"""The message `overview`: what runs, waits and asks in this kernel, for a screen that shows all kernels of a server.

It is sent whole when something of it has changed, to connections with the view `overview` and to no others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cellwright.agent.calls.approval import ToolUse
from cellwright.errors import CellwrightError
from cellwright.kernel.chat.conversation_log import LoggedRun
from cellwright.text import visible_line
from cellwright.tools.shell.background import background_tasks

if TYPE_CHECKING:
    from cellwright.kernel.conversation import NotebookConversation

LINE_CHARS = 200
MAX_ROWS = 20
"""Of runs, questions and tasks each: the screen shows many kernels."""


class Overview:
    """Builds the message, and watches the tasks that no event of a run tells of. On the agent's loop."""

    def __init__(
        self,
        notebook: NotebookConversation,
        on_loop: Callable[..., None],
        title: Callable[[], str],
        changed: Callable[[], None],
    ) -> None:
        self._notebook = notebook
        self._on_loop = on_loop
        self._title = title
        self._changed = changed
        self._followed: set[asyncio.Future[Any]] = set()

    def message(self) -> Mapping[str, Any]:
        """The kernel's sessions as they are now. Raises CellwrightError when the session's folder cannot be used."""
        notebook = self._notebook
        session = notebook.conversation.sessions.current
        shown = [run for run in notebook.log.runs.values() if run.kind != "past"]
        active = [run for run in shown if not run.finished]
        last = next((run for run in reversed(shown) if run.finished), None)
        return {
            "type": "overview",
            "session": {"id": session.id, "title": self._title(), "cost_usd": session.cost_usd},
            "cwd": str(notebook.conversation.cwd),
            "runs": [_run(run) for run in active[:MAX_ROWS]],
            "last": None if last is None else _run(last),
            "questions": [_question(use) for use in notebook.questions.uses[:MAX_ROWS]],
            "tasks": self._tasks()[:MAX_ROWS],
        }

    def _tasks(self) -> list[dict[str, Any]]:
        now, began = time.monotonic(), time.time()
        rows: list[dict[str, Any]] = []
        for command in background_tasks().all():
            if not command.run.ended.done():
                rows.append(_task(command.id, "command", command.shown_command, began - (now - command.started)))
                self._follow(command.run.ended)
        for agent in self._notebook.conversation.features.subagents.background:
            if not agent.task.done():
                title = f"{agent.type}: {agent.description}"
                rows.append(_task(agent.id, "agent", title, began - (now - agent.started)))
                self._follow(agent.task)
        return rows

    def _follow(self, task: asyncio.Future[Any]) -> None:
        """Have the end of `task` shown: it may come when no run is active."""
        if task not in self._followed:
            self._followed.add(task)
            task.get_loop().call_soon_threadsafe(task.add_done_callback, self._ended)

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._on_loop(self._forget, task)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._followed.discard(task)
        self._changed()


def overview_or_none(overview: Overview) -> Mapping[str, Any] | None:
    """The message; None when the session's folder cannot be used, which the next prompt reports."""
    try:
        return overview.message()
    except CellwrightError:
        return None


def _question(use: ToolUse) -> dict[str, Any]:
    preview = use.preview
    about = preview.path or next((line for line in preview.detail.splitlines() if line.strip()), "")
    return {
        "id": use.question_id,
        "kind": use.kind,
        "title": visible_line(preview.title, LINE_CHARS),
        "about": visible_line(about, LINE_CHARS),
    }


def _run(run: LoggedRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "title": visible_line(run.prompt, LINE_CHARS),
        "place": run.origin,
        "state": run.state,
        "asked": run.asked_at,
        "ended": run.ended_at,
        "background": run.background,
        "replayed": run.replayed,
    }


def _task(task_id: str, kind: str, title: str, began: float) -> dict[str, Any]:
    return {"id": task_id, "kind": kind, "title": visible_line(title, LINE_CHARS), "began": round(began, 1)}
