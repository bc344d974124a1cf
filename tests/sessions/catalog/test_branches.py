"""A fork at any turn of a real history is one that the API takes, with the strict local server as the judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sessions.catalog.conftest import append, begun
from tests.sessions.catalog.conftest import say as said

from cellwright.agent.tool import tool
from cellwright.checkpoints.journal import journal_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.sessions.catalog.catalog import Catalog, fork_at
from cellwright.sessions.catalog.metadata import write_title
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages
from cellwright.testing import MessagesServer, say, think, turn, use

TURNS = 4


class Talk:
    def __init__(self, server: MessagesServer, cwd: Path, home: Path) -> None:
        self.server = server
        environ = {"HOME": str(home), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.conversation = Conversation(Host(cwd=cwd, interface="a test", environ=environ))

    def say(self, prompt: str) -> Any:
        task = self.conversation.start(RunRequest(prompt=prompt, options=RunOptions(tools=(look,))), RunSurface())
        self.conversation.jobs.work_until_done(task)
        end = task.result()
        assert end.ok, end.error
        return end


@tool(read_only=True)
def look(name: str) -> str:
    """Look at something."""
    return name


@pytest.fixture
def talk(messages_server: Any, project: Path, own_place: Path) -> Iterator[Talk]:
    """Four turns: thinking and calls, two calls at once, words alone."""
    script = [
        turn(think("Hm."), use("look", name="a")),
        turn(think("So."), say("One.")),
        turn(think("Both."), use("look", name="b"), use("look", name="c")),
        turn(think("Then."), use("look", name="d")),
        say("Two."),
        turn(think("Words."), say("Three.")),
        turn(use("look", name="e")),
        turn(think("Last."), say("Four.")),
    ]
    made = Talk(messages_server([*script, *[turn(think("On."), say("Gone on."))] * TURNS]), project, own_place)
    for number in range(1, TURNS + 1):
        made.say(f"prompt {number}")
    yield made
    made.conversation.close()
    assert not made.server.rejected


@pytest.mark.parametrize("number", [*range(1, TURNS + 1), None])
def test_each_turn_can_be_gone_on_from(number: int | None, talk: Talk) -> None:
    whole = talk.conversation.sessions.current
    assert whole.path is not None
    before = whole.path.read_bytes()
    fork = fork_at(whole.path, number)
    prompts = [m for m in fork.messages if m["role"] == "user" and m["content"][0]["type"] != "tool_result"]
    assert len(prompts) == (number or TURNS)
    assert fork.encoded == whole.encoded[: len(fork.encoded)], "the bytes that were sent, so that the cache holds"
    talk.conversation.sessions.use(fork)
    talk.say("and then?")
    sent = talk.server.requests[-1].body["messages"]
    assert sent[-1]["content"][-1]["text"] == "and then?"
    assert whole.path.read_bytes() == before
    assert fork.path is not None
    assert read_messages(fork.path) == fork.messages
    assert fork.forked_from == whole.id


@pytest.mark.parametrize("number", [-1, TURNS + 1, 10**9])
def test_there_is_no_such_turn(number: int, talk: Talk) -> None:
    folder = talk.conversation.sessions.current.path.parent  # type: ignore[union-attr]
    before = sorted(folder.iterdir())
    with pytest.raises(CellwrightError, match=f"has no turn {number}") as caught:
        fork_at(talk.conversation.sessions.current.path, number)  # type: ignore[arg-type]
    assert caught.value.code == ErrorCode.INVALID_PARAMETERS
    assert sorted(folder.iterdir()) == before


def test_a_turn_that_was_cut_off_in_a_call_is_answered_in_the_fork(project: Path) -> None:
    session = begun(project)
    said(session, "first")
    append(session, {"role": "user", "content": "second"})
    call = {"type": "tool_use", "id": "open", "name": "Read", "input": {}}
    append(session, {"role": "assistant", "content": [call]})
    assert session.path is not None
    fork = fork_at(session.path, 2)
    assert fork.messages[-1]["content"][0]["tool_use_id"] == "open"
    assert fork.messages[-1]["content"][0]["is_error"] is True
    assert "had not ended" in fork.notices[0]
    assert "open" not in str(fork_at(session.path, 1).messages)


def test_turns_that_were_taken_back_do_not_count(project: Path) -> None:
    session = begun(project)
    said(session, "first")
    seq = session.next_seq
    said(session, "taken back")
    session.return_to(seq)
    said(session, "second")
    assert session.path is not None
    assert "taken back" not in str(fork_at(session.path, 2).messages)
    assert fork_at(session.path, 2).messages == session.messages
    with pytest.raises(CellwrightError, match="no turn 3"):
        fork_at(session.path, 3)


def test_a_damaged_session_can_be_forked_before_the_damage(project: Path) -> None:
    session = begun(project)
    for prompt in ("first", "second"):
        said(session, prompt)
    session.close()
    assert session.path is not None
    lines = session.path.read_bytes().split(b"\n")
    lines[6] = b"#" + lines[6]
    session.path.write_bytes(b"\n".join(lines))
    assert fork_at(session.path, 1).messages == session.messages[:4]
    assert fork_at(session.path, 2).notices
    with pytest.raises(CellwrightError, match="no turn 3"):
        fork_at(session.path, 3)


def test_what_can_be_undone_in_the_fork_is_what_was_done_up_to_there(project: Path) -> None:
    session = begun(project)
    for number, prompt in enumerate(("first", "second"), 1):
        journal_of(session).append({"turn": number, "at": 1.0, "seq": session.next_seq + 1, "prompt": prompt})
        said(session, prompt)
    assert session.path is not None
    for turns in (1, 2):
        fork = fork_at(session.path, turns)
        assert [turn.prompt for turn in journal_of(fork).history.turns] == ["first", "second"][:turns]


def test_a_fork_is_named_after_its_session(project: Path, catalog: Catalog) -> None:
    session = begun(project)
    said(session, "first")
    assert session.path is not None
    unnamed = catalog.fork(session.id)
    write_title(session.path, "Bees")
    at_turn, whole = catalog.fork(session.id, 1), catalog.fork(session.id)
    names = {entry.id: (entry.title, entry.title_by) for entry in catalog.entries()}
    assert names == {
        session.id: ("Bees", "user"),
        unnamed.id: ("first", ""),
        at_turn.id: ("Bees (fork at turn 1)", "fork"),
        whole.id: ("Bees (fork)", "fork"),
    }
    assert all(isinstance(each, Session) for each in (unnamed, at_turn, whole))
