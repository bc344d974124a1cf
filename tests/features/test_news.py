"""A session goes on where tools and instructions are others: its prefix stays, and what is new stands at its end."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.tool import Tool, tool
from cellwright.config.mcp.servers import ServerOrigin
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import result_of
from cellwright.errors import ErrorCode
from cellwright.events import Event, ExtensionsLoaded, Notice, NotLoaded, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say, think, turn, use
from forked.forked_python import program_in
from project_talk import ProjectTalk

SERVERS = Path(__file__).parents[1] / "shared" / "mcp_servers"
SOON = 120
NO_CONFIGURATION = "no configuration found (its program ended with the exit code 1)"


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


def odd(kind: str) -> dict[str, Any]:
    return {"command": program_in(os.environ), "args": [str(SERVERS / "odd_server.py"), kind]}


def late(file: Path) -> dict[str, Any]:
    """The entry of a server that speaks once `file` is there."""
    return {"command": program_in(os.environ), "args": [str(SERVERS / "evil_server.py"), "late", str(file)]}


class Talk(ProjectTalk):
    @property
    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Notice)]

    @property
    def loaded(self) -> list[ExtensionsLoaded]:
        return [event for event in self.events if isinstance(event, ExtensionsLoaded)]

    @property
    def told(self) -> str:
        """What the newest prompt says of what is missing."""
        content = [m["content"] for m in self.server.requests[-1].body["messages"] if m["role"] == "user"][-1]
        return "\n".join(each["text"] for each in content if "<not-available" in each.get("text", ""))

    @property
    def declared(self) -> list[str]:
        names = [tool["name"] for tool in self.server.requests[-1].body["tools"]]
        return [name for name in names if name.startswith("mcp__")]

    def servers(self, **servers: Any) -> None:
        self.write(".claude.json", json.dumps({"mcpServers": servers}))


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    made.environ |= {"ENABLE_TOOL_SEARCH": "false", "CELLWRIGHT_MCP_WAIT": str(SOON), "MCP_TIMEOUT": str(SOON * 1_000)}
    made.begin()
    yield made
    made.end()


def test_a_server_that_cannot_start_is_told_of_with_this_run(talk: Talk) -> None:
    talk.servers(dead=odd("exits"), good=odd("ok"))
    end = talk.say("go")
    (missing,) = result_of(end, talk.events).not_loaded
    assert (missing.kind, missing.name, NO_CONFIGURATION in missing.reason) == ("MCP server", "dead", True)
    assert [each for each in talk.notices if "dead" in each] == [f"{missing.words}."]
    assert talk.loaded == [ExtensionsLoaded({"dead": "failed", "good": "connected"}, (missing,))]
    assert f"- MCP server dead: {missing.reason}" in talk.told
    assert talk.declared == ["mcp__good__good"]
    end = talk.say("again")
    assert result_of(end, talk.events).not_loaded == (missing,)
    assert (talk.notices, talk.told) == ([], ""), "once is enough for people and for Claude"
    talk.servers(good=odd("ok"))
    talk.say("once more")
    assert "is available now" in talk.told


def test_a_server_that_a_program_names_is_waited_for_and_told_of_each_time(talk: Talk, tmp_path: Path) -> None:
    talk.environ["CELLWRIGHT_MCP_WAIT"] = "0.01"
    go = tmp_path / "go"
    waits = threading.Timer(0.5, go.write_text, ["", "utf-8"])
    waits.start()
    talk.say("go", mcp_servers={"slow": late(go)})
    waits.join()
    assert talk.declared == ["mcp__slow__hello"]
    for _ in range(2):
        end = talk.say("go", mcp_servers={"dead": odd("exits")})
        assert any(each.startswith("MCP server dead: ") for each in talk.notices)
        assert [each.name for each in result_of(end, talk.events).not_loaded] == ["dead"]


def test_where_only_named_servers_count_one_that_is_missing_ends_the_run(talk: Talk) -> None:
    entries = {"dead": odd("exits"), "good": odd("ok"), "wrong": {"nonsense": 1}}
    origin = ServerOrigin(scope="flag", label="--mcp-config", cwd=talk.project)
    talk.conversation.features.mcp.add_source(lambda: [(entries, origin)], only=True)
    end = talk.run("go")
    assert end.error is not None
    assert end.error["code"] == ErrorCode.MCP_CONNECTION_FAILED
    assert NO_CONFIGURATION in end.error["message"]
    assert "wrong" in end.error["message"]
    assert "good" not in end.error["message"]
    assert talk.server.requests == [], "nothing was sent"
    for name in ("dead", "wrong"):
        del entries[name]
    assert talk.say("again").text == "Good."


@pytest.mark.parametrize("search", ["true", "false"])
def test_a_session_that_goes_on_in_a_new_process_waits_for_its_servers(talk: Talk, search: str) -> None:
    talk.environ["ENABLE_TOOL_SEARCH"] = search
    talk.conversation.close()
    talk.begin()
    talk.servers(good=odd("ok"))
    load = [use("ToolSearch", query="select:mcp__good__good")] if search == "true" else []
    talk.say("go", *load, use("mcp__good__good"), say("Done."), allow=("mcp__good",))
    session = talk.conversation.sessions.current.id
    talk.conversation.close()
    talk.begin()
    talk.say("go on", use("mcp__good__good"), say("Done."), allow=("mcp__good",), resume=session)
    assert (talk.results[-1].content, talk.notices) == ("fine", [])


def test_tools_that_come_late_are_taken_in_with_the_next_prompt_and_what_it_costs_is_said(
    talk: Talk, tmp_path: Path
) -> None:
    talk.environ["CELLWRIGHT_MCP_WAIT"] = "0.01"
    talk.conversation.close()
    talk.begin()
    go = tmp_path / "go"
    talk.servers(slow=late(go))
    talk.say("go")
    assert talk.declared == []
    assert "MCP server slow" in talk.told
    first = talk.conversation.sessions.current.id
    go.write_text("", "utf-8")
    connection = talk.conversation.features.mcp.connections["slow"]
    talk.conversation.thread.submit(connection.settled.wait()).future.result(SOON)
    talk.say("again", use("mcp__slow__hello"), say("Done."), allow=("mcp__slow",))
    assert talk.results[-1].content == "hello"
    (notice,) = [each for each in talk.notices if "came after this session began" in each]
    assert "slow" in notice
    assert "without the cache" in notice
    fork = talk.conversation.sessions.current.id
    assert fork != first
    talk.say("once more")
    assert (talk.conversation.sessions.current.id, talk.notices) == (fork, []), "once"


def test_plugins_skills_hooks_and_agents_that_could_not_be_loaded_are_told_of(talk: Talk) -> None:
    talk.write(".claude/skills/large/SKILL.md", "x" * 3_000_000)
    talk.write(".claude/agents/nameless.md", "---\ndescription: Does things.\n---\nDo things.")
    talk.write(".claude/agents/README.md", "These are our agents.")
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "nonsense"}]}]}
    talk.write(".claude/settings.json", json.dumps({"enabledPlugins": {"gone@nowhere": True}, "hooks": hooks}))
    end = talk.say("go")
    missing = {each.kind: each for each in result_of(end, talk.events).not_loaded}
    assert {kind: each.name for kind, each in missing.items() if kind != "hook"} == {
        "plugin": "gone@nowhere",
        "skill": "large",
        "agent": "nameless",
    }
    assert "nonsense" in missing["hook"].reason
    for each in missing.values():
        assert each.kind == "hook" or any(notice.startswith(f"{each.kind} {each.name}: ") for notice in talk.notices)
        assert f"- {each.kind} {each.name}: " in talk.told
    assert sum("nonsense" in notice for notice in talk.notices) == 1
    assert talk.loaded == [ExtensionsLoaded({}, tuple(missing.values()))]


def test_a_run_that_lacks_nothing_says_nothing(talk: Talk) -> None:
    end = talk.say("go")
    assert (talk.loaded, talk.told, result_of(end, talk.events).not_loaded) == ([], "", ())


def test_the_command_says_so_in_the_forms_of_claude_code(messages_server, tmp_path: Path) -> None:
    server = messages_server()
    server.add(say("fine"))
    config = {"mcpServers": {"dead": odd("exits"), "good": odd("ok")}}
    environ = {
        **os.environ,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": server.api_key,
        "HOME": str(tmp_path),
    }
    command = [sys.executable, "-m", "cellwright.terminal.main", "-p", "go", "--output-format", "stream-json"]
    done = subprocess.run(
        [*command, "--verbose", "--mcp-config", json.dumps(config)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=SOON,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    states = {each["name"]: each["status"] for each in lines[0]["mcp_servers"]}
    assert (lines[0]["subtype"], states) == ("init", {"dead": "failed", "good": "connected"})
    assert any(NO_CONFIGURATION in line.get("content", "") for line in lines if line["type"] == "system")


def test_what_is_missing_is_words() -> None:
    assert NotLoaded("plugin", "a@b", "not there").words == "plugin a@b: not there"
