"""The prompt as it is sent: its texts, and what is refused."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.conversation.feature import checked
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.events import Event, RunEnd, TextDelta, UserPrompt
from cellwright.features.conversation import Conversation
from cellwright.sessions.session import Session
from cellwright.testing import say, turn

PICTURE: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("Hi", "Hi"),
        ([{"type": "text", "text": " \n"}, PICTURE], [PICTURE]),
        ([{"type": "text", "text": "What is this?"}, PICTURE], [{"type": "text", "text": "What is this?"}, PICTURE]),
    ],
)
def test_empty_texts_are_left_out(prompt: Any, sent: Any) -> None:
    assert checked(prompt) == sent


@pytest.mark.parametrize("prompt", ["", " \n\t", [{"type": "text", "text": " "}], []])
def test_a_prompt_of_nothing_is_refused(prompt: Any) -> None:
    with pytest.raises(CellwrightError) as raised:
        checked(prompt)
    assert raised.value.code == "INVALID_PARAMETERS"


class Looker:
    """Notes what it hears, in order."""

    def __init__(self) -> None:
        self.heard_of: list[tuple[str, object]] = []
        self.events: list[Event] = []
        self._ends = threading.Semaphore(0)

    def wait_for_end(self) -> None:
        """Until the next run is told to have ended, which may be a little after who waits for it has its result."""
        assert self._ends.acquire(timeout=60)

    def run_added(self, run: Run) -> None:
        self.heard_of.append(("added", run.text))

    def on_event(self, run: Run, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, UserPrompt | RunEnd):
            self.heard_of.append((type(event).__name__, run.id))

    def run_ended(self, run: Run) -> None:
        self.heard_of.append(("ended", run.state))
        self._ends.release()

    def session_changed(self, session: Session) -> None:
        self.heard_of.append(("session", session.id))


class Faulty(Looker):
    """Has a fault."""

    def on_event(self, run: Run, event: Event) -> None:
        raise LookupError(event)


@pytest.fixture
def conversation(messages_server: Any, tmp_path: Path, own_place: Path) -> Iterator[Conversation]:
    server = messages_server([turn(say(f"Answer {number}.")) for number in range(3)])
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    made = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    yield made
    made.close()


def ask(conversation: Conversation, prompt: Any) -> list[Event]:
    events: list[Event] = []
    task = conversation.start(RunRequest(prompt=prompt), RunSurface(events.append))
    conversation.jobs.work_until_done(task)
    return events


def test_a_follower_hears_what_the_run_s_own_face_hears(conversation: Conversation) -> None:
    looker = Looker()
    leave = conversation.observers.add(looker)
    assert ask(conversation, "One?") == looker.events
    looker.wait_for_end()
    assert looker.heard_of == [
        ("added", "One?"),
        ("UserPrompt", "run-1"),
        ("RunEnd", "run-1"),
        ("ended", "done"),
    ]
    leave()
    ask(conversation, "Two?")
    assert len(looker.heard_of) == 4


def test_the_words_of_a_prompt_with_pictures_are_told(conversation: Conversation) -> None:
    looker = Looker()
    conversation.observers.add(looker)
    ask(conversation, [{"type": "text", "text": "Look"}, {"type": "text", "text": "here"}])
    assert looker.heard_of[0] == ("added", "Look\nhere")


def test_a_session_that_takes_the_place_of_another_is_told(conversation: Conversation) -> None:
    ask(conversation, "One?")
    looker = Looker()
    conversation.observers.add(looker)
    conversation.sessions.start_new()
    assert looker.heard_of == [("session", conversation.sessions.current.id)]


def test_a_fault_of_a_follower_ends_no_run(conversation: Conversation, caplog: pytest.LogCaptureFixture) -> None:
    looker = Looker()
    conversation.observers.add(Faulty())
    conversation.observers.add(looker)
    with caplog.at_level(logging.ERROR):
        events = ask(conversation, "One?")
    assert any(isinstance(event, TextDelta) for event in events)
    assert looker.events == events
    assert "LookupError" in caplog.text


def test_a_face_that_fails_leaves_no_gap_for_the_others(conversation: Conversation) -> None:
    looker = Looker()
    conversation.observers.add(looker)

    def failing(event: Event) -> None:
        raise LookupError(event)

    assert (
        conversation.start(RunRequest(prompt="one", options=RunOptions(builtin_tools=False)), RunSurface(failing))
        .future.result(60)
        .ok
    )
    looker.wait_for_end()
    assert "".join(event.text for event in looker.events if isinstance(event, TextDelta)) == "Answer 0."
    assert [what for what, _ in looker.heard_of] == ["added", "UserPrompt", "RunEnd", "ended"]


def test_a_run_that_cannot_begin_is_told_to_have_ended(conversation: Conversation) -> None:
    looker = Looker()
    conversation.observers.add(looker)
    with pytest.raises(CellwrightError):
        conversation.start(RunRequest(prompt="One?", options=RunOptions(allow=("Bash(",))), RunSurface())
    assert [kind for kind, _ in looker.heard_of] == ["added", "RunEnd", "ended"]
