"""MCP servers in a conversation: real ones, as processes of their own, and a project that brings one along."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.runs.request import RunRequest, RunSurface
from cellwright.conversation.runs.run import Run
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Asked, Event, Notice, RunEnd, ToolEnd, ToolProgress
from cellwright.testing import MessagesServer, say, use

SERVERS = Path(__file__).parents[2] / "shared" / "mcp_servers"
SOON = 120


def entry(name: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """The entry of a server of `tests/shared/mcp_servers`."""
    return {"command": sys.executable, "args": [str(SERVERS / f"{name}.py"), *arguments], **more}


class Talk:
    """A conversation in a project, with the servers of the user's and of the project's."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        self.server, self.home = server, root / "home"
        self.project = self.home / "project"
        (self.project / ".git").mkdir(parents=True)
        self.events: list[Event] = []
        self.asked: list[ToolUse] = []
        self.answer: Callable[[ToolUse], Allow | Deny] = lambda _: Deny("not now", "terminal")
        self.environ = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "ENABLE_TOOL_SEARCH": "true",
            "MCP_TIMEOUT": str(SOON * 1_000),
            "CELLWRIGHT_MCP_WAIT": str(SOON),
        }
        self._conversation: Conversation | None = None

    @property
    def conversation(self) -> Conversation:
        if self._conversation is None:
            self._conversation = Conversation(cwd=self.project, interface="a test", environ=self.environ)
        return self._conversation

    def close(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None

    def user_servers(self, **servers: Any) -> None:
        (self.home / ".claude.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")

    def project_servers(self, **servers: Any) -> None:
        (self.project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")

    def settings(self, **values: Any) -> None:
        (self.home / ".claude").mkdir(exist_ok=True)
        (self.home / ".claude" / "settings.json").write_text(json.dumps(values), "utf-8")

    async def can_use_tool(self, use: ToolUse) -> Allow | Deny:
        self.asked.append(use)
        return self.answer(use)

    def start(self, prompt: str, *turns: Any, **options: Any) -> Run:
        self.server.add(*turns or (say("Good."),))
        self.events.clear()
        self.asked.clear()
        surface = RunSurface(self.events.append, self.can_use_tool, self.can_use_tool)
        return self.conversation.start(RunRequest(prompt=prompt, options=RunOptions(**options)), surface)

    def say(self, prompt: str, *turns: Any, **options: Any) -> RunEnd:
        run = self.start(prompt, *turns, **options)
        self.conversation.jobs.work_until_done(run)
        end = run.result()
        assert end.error is None, end.error
        return end

    @property
    def results(self) -> list[ToolEnd]:
        return [event for event in self.events if isinstance(event, ToolEnd)]

    @property
    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Notice)]

    @property
    def declared(self) -> list[str]:
        """The tools of servers in the newest request."""
        names = [tool["name"] for tool in self.server.requests[-1].body["tools"]]
        return [name for name in names if name.startswith("mcp__")]

    @property
    def told(self) -> str:
        """What was told of servers so far."""
        contents = [m["content"] for m in self.server.requests[-1].body["messages"] if m["role"] == "user"]
        texts = [b["text"] for content in contents for b in content if b["type"] == "text"]
        return "\n".join(text for text in texts if text.startswith("<mcp_servers"))


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    yield made
    made.close()
    assert made.server.rejected == []


def load(*names: str) -> Any:
    return use("ToolSearch", query=f"select:{','.join(names)}")


def test_a_server_of_the_users_is_connected_and_its_tools_are_called_with_a_permission(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    talk.answer = lambda _: Allow(by="terminal")
    talk.say("go", load("mcp__plain__add"), use("mcp__plain__add", a=2, b=3), say("5"))
    assert "mcp__plain__add: Add two numbers" in talk.told
    assert "Add numbers with add." in talk.told
    assert talk.results[-1].content == "5"
    asked = [event for event in talk.events if isinstance(event, Asked)]
    assert [event.preview.title for event in asked] == ["Call add of the MCP server plain"], "a hint is not believed"
    assert len(talk.declared) == 12
