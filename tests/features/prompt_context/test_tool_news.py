"""A session goes on where tools and instructions are others: its prefix stays, and what is new stands at its end."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.tool import Tool, tool
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.events import Event, Notice, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say, think, turn, use


@tool(read_only=True)
async def hive(number: int) -> str:
    """How a hive is."""
    return f"Hive {number} hums."


@tool(read_only=True)
async def weather(place: str) -> str:
    """How the weather is."""
    return f"Sun in {place}."


@tool(name="hive", read_only=True)
async def named_hive(name: str) -> str:
    """How a hive of this name is. It has other words besides."""
    return f"{name} hums."


Go = Callable[..., list[str]]


@pytest.fixture
def place(messages_server: Any, tmp_path: Path, own_place: Path) -> Iterator[Any]:
    """`place(script, tools)`: a conversation of another process each time, which goes on with the newest session."""
    open_now: list[Conversation] = []

    class Place:
        server: MessagesServer
        events: list[Event]
        home = own_place

        def process(self, tools: Sequence[Tool]) -> Conversation:
            while open_now:
                open_now.pop().close()
            environ = {
                "HOME": str(own_place),
                "ANTHROPIC_BASE_URL": self.server.url,
                "ANTHROPIC_API_KEY": self.server.api_key,
            }
            made = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ, more_tools=lambda _: tools))
            open_now.append(made)
            made.sessions.resume_newest()
            return made

        def ask(self, conversation: Conversation, prompt: str) -> str:
            """Ask, and give what was told beside the words with this prompt."""
            self.events = []
            end = conversation.start(RunRequest(prompt=prompt), RunSurface(self.events.append)).future.result(60)
            assert end.ok, end.error
            messages = conversation.sessions.current.messages
            asked = next(m for m in reversed(messages) if m["role"] == "user" and prompt in json.dumps(m))
            return "\n".join(block["text"] for block in asked["content"] if block["type"] == "text")

        @property
        def notices(self) -> str:
            return "\n".join(event.message for event in self.events if isinstance(event, Notice))

    (own_place / ".claude").mkdir(exist_ok=True)
    made = Place()
    numbers = itertools.count(1)

    def answer(body: Any) -> Any:
        last = json.dumps(body["messages"][-1])
        if "call the hive" in last:
            return turn(think("I call it."), use("hive", number=1))
        return turn(think(f"Thought {next(numbers)}."), say("Well."))

    made.server = messages_server(answer)
    yield made
    while open_now:
        open_now.pop().close()


def prefix(server: MessagesServer) -> set[str]:
    bodies = [request.body for request in server.requests if request.path == "/v1/messages"]
    return {json.dumps([body["system"], body["tools"]], sort_keys=True) for body in bodies}


def test_tools_that_went_and_came_are_told_once_and_thinking_stays_valid(place: Any) -> None:
    (place.home / ".claude" / "CLAUDE.md").write_text("Bees are dear to us.")
    first = place.process([hive])
    assert "<tools-since" not in place.ask(first, "one")
    session_id = first.sessions.current.id
    (place.home / ".claude" / "CLAUDE.md").write_text("Bees are dear.")
    second = place.process([weather])
    told = place.ask(second, "two")
    assert second.sessions.current.id == session_id
    assert "Gone since" in told
    assert ": hive." in told
    assert "Came since" in told
    assert ": weather." in told
    assert "Bees are dear." in told
    assert "gone: hive" in place.notices
    assert "cannot call: weather" in place.notices
    assert "<tools-since" not in place.ask(second, "three")
    again = place.process([weather])
    assert "<tools-since" not in place.ask(again, "four")
    back = place.process([hive])
    assert "tools are again" in place.ask(back, "five")
    assert "<tools-since" not in place.ask(back, "six")
    # thinking is bound to system, tools and all that was said before: the server has refused nothing, and it was sent
    assert len(prefix(place.server)) == 1
    last = place.server.requests[-1].body["messages"]
    assert sum(block["type"] == "thinking" for m in last for block in m["content"] if isinstance(block, dict)) == 5


def test_a_call_of_a_tool_that_is_gone_is_answered_clearly(place: Any) -> None:
    place.ask(place.process([hive]), "one")
    second = place.process([weather])
    place.ask(second, "call the hive")
    [ended] = [event for event in place.events if isinstance(event, ToolEnd)]
    assert ended.error["code"] == "TOOL_NOT_FOUND"
    message = ended.error["message"]
    assert message.startswith("hive was there")
    assert "Read" in message
    assert "weather" not in message  # it cannot be called in this session


def test_a_tool_that_takes_another_input_is_told_and_other_words_are_not(place: Any) -> None:
    place.ask(place.process([hive]), "one")
    told = place.ask(place.process([named_hive]), "two")
    assert 'hive takes this input now: {"properties"' in told
    assert '"name": {"type": "string"}' in told
    assert "other words" not in told
    assert len(prefix(place.server)) == 1
