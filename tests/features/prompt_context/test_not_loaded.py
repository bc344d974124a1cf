"""What a run was promised and lacks is said before its first request: to the user, to Claude, and to programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.config.mcp.entries import ServerOrigin
from cellwright.conversation.runs.run_options import result_of
from cellwright.errors import ErrorCode
from cellwright.events import ExtensionsLoaded, Notice, NotLoaded
from cellwright.testing import MessagesServer, say, use
from forked.forked_python import program_in
from project_talk import ProjectTalk

SERVERS = Path(__file__).parents[2] / "shared" / "mcp_servers"
SOON = 120
NO_CONFIGURATION = "no configuration found (its program ended with the exit code 1)"


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
