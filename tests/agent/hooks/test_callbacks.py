"""Hooks that are Python callables: which calls they are asked about, and what becomes of those that do not answer."""

import asyncio

import pytest
from tests.agent.hooks.recording_hook import CALL, RecordingHook, notices
from tests.agent.plain_tools import change, look

from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.events import ToolEnd
from cellwright.testing import say, use
from row_tables import for_each_row


def test_a_matcher_chooses_the_calls(play):
    told, other = RecordingHook(), RecordingHook()
    hooks = {"PreToolUse": [HookMatcher("look|chan", [other]), HookMatcher("^ch.*", [told])]}
    play([use("change", name="x"), say("ok")], tools=[change, look], hooks=hooks)
    assert told.events == ["PreToolUse"]
    assert other.events == []


def test_a_callable_gets_the_calls_id_and_a_context(play):
    got = []

    async def hook(hook_input, tool_use_id, context):
        got.append((hook_input["tool_use_id"], tool_use_id, context))

    played = play(CALL, tools=[change], hooks={"PreToolUse": [hook]})
    call_id = played.of(ToolEnd)[0].tool_use_id
    assert got == [(call_id, call_id, {"signal": None})]


async def hangs(*_):
    await asyncio.Event().wait()


async def raises(*_):
    raise ValueError("out of order")


async def leaves(*_):
    raise SystemExit


async def wrong(*_):
    return "yes"


@for_each_row("hook", [hangs, raises, leaves, wrong])
@for_each_row("policy", [None, "continue", "block"])
def test_a_callable_that_does_not_answer_blocks_a_call(play, hook, policy):
    matcher = HookMatcher(hooks=[hook], timeout=0.01, on_failure=policy)
    played = play(CALL, tools=[change], hooks={"PreToolUse": [matcher]})
    assert played.of(ToolEnd)[0].status == ("success" if policy == "continue" else "denied")
    assert played.end.ok
    if policy == "continue":
        assert "continues without it" in notices(played)[0]


@pytest.mark.parametrize("hook", [hangs, raises])
def test_a_callable_that_does_not_answer_keeps_a_prompt_back(play, hook):
    played = play([say("ok")], hooks={"UserPromptSubmit": [HookMatcher(hooks=[hook], timeout=0.01)]})
    assert played.end.error["code"] == "PERMISSION_DENIED"
    assert played.server.requests == []


def test_a_callable_that_does_not_answer_is_elsewhere_only_told(play):
    played = play(CALL, tools=[change], hooks={"PostToolUse": [raises], "Stop": [raises]})
    assert played.end.ok
    assert len(notices(played)) == 2


def test_hooks_of_one_event_run_at_the_same_time(play):
    both = asyncio.Barrier(2)

    async def hook(*_):
        await both.wait()

    assert play(CALL, tools=[change], hooks={"PreToolUse": [hook, HookMatcher("change", [hook])]}).end.ok


def test_a_failure_is_told_once(play):
    script = [use("change", name="a"), use("change", name="b"), say("ok")]
    played = play(script, tools=[change], hooks={"PostToolUse": [raises]})
    assert len(notices(played)) == 1
