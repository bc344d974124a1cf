"""Which session a conversation goes on with, and with which tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cellwright
from cellwright.agent.tool import ToolResult, tool
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, Notice, RunEnd, TextDelta
from cellwright.features.conversation import Conversation
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder
from cellwright.sessions.transcripts.transcript import read_messages
from cellwright.testing import Gate, MessagesServer, hold, say, think, turn, use


class Talk:
    """A conversation with a server that answers from a script."""

    def __init__(self, server: MessagesServer, cwd: Path, home: Path) -> None:
        self.server = server
        environ = {"HOME": str(home), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.conversation = Conversation(Host(cwd=cwd, interface="a test", environ=environ))
        self.events: list[Event] = []
        self.refused = 0

    def say(self, prompt: Any, *, session: Session | None = None, **options: Any) -> RunEnd:
        self.events.clear()
        task = self.conversation.start(
            RunRequest(prompt=prompt, options=RunOptions(**options), session=session), RunSurface(self.events.append)
        )
        self.conversation.jobs.work_until_done(task)
        return task.result()

    @property
    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Notice)]

    @property
    def tools_sent(self) -> list[str]:
        return [definition["name"] for definition in self.server.requests[-1].body.get("tools", [])]


@pytest.fixture
def talk(messages_server: Any, tmp_path: Path, own_place: Path) -> Iterator[Talk]:
    script = [turn(think("Hm."), use("LS", path=".")), *[turn(think("Hm."), say("Yes."))] * 5]
    made = Talk(messages_server(script), tmp_path, own_place)
    yield made
    made.conversation.close()
    assert len(made.server.rejected) == made.refused


@tool(read_only=True)
def look(name: str) -> str:
    """Look at something."""
    return name


def test_the_newest_session_is_kept_where_it_is_held_already(talk: Talk) -> None:
    first = talk.say("one").session_id
    assert talk.conversation.sessions.resume_newest()
    # loaded again, it would be a fork: its lease is held already
    assert talk.say("two").session_id == first
    assert talk.notices == []


def test_without_tools_for_one_prompt(talk: Talk) -> None:
    first = talk.say("one")
    usual = talk.tools_sent
    without = talk.say("two", builtin_tools=False)
    assert talk.tools_sent == []
    assert without.session_id != first.session_id
    after = talk.say("three")
    assert talk.tools_sent == usual
    assert "tools have changed" in talk.notices[0]
    assert len(talk.server.requests[-1].body["messages"]) == 7
    assert talk.say("four").session_id == after.session_id


def test_a_given_session_gets_the_tools_that_were_asked_for(talk: Talk) -> None:
    given = Session.create(talk.conversation.cwd, None)
    talk.say("one", session=given)
    said = len(given.encoded)
    end = talk.say("two", session=given, tools=(look,))
    assert "look" in talk.tools_sent
    assert end.session_id != given.id
    assert len(given.encoded) == said
    assert not sessions_folder(talk.conversation.cwd).exists()


@pytest.mark.parametrize("prompt", ["", " \n", [], [{"type": "text", "text": ""}]])
def test_an_empty_prompt_is_refused_before_it_is_in_the_session(talk: Talk, prompt: Any) -> None:
    talk.say("one")
    with pytest.raises(CellwrightError) as caught:
        talk.say(prompt)
    assert caught.value.code == ErrorCode.INVALID_PARAMETERS
    assert talk.say("two").ok


def test_an_empty_text_beside_others_is_left_out(talk: Talk) -> None:
    assert talk.say([{"type": "text", "text": ""}, {"type": "text", "text": "one"}]).ok


def test_a_prompt_that_the_api_refuses_does_not_stay_in_its_way(talk: Talk) -> None:
    talk.say("one")
    kept = len(talk.conversation.sessions.current.encoded)
    refused = talk.say([{"type": "text", "text": "look"}, {"type": "nonsense"}])
    assert refused.error is not None
    assert refused.error["code"] == ErrorCode.API_REQUEST_INVALID
    assert "left out of" in talk.notices[-1]
    assert len(talk.conversation.sessions.current.encoded) == len(talk.conversation.sessions.current.messages) == kept
    assert talk.say("two").ok
    session = talk.conversation.sessions.current
    assert session.path is not None
    on_disk = read_messages(session.path)
    assert on_disk == session.messages
    assert len(on_disk) == kept + 2
    fork = session.fork()
    assert (fork.messages, fork.cost_usd, fork.cost_before_usd) == (session.messages, 0, session.cost_usd)
    talk.refused = 1


def test_a_result_that_the_api_refuses_does_not_stay_in_the_way(talk: Talk) -> None:
    @tool(read_only=True, name="LS")
    async def broken(path: str) -> ToolResult:
        """List."""
        return ToolResult([{"type": "nonsense"}])

    talk.refused = 1
    assert talk.say("one", tools=(broken,), builtin_tools=False).ok
    assert "last accepted message" in talk.notices[-1]
    assert "You called LS" in str(talk.server.requests[-1].body["messages"][-1]["content"])
    assert talk.say("two", tools=(broken,), builtin_tools=False).ok


def test_data_with_a_type_is_no_content_of_the_api(talk: Talk) -> None:
    @tool(read_only=True, name="LS")
    def shapes(path: str) -> list[dict[str, Any]]:
        """Shapes."""
        return [{"type": "circle", "radius": 1}]

    assert talk.say("one", tools=(shapes,), builtin_tools=False).ok
    assert '"circle"' in str(talk.server.requests[-1].body["messages"][-1])


def test_after_a_stream_that_was_left_the_next_one_begins(
    messages_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    server = messages_server([turn(say("I begin"), hold(gate)), say("Here again.")])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)

    async def twice() -> Event:
        async for event in cellwright.stream("one", session=None):
            if isinstance(event, TextDelta):
                break
        async for event in cellwright.stream("two", session=None):
            last = event
        return last

    end = asyncio.run(twice())
    assert isinstance(end, RunEnd)
    assert end.text == "Here again."


def test_a_rule_that_allows_nothing_is_told_once(talk: Talk) -> None:
    talk.say("one", allow=("Bash(make *)", "Python(x)"))
    assert ["`Python(x)`" in notice for notice in talk.notices] == [True]
    talk.say("two", allow=("Bash(make *)", "Python(x)"))
    assert talk.notices == []


def test_claude_is_not_told_of_tools_that_a_rule_denies_as_a_whole(talk: Talk) -> None:
    talk.say("one", deny=("Bash", "Glob(*)", "Edit(/src/**)"))
    begun = talk.tools_sent
    assert not {"Bash", "Glob"} & set(begun)
    assert {"LS", "Edit"} <= set(begun)
    session = talk.say("two").session_id
    assert talk.tools_sent == begun
    assert talk.say("three", deny=("Write",)).session_id == session
    assert talk.tools_sent == begun


def test_a_tool_denied_while_the_session_lasts_is_refused_when_it_is_called(
    messages_server: Any, tmp_path: Path, own_place: Path
) -> None:
    script = [turn(say("One.")), turn(use("Bash", command="echo x")), turn(say("Two."))]
    talk = Talk(messages_server(script), tmp_path, own_place)
    talk.say("one")
    begun = talk.tools_sent
    talk.say("two", deny=("Bash",))
    assert talk.tools_sent == begun
    (result,) = talk.server.requests[-1].body["messages"][-1]["content"]
    assert "the rule `Bash`" in result["content"]
    talk.conversation.close()
