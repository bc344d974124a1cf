"""Every run has its end event, whatever fails: a folder that is gone, a handler that raises, a hook, a view."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.agent.tool import tool
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.events import Event, RunEnd, TextDelta, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say, turn, use


class Talk:
    """A conversation in a folder, and what was shown of it."""

    def __init__(self, server: MessagesServer, project: Path, home: Path) -> None:
        environ = {"HOME": str(home), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.server = server
        self.project = project
        self.conversation = Conversation(Host(cwd=project, interface="a test", environ=environ))
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def say(self, prompt: str, surface: RunSurface | None = None, **options: Any) -> RunEnd:
        self.events.clear()
        request = RunRequest(prompt=prompt, options=RunOptions(**options))
        run = self.conversation.start(request, surface or RunSurface(emit=self.emit))
        self.conversation.jobs.work_until_done(run)
        end = run.result()
        assert [event for event in self.events if isinstance(event, RunEnd)] == [end]
        assert self.events[-1] is end
        return end


@pytest.fixture
def talk(messages_server: Any, tmp_path: Path, own_place: Path) -> Iterator[Any]:
    talks: list[Talk] = []

    def make(*script: Any) -> Talk:
        (tmp_path / "project").mkdir()
        talks.append(Talk(messages_server(script), tmp_path / "project", own_place))
        return talks[-1]

    yield make
    for each in talks:
        each.conversation.close()


@pytest.fixture
def raising_handler() -> Iterator[None]:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("a handler of the user's")

    handler = Raising(logging.DEBUG)
    logger = logging.getLogger("cellwright")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_a_folder_that_is_gone_is_an_error_of_the_calls_that_need_it(
    talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    talking = talk(say("one"), turn(use("Bash", command="pwd"), use("LS", path=".")), say("I see."), say("Here again."))
    monkeypatch.chdir(talking.project)
    assert talking.say("first", allow=("Bash",)).ok
    shutil.rmtree(talking.project)
    assert talking.say("look", allow=("Bash",)).ok
    ends = {event.name: event for event in talking.events if isinstance(event, ToolEnd)}
    assert {end.status for end in ends.values()} == {"error"}
    assert ends["Bash"].content == (
        f"The folder {talking.project}, in which commands run, has been deleted. Ask the user whether to make it again."
    )
    os.chdir("/")
    talking.project.mkdir()
    assert talking.say("again").ok
    assert talking.server.rejected == []


@pytest.mark.usefixtures("raising_handler")
def test_a_logging_handler_that_raises_ends_no_run_without_its_end(talk: Any) -> None:
    talking = talk(turn(say("Look."), use("LS", path=".")), say("done"), say("on"))
    talking.say("go")
    assert talking.say("go on").session_id


@pytest.mark.usefixtures("raising_handler")
def test_a_tool_that_raises_is_an_error_of_the_call_whatever_handlers_do(talk: Any) -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @tool
    async def fails() -> str:
        """Fail."""
        raise Unspeakable

    talking = talk(use("fails"), say("I see."))
    assert talking.say("go", tools=(fails,), allow=("fails",)).ok
    [end] = [event for event in talking.events if isinstance(event, ToolEnd)]
    assert str(end.content).endswith("Unspeakable: <exception str() failed>")


def test_a_view_that_raises_keeps_nobody_from_the_end(talk: Any) -> None:
    talking = talk(say("done"))

    def broken(event: Event) -> None:
        talking.emit(event)
        if isinstance(event, TextDelta):
            raise ZeroDivisionError("a preview")

    assert talking.say("go", RunSurface(emit=broken)).ok


def test_a_hook_that_raises_is_an_error_for_the_user(talk: Any) -> None:
    async def raising(*_: Any) -> dict[str, Any]:
        raise SystemExit(3)

    talking = talk(turn(use("LS", path=".")), say("done"), say("on"))
    for event in ("UserPromptSubmit", "PreToolUse", "Stop"):
        end = talking.say("go", hooks={event: [HookMatcher(None, [raising])]})
        assert end.ok or end.error is not None


def test_what_fails_before_the_agent_works_is_an_error_and_an_end(talk: Any) -> None:
    talking = talk(say("never"))
    ends: list[Any] = []

    class Observer:
        def run_added(self, run: Any) -> None: ...
        def on_event(self, run: Any, event: Event) -> None: ...
        def session_changed(self, session: Any) -> None: ...
        def run_ended(self, run: Any) -> None:
            ends.append(run.state)

    class Broken:
        def question(self) -> None:
            raise ZeroDivisionError("ours")

        def answer(self, *_: Any, **__: Any) -> None: ...

    talking.conversation.observers.add(Observer())
    with pytest.raises(CellwrightError, match="bug in Cellwright"):
        talking.conversation.start(RunRequest(prompt="go", trust_checks=(Broken(),)), RunSurface(emit=talking.emit))
    assert ends == ["failed"]
    [end] = talking.events
    assert isinstance(end, RunEnd)
    assert end.error is not None
    assert "ZeroDivisionError" in end.error["message"]
