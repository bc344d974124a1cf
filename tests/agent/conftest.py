"""Scenes: an agent plays a script against the strict local server, over real HTTP."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.agent_setup import AgentSetup, FinalAnswer, ModelSettings
from cellwright.agent.loop import run_agent
from cellwright.agent.spending import RunLimits
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import Event, RunEnd
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer

_RECORDS = {"model_settings": ModelSettings, "limits": RunLimits}


def agent_fields(**options: Any) -> dict[str, Any]:
    """Return `options`, of which those that are fields of the agent's records are put into these."""
    for name, record in _RECORDS.items():
        given = {each.name: options.pop(each.name) for each in fields(record) if each.name in options}
        if given:
            options[name] = record(**given)
    if "answer_type" in options:
        options["final_answer"] = FinalAnswer(type=options.pop("answer_type"))
    return options


@dataclass
class Scene:
    """What was played: the events, the session, the requests as the server saw them."""

    server: MessagesServer
    session: Session
    agent: AgentSetup
    events: list[Event] = field(default_factory=list)

    @property
    def end(self) -> RunEnd:
        assert isinstance(self.events[-1], RunEnd)
        return self.events[-1]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.server.requests if request.path == "/v1/messages"]

    def results(self) -> list[dict[str, Any]]:
        """All tool_results of the session, in order."""
        return [
            block
            for message in self.session.messages
            if message["role"] == "user"
            for block in message["content"]
            if block["type"] == "tool_result"
        ]

    async def run(self, prompt: str) -> RunEnd:
        return await run_agent(self.agent, prompt, self.session, self.events.append)

    def go_on(self, prompt: str) -> RunEnd:
        return asyncio.run(self.run(prompt))


@pytest.fixture
def scene(tmp_path: Path) -> Any:
    """`scene(script, tools=…, …)` sets a scene; run it with `.go_on(prompt)`."""
    servers: list[MessagesServer] = []

    def make(script: Any, *, tools: Any = (), session: Session | None = None, **options: Any) -> Scene:
        server = MessagesServer(script)
        server.__enter__()
        servers.append(server)
        environ = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        options.setdefault("policy", PermissionPolicy(mode="bypassPermissions", roots=(tmp_path,), cwd=tmp_path))
        agent = AgentSetup(
            provider=connect(environ),
            model=options.pop("model", "claude-opus-5-5"),
            system=system_blocks(),
            tools=tools,
            **agent_fields(**options),
        )
        return Scene(server, session or Session.create(tmp_path, tmp_path / "sessions"), agent)

    yield make
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def play(scene: Callable[..., Scene]) -> Callable[..., Scene]:
    """`play(script, prompt="go", …)`: set a scene and run it to its end."""

    def run(script: Any, prompt: str = "go", **options: Any) -> Scene:
        played = scene(script, **options)
        played.go_on(prompt)
        return played

    return run
