"""Prompt and agent hooks: a small model is asked over real HTTP, and what it costs is counted with the run."""

import asyncio
import json
import os

import pytest
from hook_scenes import group, hooks_of

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.loop import run_agent
from cellwright.agent.spending.run_spending import RunLimits
from cellwright.agent.tool import tool
from cellwright.config.hooks.entries import ModelHook
from cellwright.config.hooks.prompt_and_agent import read_verdict
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import Notice, RunEnd, ToolEnd, TurnEnd
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import Gate, fault, hold, say, turn, use
from row_tables import for_each_row


@tool(read_only=True)
async def look(name: str) -> str:
    """Look at something."""
    return f"{name} looks fine"


@tool
async def change(name: str) -> str:
    """Change something."""
    return f"changed {name}"


class Played:
    def __init__(self, server, session, events):
        self.server, self.session, self.events = server, session, events

    @property
    def end(self) -> RunEnd:
        return self.events[-1]

    @property
    def bodies(self):
        return [request.body for request in self.server.requests if request.path == "/v1/messages"]

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def play(messages_server, tmp_path):
    def run(script, event, *hooks, **options) -> Played:
        server = messages_server(script)
        agent = AgentSetup(
            provider=connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}),
            model="claude-opus-5-5",
            system=system_blocks(),
            tools=(look, change),
            policy=PermissionPolicy(mode="bypassPermissions", roots=(tmp_path,), cwd=tmp_path),
            hooks=hooks_of(tmp_path, {event: [group(*hooks)]}, environ=options.pop("environ", os.environ)),
            **options,
        )
        session = Session.create(tmp_path, tmp_path / "sessions")
        events = []
        asyncio.run(run_agent(agent, "go", session, events.append))
        return Played(server, session, events)

    return run


CALL = use("change", name="x")


def prompt(text="Is it sensible?", **fields):
    return {"type": "prompt", "prompt": text, **fields}


def verdict(ok, **fields):
    return say(json.dumps({"ok": ok, **fields}))


def test_a_small_model_decides_about_a_call_and_is_paid_for(play):
    played = play([CALL, verdict(False, reason="x is in use"), say("ok")], "PreToolUse", prompt())
    assert ": x is in" in played.of(ToolEnd)[0].content
    question = played.bodies[1]
    assert question["model"] == "claude-haiku-5-5"
    text = question["messages"][0]["content"][0]["text"]
    assert text.startswith("Is it sensible?")
    assert '"tool_input": {"name": "x"}' in text
    turns = played.of(TurnEnd)
    assert len(turns) == 2
    assert played.end.cost_usd > sum(each.cost_usd for each in turns)
    assert played.session.cost_usd == pytest.approx(played.end.cost_usd)
    assert {*played.end.hook_models} == {"claude-haiku-5-5"}
    of_hooks = played.end.hook_models["claude-haiku-5-5"]
    assert sum(each.cost_usd for each in turns) + of_hooks.cost_usd == pytest.approx(played.end.cost_usd)
    assert of_hooks.usage["output_tokens"] > 0


def test_a_yes_says_nothing(play):
    played = play([CALL, verdict(True), say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "success"


def test_the_input_goes_where_the_prompt_wants_it_and_to_the_model_it_names(play):
    hook = prompt("Look at $ARGUMENTS and say.", model="claude-sonnet-5-5")
    played = play([CALL, verdict(True), say("ok")], "PreToolUse", hook)
    assert played.bodies[1]["model"] == "claude-sonnet-5-5"
    text = played.bodies[1]["messages"][0]["content"][0]["text"]
    assert text.startswith('Look at {"session_id"')


def test_the_environment_may_name_the_small_model(play):
    environ = {**os.environ, "ANTHROPIC_SMALL_FAST_MODEL": "claude-sonnet-5-5"}
    played = play([CALL, verdict(True), say("ok")], "PreToolUse", prompt(), environ=environ)
    assert played.bodies[1]["model"] == "claude-sonnet-5-5"


@pytest.mark.parametrize("answer", [say("I think it is fine."), say("{}"), say('{"ok": "yes"}'), say("{broken")])
def test_an_answer_that_is_no_verdict_is_a_no(play, answer):
    played = play([CALL, answer, say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "denied"
    assert "no verdict" in played.of(Notice)[0].message


def test_of_two_verdicts_the_no_counts(play):
    played = play([CALL, say('{"ok": true} or {"ok": false, "reason": "x"}'), say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "denied"


def test_a_verdict_may_stand_in_a_fence(play):
    answer = say('Here it is:\n```json\n{"ok": false, "reason": "no"}\n```')
    played = play([CALL, answer, say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "denied"


def test_an_api_that_fails_decides_nothing(play):
    played = play([CALL, fault("status", status=400), say("ok")], "PreToolUse", prompt())
    assert played.of(ToolEnd)[0].status == "success"
    assert "got no answer" in played.of(Notice)[0].message


def test_a_stop_condition_that_is_not_met_goes_on(play):
    script = [say("Done."), verdict(False, reason="no tests"), say("Tested."), verdict(True)]
    played = play(script, "Stop", prompt("Are there tests?"))
    assert played.end.text == "Tested."
    assert played.session.messages[2]["content"][0]["text"].split("\n") == ["Stop hook feedback:", "no tests"]


def test_an_agent_hook_looks_before_it_answers(play):
    script = [
        CALL,
        turn(use("look", name="x"), when="Check x"),
        turn(verdict(False, reason="x is broken"), when="looks fine"),
        say("ok"),
    ]
    played = play(script, "PreToolUse", {"type": "agent", "prompt": "Check x"})
    assert ": x is broken" in played.of(ToolEnd)[0].content
    assert [each["name"] for each in played.bodies[1]["tools"]] == ["look"]
    assert played.bodies[1]["model"] == "claude-haiku-5-5"
    assert len(played.of(TurnEnd)) == 2
    assert played.end.cost_usd > sum(each.cost_usd for each in played.of(TurnEnd))


def test_an_agent_hook_has_only_what_is_left_of_the_budget(play):
    hook = {"type": "agent", "prompt": "Check x"}
    script = [CALL, verdict(True), say("ok")]
    free = play(script, "PreToolUse", hook)
    left = 0.01
    bound = play(script, "PreToolUse", hook, limits=RunLimits(budget_usd=free.of(TurnEnd)[0].cost_usd + left))
    asked = bound.bodies[1]
    assert asked["model"] == "claude-haiku-5-5"
    assert asked["max_tokens"] < free.bodies[1]["max_tokens"]
    assert asked["max_tokens"] * 0.5 / 1_000_000 <= left


def test_a_question_that_the_budget_may_not_pay_for_is_not_asked(play):
    script = [CALL, turn(verdict(False), when="sensible"), turn(say("ok"), when="changed x")]
    hook = prompt(model="claude-sonnet-5-5")
    cost = play(script, "PreToolUse", hook).of(TurnEnd)[0].cost_usd
    played = play(script, "PreToolUse", hook, limits=RunLimits(budget_usd=cost + 0.02))
    assert {body["model"] for body in played.bodies} == {"claude-opus-5-5"}
    assert "could cost more" in played.of(Notice)[0].message
    assert played.of(ToolEnd)[0].status == "success"


def test_a_model_that_does_not_answer_is_left(play):

    gate = Gate()
    played = play([CALL, turn(hold(gate), say("x")), say("ok")], "PreToolUse", prompt(timeout=0.3))
    gate.open()
    assert played.of(ToolEnd)[0].status == "success"
    assert "within 0.3 s" in played.of(Notice)[0].message


VERDICTS = [
    ("PreToolUse", False, {}, "deny"),
    ("PermissionRequest", False, {}, "deny"),
    ("UserPromptSubmit", False, {}, "block"),
    ("Stop", False, {}, "block"),
    ("Stop", False, {"impossible": True}, "told"),
    ("PostToolUse", False, {}, "stop"),
    ("PostToolBatch", False, {}, "stop"),
    ("PostToolUse", True, {}, "block"),
]


@for_each_row(("event", "feeds_back", "more", "expected"), VERDICTS, ids=str)
def test_what_a_no_means(event, feeds_back, more, expected):
    hook = ModelHook(identity="", source="", prompt="x", feeds_back=feeds_back)
    said = read_verdict(hook, event, json.dumps({"ok": False, "reason": "because", **more}))
    got = said.behavior or (
        "stop" if said.stop is not None else "block" if said.block else "told" if said.messages else "nothing"
    )
    assert got == expected
