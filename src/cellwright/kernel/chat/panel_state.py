"""The message `state`: what a panel shows around the conversation, sent whole when something of it has changed.

It offers model, mode and effort for the prompts to come, less what settings and the machine forbid. A choice holds
for all prompts of this kernel, as `%config Claude` does: cells have one conversation with the panel.

Only for a panel that asks: what fills the context of the conversation, and the last lines of the log.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cellwright.agent.calls.approval import ToolUse
from cellwright.conversation.resolve_options import DEFAULT_MODEL, effort_of, full_name, mode_of, model_of, named_models
from cellwright.conversation.runs.run import leave_other_modes
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.conversation_log import LoggedRun
from cellwright.kernel.pages.comm import PageError, optional
from cellwright.kernel.run.ipykernel_api import loses_output
from cellwright.model.credentials import is_scripted
from cellwright.model.models import EFFORTS, limits, model_name
from cellwright.permissions.modes import LISTED_MODES, MODE_LABELS, mode_name
from cellwright.text import visible_line
from cellwright.tools.shell.background import background_tasks

if TYPE_CHECKING:
    from cellwright.config.settings.settings import Settings
    from cellwright.kernel.conversation import NotebookConversation
    from cellwright.kernel.magic.options import Claude

LINE_CHARS = 200
MAX_ROWS = 20
"""Of runs, questions and tasks each: the screen shows many kernels."""

MODELS = (DEFAULT_MODEL, "claude-sonnet-5-5", "claude-haiku-5-5")


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
            task.get_loop().call_soon_threadsafe(
                task.add_done_callback, lambda ended: self._on_loop(self._forget, ended)
            )

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


class Choices:
    """On the agent's loop. The settings are those in force: read again before each run, not here."""

    def __init__(self, conversation: Conversation, config: Claude) -> None:
        self._conversation = conversation
        self._config = config
        self._offered: tuple[Settings, list[str]] | None = None

    @property
    def model(self) -> str:
        """The model of the next prompt; "" where the settings exclude the one they name."""
        try:
            return self._model(self._asked("model"))
        except CellwrightError:
            return ""

    @property
    def models(self) -> list[dict[str, str]]:
        settings, environ = self._conversation.in_force.settings, self._conversation.in_force.environment
        named = (full_name(name, environ) for name in (*MODELS, *named_models(settings)) if name)
        offered = dict.fromkeys([*filter(None, [self.model]), *(name for name in named if "claude-" in name)])
        return [{"id": model, "name": model_name(model)} for model in offered if _is_possible(self._model, model)]

    @property
    def mode(self) -> str:
        """The mode of the next prompt: what the user chose, what the session came to, else the settings'."""
        try:
            return self._conversation.sessions.current.mode or self._mode(None)
        except CellwrightError:
            return "default"

    @property
    def modes(self) -> list[dict[str, str]]:
        settings = self._conversation.in_force.settings
        if self._offered is None or self._offered[0] is not settings:  # the machine is looked at, which takes files
            self._offered = settings, [mode for mode in LISTED_MODES if _is_possible(self._mode, mode)]
        return [{"id": mode, "name": MODE_LABELS[mode][0], "about": MODE_LABELS[mode][1]} for mode in self._offered[1]]

    @property
    def effort(self) -> str:
        """The effort with which the model thinks; "" leaves it to the model."""
        return effort_of(RunOptions(effort=self._asked("effort")), self._conversation.in_force.settings) or ""

    @property
    def efforts(self) -> list[str]:
        return list(limits(self.model).efforts) if self.model else []

    @property
    def problems(self) -> list[str]:
        """The reasons no prompt could be sent as the settings stand."""
        return [
            problem for problem in (_problem(lambda: self._model(None)), _problem(lambda: self._mode(None))) if problem
        ]

    def set(self, params: Mapping[str, Any]) -> None:
        """Choose. Raises CellwrightError for what is forbidden, PageError `invalid` for what makes no sense."""
        model, mode, effort = (optional(params, name, str) for name in ("model", "mode", "effort"))
        if model is not None and model not in [known["id"] for known in self.models]:
            self._model(model)
        if mode is not None and self._mode(mode) != mode:
            raise PageError("PERMISSION_DENIED", f"The settings allow no mode as loose as {mode_name(mode)}.")
        if effort and effort not in EFFORTS:
            raise PageError("invalid", f"Unknown effort {effort!r}. Choose one of {', '.join(EFFORTS)}.")
        chosen = self._conversation.choices  # what is picked now is newer
        with self._conversation.in_force.users_change():
            for name, value in (("model", model), ("effort", effort), ("mode", mode)):
                if value is not None:
                    setattr(self._config, name, (value or None) if name == "effort" else value)
                    chosen.set(name, None)
        if mode is not None:
            leave_other_modes(self._conversation.sessions.current, self._conversation.runs, mode)

    def _asked(self, name: str) -> Any:
        """The value that a command chose for an option of the prompts to come, else the one of `%config`."""
        return self._conversation.choices.options.get(name) or getattr(self._config, name)

    def _model(self, model: str | None) -> str:
        in_force = self._conversation.in_force
        return model_of(RunOptions(model=model), in_force.settings, in_force.environment)

    def _mode(self, mode: str | None) -> str:
        asked = mode or self._asked("mode")
        in_force = self._conversation.in_force
        return mode_of(RunOptions(mode=asked), in_force.settings, in_force.environment)


def _is_possible(choose: Callable[[str], str], value: str) -> bool:
    """True if the settings leave the choice of `value`."""
    try:
        return choose(value) == value
    except CellwrightError:
        return False


def _problem(value: Callable[[], object]) -> str:
    try:
        value()
    except CellwrightError as error:
        return error.message
    return ""


LOSES_OUTPUT = (
    "This kernel's ipykernel (7.0 to 7.3) now and then loses output of a cell that runs while Claude works here. "
    "ipykernel 7.4 does not: pip install --upgrade ipykernel"
)


class ChatState:
    """Watches what the state is made of. All of it on the agent's loop, but for what IPython tells of cells."""

    def __init__(self, notebook: NotebookConversation, config: Claude, on_loop: Callable[..., None]) -> None:
        self._notebook = notebook
        self._on_loop = on_loop
        self.choices = Choices(notebook.conversation, config)
        self.title = ""
        """Of the session, "" until the catalog knows one."""
        self._sent: Mapping[str, Any] = {}
        self.overview = Overview(notebook, on_loop, lambda: self.title, self.changed)
        self._overview_sent: Mapping[str, Any] | None = {}
        self._order: list[str] = []
        """The runs that go on or wait, as panels were told last."""
        self._looked_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        for event in ("pre_run_cell", "post_run_cell"):
            notebook.shell.events.register(event, self._cell)

    def show_title(self, title: str) -> None:
        """Tell panels what the session is called."""
        self.title = title
        self.changed()

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
        for event in ("pre_run_cell", "post_run_cell"):
            self._notebook.shell.events.unregister(event, self._cell)

    def changed(self) -> None:
        """Something may have changed: panels are told within a fifth of a second, of another run's turn at once."""
        if self._order != self._run_ids():
            # before the run's first words: what is written beside them is said to this run, and the button says so
            self._send()
        elif self._timer is None:
            wait = max(0.0, self._looked_at + 0.2 - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._send)

    def message(self) -> Mapping[str, Any]:
        """The state as it is now."""
        notebook, conversation = self._notebook, self._notebook.conversation
        there = self._run_ids()
        is_busy = any(not run.is_prompt for run in notebook.cells.running())
        session = conversation.sessions.current
        model = self.choices.model
        window = limits(session.last_model or model)
        notices = [*self.choices.problems, *self._notebook.conversation.in_force.settings.notices]
        return {
            "type": "state",
            "session": {
                "id": session.id,
                "title": self.title,
                "cost_usd": session.cost_usd,
                "context_tokens": session.context_tokens,
                "context_window": window.context_window if window.known else None,
                "turns": notebook.log.turns,
            },
            "cwd": str(conversation.cwd),
            "kernel": {"executable": sys.executable, "python": platform.python_version(), "busy": is_busy},
            "model": model,
            "models": self.choices.models,
            "mode": self.choices.mode,
            "modes": self.choices.modes,
            "effort": self.choices.effort,
            "efforts": self.choices.efforts,
            "current": there[0] if there else None,
            "waiting": there[1:],
            "asking": notebook.questions.ids,
            "notices": [*notices, LOSES_OUTPUT] if loses_output() else notices,
            "scripted": is_scripted(conversation.in_force.environment),
        }

    def _cell(self, _info: object) -> None:
        self._on_loop(self.changed)

    def _run_ids(self) -> list[str]:
        return [run.id for run in self._notebook.conversation.runs.active]

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._order = self._run_ids()
        self._looked_at = time.monotonic()
        if not self._notebook.panels.all:
            return
        if self._notebook.panels.has_overview and (now := overview_or_none(self.overview)) != self._overview_sent:
            self._overview_sent = now
            if now is not None:
                self._notebook.panels.send_overview(now)
        try:
            message = self.message()
        except CellwrightError:
            return  # the session's folder cannot be used: the next prompt says so
        if message != self._sent:
            self._sent = message
            self._notebook.panels.send_state(message)
