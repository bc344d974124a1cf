"""`--continue` where the newest session is damaged: what can be read is gone on with, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sessions.catalog.conftest import Held

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say


@pytest.fixture
def conversation(messages_server: Any, project: Path, own_place: Path) -> Iterator[Conversation]:
    server: MessagesServer = messages_server([say("Yes.")])
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    made = Conversation(Host(cwd=project, interface="a test", environ=environ))
    yield made
    made.close()


def damaged(path: Path, line: int) -> Path:
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = lines[line - 1].replace(b'"crc32":', b'"crc32":1')
    path.write_bytes(b"\n".join(lines))
    return path


def prompts(conversation: Conversation) -> list[str]:
    return [
        m["content"][-1]["text"]
        for m in conversation.sessions.current.messages
        if m["content"][0].get("type") == "text" and m["role"] == "user"
    ]


def test_what_is_damaged_is_left_out_and_told_once(held: Held, conversation: Conversation) -> None:
    held("older")
    path = damaged(held("first", "second", "third"), 6)
    before = path.read_bytes()
    assert conversation.sessions.resume_newest()
    assert prompts(conversation)[0] == "first"
    assert prompts(conversation)[-1] == "third"
    assert conversation.sessions.current.id == path.stem
    [notice] = conversation.sessions.current.notices
    assert "line 6 is damaged" in notice
    assert path.read_bytes().startswith(before)
    conversation.sessions.close()
    assert conversation.sessions.resume_newest()
    assert conversation.sessions.current.id == path.stem
    assert conversation.sessions.current.notices == []


@pytest.mark.parametrize("damage", [1, None])
def test_where_nothing_can_be_read_the_one_before_is_gone_on_with(
    damage: int | None, held: Held, conversation: Conversation
) -> None:
    older = held("older")
    path = held("first")
    for line in range(2, path.read_bytes().count(b"\n") + 1) if damage is None else [damage]:
        damaged(path, line)
    assert conversation.sessions.resume_newest()
    assert conversation.sessions.current.id == older.stem
    assert f"The session {path.stem} was passed over" in conversation.sessions.current.notices[0]
    assert path.exists()


def test_where_there_is_no_other_a_new_one_begins_and_says_why(held: Held, conversation: Conversation) -> None:
    path = damaged(held("first"), 1)
    assert not conversation.sessions.resume_newest()
    assert conversation.sessions.current.encoded == []
    assert path.stem in conversation.sessions.current.notices[0]


def test_a_damaged_session_that_was_asked_for_by_its_id_goes_on_as_well(held: Held, conversation: Conversation) -> None:
    path = damaged(held("first", "second"), 6)
    conversation.sessions.resume(path.stem)
    assert conversation.sessions.current.id == path.stem


def test_a_damaged_session_goes_on(held: Held, conversation: Conversation) -> None:
    """The history that is sent is one that the API takes."""
    from cellwright.sessions.session import Session
    from cellwright.sessions.state_dir import sessions_folder

    session = Session.create(conversation.cwd, sessions_folder(conversation.cwd))
    session.begin(model="claude-opus-5-5", system=[{"type": "text", "text": "x"}], tools=[])
    for prompt in ("one", "two"):
        session.append({"role": "user", "content": prompt})
        session.append({"role": "assistant", "content": [{"type": "text", "text": "ok"}]})
    session.close()
    assert session.path is not None
    damaged(session.path, 4)
    assert conversation.sessions.resume_newest()
    task = conversation.start(RunRequest(prompt="three", options=RunOptions(builtin_tools=False)), RunSurface())
    conversation.jobs.work_until_done(task)
    assert task.result().ok
