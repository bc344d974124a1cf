"""What is chosen in the panel, and when it holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event, UserPrompt
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.panel_state import Choices
from cellwright.kernel.magic.options import Claude
from cellwright.testing import Gate, hold, say, turn


@pytest.fixture
def config() -> Claude:
    return Claude()


@pytest.fixture
def conversation(messages_server: Any, tmp_path: Path, own_place: Path, config: Claude) -> Iterator[Conversation]:
    gate = Gate()
    server = messages_server([turn(say("One"), hold(gate), say(".")), say("Two.")])
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    made = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ, inline_settings=config.inline_settings))
    made.gate = gate  # type: ignore[attr-defined]
    yield made
    gate.open()
    made.close()


def modes(conversation: Conversation, prompt: str, *, before_its_end: Any = lambda: None) -> list[str]:
    """The modes that a prompt's run says it has, when it is over."""
    events: list[Event] = []
    task = conversation.start(
        RunRequest(prompt=prompt, options=RunOptions(builtin_tools=False)), RunSurface(events.append)
    )
    before_its_end()
    assert task.future.result(60).ok
    return [event.mode for event in events if isinstance(event, UserPrompt)]


def test_a_mode_that_is_chosen_while_a_run_goes_on_holds_at_once_and_for_the_next_one_also_of_a_cell(
    conversation: Conversation, config: Claude
) -> None:
    choices = Choices(conversation, config)
    session = conversation.sessions.current
    session.mode = "acceptEdits"  # a plan was approved so

    def choose() -> None:
        gate: Gate = conversation.gate  # type: ignore[attr-defined]
        gate.wait_until_reached(60)
        choices.set({"mode": "plan"})
        assert (choices.mode, session.mode) == ("plan", "plan")
        gate.open()

    assert modes(conversation, "one", before_its_end=choose) == ["acceptEdits"]
    assert (choices.mode, session.mode) == ("plan", None)
    assert modes(conversation, "two") == ["plan"]
    # what the user chose is nobody else's doing
    assert conversation.in_force.question() is None
    assert conversation.in_force.quarantined == []
