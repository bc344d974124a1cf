"""A command that connects to a host: rules for WebFetch decide, else the user, and an answer can become a rule."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.loop import run_agent
from cellwright.agent.tool import Tool, ToolAccess, ToolContext
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import Answered, Asked
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, say, turn, use


class Scene:
    """A tool that tries to reach hosts, and a user who gives `answers`, one a question."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.questions: list[ToolUse] = []
        self.events: list[Any] = []

    def reach(self, *places: tuple[str, int], answers: tuple[Any, ...] = (), **policy: Any) -> list[bool]:
        """Which of the places may be reached, asked for one after the other."""
        reached: list[bool] = []
        left = list(answers)

        async def call(_input: dict[str, Any], ctx: ToolContext) -> str:
            reached.extend([await ctx.may_reach(host, port) for host, port in places])
            return "done"

        async def answer(question: ToolUse) -> Allow | Deny:
            self.questions.append(question)
            given = left.pop(0)
            if given == "no":
                return Deny("no", by="input")
            rules = next((each.rules for each in question.decision.suggestions if each.scope == given), ())
            return Allow(scope=given, rules=rules, by="input")

        schema = {"type": "object", "properties": {}}
        tool = Tool(name="Runs", description="x", input_schema=schema, call=call, access=ToolAccess("notes"))
        with MessagesServer([turn(use("Runs")), turn(say("Well."))]) as server:
            agent = AgentSetup(
                provider=connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}),
                model="claude-opus-5-5",
                system=system_blocks(),
                tools=[tool],
                policy=PermissionPolicy(roots=[self.folder], cwd=self.folder, **policy),
                can_use_tool=answer if answers else None,
            )
            asyncio.run(run_agent(agent, "Go.", Session.create(self.folder, None), self.events.append))
        return reached


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_user_is_asked_about_a_host_as_one_of_the_call(scene: Scene) -> None:
    assert scene.reach(("a.example", 443), ("b.example", 8080), answers=("once", "no")) == [True, False]
    titles = [question.preview.title for question in scene.questions]
    assert titles == [f"Let the running command connect to {place}" for place in ("a.example", "b.example:8080")]
    asked = [event for event in scene.events if isinstance(event, Asked)]
    answered = [event.question_id for event in scene.events if isinstance(event, Answered)]
    assert [event.question_id for event in asked] == answered
    assert len({event.tool_use["id"] for event in asked}) == 1


@pytest.mark.parametrize("scope", ["session", "always"])
def test_an_answer_can_become_a_rule(scene: Scene, scope: str) -> None:
    assert scene.reach(("a.example", 443), ("a.example", 80), answers=(scope,)) == [True, True]
    (question,) = scene.questions
    assert {each.rules for each in question.decision.suggestions} == {("WebFetch(domain:a.example)",)}


def test_rules_for_pages_hold_for_commands(scene: Scene) -> None:
    rules = {"allow": ["WebFetch(domain:*.a.example)"], "deny": ["WebFetch(domain:x.a.example)"]}
    assert scene.reach(("b.a.example", 443), ("x.a.example", 443), **rules) == [True, False]


def test_where_nobody_can_be_asked_the_answer_is_no(scene: Scene) -> None:
    assert scene.reach(("a.example", 443)) == [False]
    assert scene.reach(("a.example", 443), mode="dontAsk") == [False]
