"""The policy in a run: what Claude is told where nobody can be asked, and what was asked for is what runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Allow, ToolUse
from cellwright.agent.loop import run_agent
from cellwright.agent.tool import Tool
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import Decided
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, say, turn, use
from declared_tools import tool_named
from row_tables import for_each_row

ANYTHING = {"type": "object", "properties": {}, "additionalProperties": True}


def named(name: str, ran: list[dict[str, Any]]) -> Tool:
    async def call(tool_input: dict[str, Any], _ctx: Any) -> str:
        ran.append(tool_input)
        return "done"

    access = tool_named(name).access
    return Tool(name=name, description="For the test.", input_schema=ANYTHING, call=call, access=access)


class Scene:
    """One call of one tool, as Claude makes it."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.ran: list[dict[str, Any]] = []
        self.events: list[Any] = []

    def play(self, tool: str, tool_input: dict[str, Any], *, can_use_tool: Any = None, **policy: Any) -> str:
        """The result that Claude gets."""
        with MessagesServer([turn(use(tool, **tool_input)), turn(say("Well."))]) as server:
            agent = AgentSetup(
                provider=connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}),
                model="claude-opus-5-5",
                system=system_blocks(),
                tools=[named(tool, self.ran)],
                policy=PermissionPolicy(roots=[self.project], cwd=self.project, **policy),
                can_use_tool=can_use_tool,
            )
            session = Session.create(self.project, None)
            asyncio.run(run_agent(agent, "Go.", session, self.events.append))
            (result,) = session.messages[2]["content"]
            return str(result["content"])


@pytest.fixture
def scene(place: Any) -> Iterator[Scene]:
    return Scene(place.project)


@for_each_row(
    ("tool", "tool_input", "rule"),
    [
        ("Bash", {"command": "make all"}, "Bash(make all)"),
        ("Python", {"code": "1"}, "Python"),
        ("Read", {"file_path": "/etc/hosts"}, "Read(//etc/hosts)"),
        ("Edit", {"file_path": "src/a.py"}, "Edit(/{project}/**)"),
        ("ApplyPatch", {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n"}, "Edit(/{project}/**)"),
        ("RunTests", {}, "RunTests"),
        ("Lint", {}, "Lint"),
        ("WebFetch", {"url": "https://example.com/a", "prompt": "p"}, "WebFetch(domain:example.com)"),
        ("WebSearch", {"query": "q"}, "WebSearch"),
        ("Skill", {"skill": "commit"}, "Skill(commit)"),
        ("mcp__git__push", {}, "mcp__git__push"),
        ("my_deploy", {}, "my_deploy"),
    ],
)
@for_each_row("mode", ["default", "dontAsk"])
def test_where_nobody_is_asked_claude_is_told_the_rule_that_would_allow_it(scene, place, tool, tool_input, rule, mode):
    rule = place.fill(rule)
    scene.ran.clear()
    told = scene.play(tool, tool_input, mode=mode)
    assert f"The allow rule `{rule}` would allow it." in told
    assert scene.ran == []
    assert scene.play(tool, tool_input, mode=mode, allow=[rule]) == "done"
    assert scene.ran == [tool_input]


@pytest.mark.parametrize("mode", ["default", "dontAsk"])
def test_where_no_rule_can_allow_it_that_is_said(scene, mode):
    told = scene.play("Write", {"file_path": ".git/config"}, mode=mode, allow=["Edit"])
    assert "is protected" in told
    assert "No allow rule can allow it." in told
    assert scene.ran == []


def test_each_decision_is_an_event_with_its_reason(scene):
    scene.play("Read", {"file_path": "src/a.py"}, deny=["Read(a.py)"])
    (decided,) = (event for event in scene.events if isinstance(event, Decided))
    assert (decided.behavior, decided.rule) == ("deny", "Read(a.py)")


def test_what_has_become_another_place_while_the_user_looked_is_not_written_to(scene, place):
    folder = place.project / "made"
    folder.mkdir()

    async def yes_but_late(_use: ToolUse) -> Allow:
        folder.rmdir()
        folder.symlink_to(place.home / "outside")
        return Allow()

    told = scene.play("Write", {"file_path": "made/x"}, can_use_tool=yes_but_late)
    assert "differs from the approved call" in told
    assert f"{place.home}/outside/x" in told
    assert scene.ran == []


def test_what_stayed_what_it_was_runs(scene):
    async def yes(_use: ToolUse) -> Allow:
        return Allow()

    assert scene.play("Write", {"file_path": "src/x"}, can_use_tool=yes) == "done"
    assert scene.play("Write", {"file_path": ".mcp.json"}, can_use_tool=yes) == "done"


def test_what_another_call_has_changed_while_it_waited_is_judged_again(place):
    folder, ran = place.project / "made", []
    folder.mkdir()
    all_decided, decided = asyncio.Event(), []

    def on_event(event: Any) -> None:
        decided.extend([event] if isinstance(event, Decided) else [])
        if len(decided) == 3:
            all_decided.set()

    async def write(tool_input: dict[str, Any], _ctx: Any) -> str:
        ran.append(tool_input["file_path"])
        if tool_input["file_path"] == "first":
            await all_decided.wait()
            folder.rmdir()
            folder.symlink_to(place.home / "outside")
        return "done"

    access = tool_named("Write").access
    tool = Tool(
        name="Write", description="For the test.", input_schema=ANYTHING, call=write, access=access, asks_together=True
    )
    calls = [use("Write", file_path=path) for path in ("first", "made/x", "src/x")]
    with MessagesServer([turn(*calls), turn(say("Well."))]) as server:
        agent = AgentSetup(
            provider=connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}),
            model="claude-opus-5-5",
            system=system_blocks(),
            tools=[tool],
            policy=PermissionPolicy("acceptEdits", roots=[place.project], cwd=place.project),
        )
        session = Session.create(place.project, None)
        asyncio.run(run_agent(agent, "Go.", session, on_event))
    results = [str(result["content"]) for result in session.messages[2]["content"]]
    assert ran == ["first", "src/x"]
    assert "its target has changed" in results[1]
    assert f"{place.home}/outside/x" in results[1]
