"""The slash commands of sessions, as every face calls them; and what a run tells of old sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sessions.catalog.conftest import Held

from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, Notice
from cellwright.features.conversation import Conversation
from cellwright.sessions.state_dir import state_folder
from cellwright.testing import Gate, MessagesServer, hold, say, turn

SECONDS = 60


class Talk:
    def __init__(self, server: MessagesServer, cwd: Path, home: Path) -> None:
        environ = {"HOME": str(home), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.server = server
        self.conversation = Conversation(Host(cwd=cwd, interface="a test", environ=environ))
        self.events: list[Event] = []

    def do(self, prompt: str) -> CommandPage:
        command, text = command_of(prompt)
        call = CommandCall(self.conversation, RunOptions(), text)
        return self.conversation.thread.submit(answer_of(command, call)).future.result(SECONDS)

    def told(self, prompt: str) -> str:
        return self.do(prompt).plain()

    def refused(self, prompt: str) -> CellwrightError:
        with pytest.raises(CellwrightError) as caught:
            self.do(prompt)
        return caught.value

    def start(self, prompt: str) -> Any:
        return self.conversation.start(
            RunRequest(prompt=prompt, options=RunOptions(builtin_tools=False)), RunSurface(self.events.append)
        )

    def say(self, prompt: str) -> None:
        task = self.start(prompt)
        self.conversation.jobs.work_until_done(task)
        assert task.result().ok

    @property
    def session(self) -> str:
        return self.conversation.sessions.current.id


@pytest.fixture
def talk(messages_server: Any, project: Path, own_place: Path) -> Iterator[Talk]:
    made = Talk(messages_server([say("Yes.")]), project, own_place)
    yield made
    made.conversation.close()
    assert not made.server.rejected


def test_the_list_says_which_is_this_one_and_what_is_damaged(talk: Talk, held: Held) -> None:
    assert "No session of" in talk.told("/sessions")
    assert "that holds 'bees'" in talk.told("/sessions bees")
    broken = held("one", "two")
    broken.write_bytes(broken.read_bytes().replace(b"two", b"TWO"))
    talk.say("this")
    rows = talk.told("/sessions").splitlines()[2:]
    assert [row.strip().split("  ")[0] for row in rows] == ["this (current)", "one (damaged)"]


def test_resume_by_id_by_the_only_words_and_by_the_title(talk: Talk, held: Held) -> None:
    bees, hive = held("Count the bees"), held("The bees and their hive")
    assert "hold these words" in talk.told("/resume bees")
    assert talk.conversation.sessions.started is None or talk.session not in (bees.stem, hive.stem)
    talk.do("/resume hive")
    assert talk.session == hive.stem
    talk.do("/resume count the bees")
    assert talk.session == bees.stem
    talk.do(f"/resume {hive.stem}")
    assert talk.session == hive.stem
    assert bees.stem in talk.told("/resume")
    error = talk.refused("/resume hornets")
    assert (error.code, talk.session) == (ErrorCode.SESSION_NOT_FOUND, hive.stem)


def test_forks_of_this_session_and_of_another(talk: Talk, held: Held) -> None:
    other = held("one", "two", "three")
    assert "nothing to fork" in talk.refused("/fork").message
    assert f"The session {other.stem} stays as it was." in talk.told(f"/fork {other.stem} 2")
    assert len(talk.conversation.sessions.current.messages) == 8
    talk.do("/fork 1")
    assert len(talk.conversation.sessions.current.messages) == 4
    talk.do("/fork")
    assert len(talk.conversation.sessions.current.messages) == 4
    before = talk.session
    assert talk.refused("/fork 2").code == ErrorCode.INVALID_PARAMETERS
    found = talk.refused("/fork one two three")
    assert found.code == ErrorCode.INVALID_PARAMETERS
    assert talk.refused("/fork 1999").code == ErrorCode.INVALID_PARAMETERS
    assert talk.session == before


def test_forks_stand_below_their_session_and_each_cost_is_told_once(talk: Talk, held: Held) -> None:
    other = held("one", "two")
    talk.do(f"/fork {other.stem} 1")
    first = talk.session
    assert f"before it, in {other.stem} (counted there)  $0.50" in talk.told("/cost")
    talk.say("and then?")  # without tools, and so in a fork again
    second = talk.session
    talk.do("/fork")
    page = talk.do("/sessions").sections[0]
    shown = [(row[-1], row[0]) for row in page.rows[1:]]
    assert shown == [
        (other.stem, "one"),
        (first, "└ one"),
        (second, "\u2003└ and then?"),
        (talk.session, "\u2003\u2003└ and then? (current)"),
    ]
    session = talk.conversation.sessions.current
    assert session.cost_usd == 0
    assert session.cost_before_usd is not None
    assert 0.5 < session.cost_before_usd < 0.6
    assert [row[3] for row in page.rows[1:3]] == ["$1.00", "$0.00"]


def test_name_and_tags_need_a_session_on_disk(talk: Talk) -> None:
    for prompt in ("/rename Bees", "/rename", "/tag keep"):
        assert talk.refused(prompt).code == ErrorCode.INVALID_PARAMETERS
    talk.say("count")
    assert "“Bees” now" in talk.told("/rename Bees")
    assert ": #keep #thesis." in talk.told("/tag keep, #thesis")
    assert "no tags now" in talk.told("/tag")
    first = talk.session
    assert f"/resume {first}" in talk.told("/clear")
    assert talk.session != first


def test_while_a_run_goes_on_its_session_stays(
    messages_server: Any, project: Path, own_place: Path, held: Held
) -> None:
    gate, other = Gate(), held("other")
    talk = Talk(messages_server([turn(say("Ye"), hold(gate), say("s."))]), project, own_place)
    task = talk.start("count")
    gate.wait_until_reached(SECONDS)
    there = sorted(path.name for path in other.parent.glob("*.jsonl"))
    for prompt in (f"/resume {other.stem}", "/clear", "/fork", f"/fork {other.stem} 1"):
        assert "still working" in talk.refused(prompt).message, prompt
    assert sorted(path.name for path in other.parent.glob("*.jsonl")) == there
    talk.do("/rename Bees")
    gate.open()
    talk.conversation.jobs.work_until_done(task)
    assert task.result().ok
    talk.conversation.close()


def test_a_run_tells_that_old_sessions_will_go(talk: Talk) -> None:
    state_folder().mkdir(parents=True)
    (state_folder() / "cleanup.json").write_text(json.dumps({"announced": 3}))
    talk.say("count")
    notices = [event.message for event in talk.events if isinstance(event, Notice)]
    assert [notice for notice in notices if "for 30 days" in notice]
