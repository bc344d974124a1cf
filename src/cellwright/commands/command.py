"""What a slash command is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from cellwright.agent.calls.approval import CanUseTool
from cellwright.commands.page import Page
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.run_options import RunOptions
from cellwright.events import Emit, Event


def _unheard(_event: Event) -> None:
    """Where nobody listens."""


@dataclass(frozen=True)
class CommandCall:
    """One use of a command. `text` is what follows its name; `options` are those a run would have.

    `emit` and `ask_user` show and ask as in a run, on the agent's thread; `ask_user` is None where nobody can be asked.
    """

    conversation: Conversation
    options: RunOptions
    text: str = ""
    emit: Emit = _unheard
    ask_user: CanUseTool | None = None


Answer = Page | Coroutine[Any, Any, Page]


@dataclass(frozen=True)
class Command:
    """One command. `run` gives a page, or a coroutine of one that is run on the agent's thread.

    `takes` names what may follow the command ("" where nothing may); `asks`: it may have a question to the user.
    """

    run: Callable[[CommandCall], Answer]
    help: str
    takes: str = ""
    asks: bool = False
