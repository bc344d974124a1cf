"""The message `state`: what a panel shows around the conversation, sent whole when something of it has changed."""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.errors import CellwrightError
from cellwright.kernel.chat.choices import Choices
from cellwright.kernel.run.idle_kernel import loses_output
from cellwright.model.models import limits

if TYPE_CHECKING:
    from cellwright.kernel.chat.chat import Chat

SECONDS_BETWEEN = 0.2

LOSES_OUTPUT = (
    "This kernel's ipykernel (7.0 to 7.3) now and then loses output of a cell that runs while Claude works here. "
    "ipykernel 7.4 does not: pip install --upgrade ipykernel"
)


class ChatState:
    """Watches what the state is made of. All of it on the agent's loop, but for what IPython tells of cells."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.choices = Choices(chat.conversation, chat.config)
        self.title = ""
        """Of the session, "" until the catalog knows one."""
        self._sent: Mapping[str, Any] = {}
        self._order: list[str] = []
        """The runs that go on or wait, as panels were told last."""
        self._looked_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        for event in ("pre_run_cell", "post_run_cell"):
            chat.shell.events.register(event, self._cell)

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
        for event in ("pre_run_cell", "post_run_cell"):
            self._chat.shell.events.unregister(event, self._cell)

    def changed(self) -> None:
        """Something may have changed: panels are told within a fifth of a second, of another run's turn at once."""
        if self._order != self._run_ids():
            # before the run's first words: what is written beside them is said to this run, and the button says so
            self._send()
        elif self._timer is None:
            wait = max(0.0, self._looked_at + SECONDS_BETWEEN - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._send)

    def message(self) -> Mapping[str, Any]:
        """The state as it is now."""
        chat = self._chat
        there = self._run_ids()
        session = chat.conversation.session
        model = self.choices.model
        window = limits(session.last_model or model)
        return {
            "type": "state",
            "session": {
                "id": session.id,
                "title": self.title,
                "cost_usd": session.cost_usd,
                "context_tokens": session.context_tokens,
                "context_window": window.context_window if window.known else None,
                "turns": chat.log.turns,
            },
            "cwd": str(chat.conversation.cwd),
            "kernel": {"executable": sys.executable, "python": platform.python_version(), "busy": self._is_busy},
            "model": model,
            "models": self.choices.models,
            "mode": self.choices.mode,
            "modes": self.choices.modes,
            "effort": self.choices.effort,
            "efforts": self.choices.efforts,
            "current": there[0] if there else None,
            "waiting": there[1:],
            "asking": chat.questions.there,
            "notices": self._notices(),
        }

    def _notices(self) -> list[str]:
        notices = [*self.choices.problems, *self._chat.conversation.settings.notices]
        return [*notices, LOSES_OUTPUT] if loses_output() else notices

    @property
    def _is_busy(self) -> bool:
        """Whether a cell that is no prompt is running."""
        running = self._chat.notebook.cells.running()
        return any(not run.is_prompt for run in running)

    def _cell(self, _info: object) -> None:
        self._chat.on_loop(self.changed)

    def _run_ids(self) -> list[str]:
        return [run.id for run in self._chat.conversation.runs.there]

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._order = self._run_ids()
        self._looked_at = time.monotonic()
        if not self._chat.connections.all:
            return
        try:
            message = self.message()
        except CellwrightError:
            return  # the session's folder cannot be used: the next prompt says so
        if message != self._sent:
            self._sent = message
            self._chat.connections.tell_state(message)
