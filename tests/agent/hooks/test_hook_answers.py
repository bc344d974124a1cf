"""Answers of hooks that nobody foresaw: none ends a run, and none allows what it does not say."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.hooks.recording_hook import CALL, SHELL, RecordingHook, asking, notices, specific
from tests.agent.plain_tools import change

from cellwright.agent.calls.approval import Allow, Deny
from cellwright.agent.calls.tool_results import updated_content
from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.agent.hooks.hook_answers import LONGEST_TEXT, merged, read_answer
from cellwright.agent.hooks.protocol import EVENTS, NO_HOOK_RESULT, HookResult
from cellwright.agent.tool import Tool
from cellwright.events import Answered, Asked, ModeChanged, ToolEnd
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, use
from row_tables import for_each_row

WORDS = st.sampled_from(["deny", "ask", "block", "defer", "addRules", "setMode", "dontAsk", "", "x", "\ud83d", *EVENTS])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
UPDATE = st.fixed_dictionaries(
    {}, optional={"type": VALUES, "rules": VALUES, "behavior": VALUES, "mode": VALUES, "destination": VALUES}
)
DECISION = st.fixed_dictionaries(
    {}, optional={"behavior": VALUES, "updatedInput": VALUES, "updatedPermissions": st.lists(UPDATE) | VALUES}
)
SPECIFIC = st.fixed_dictionaries(
    {},
    optional={
        "hookEventName": VALUES,
        "permissionDecision": VALUES,
        "permissionDecisionReason": VALUES,
        "updatedInput": VALUES,
        "additionalContext": VALUES,
        "updatedToolOutput": VALUES,
        "decision": DECISION | VALUES,
    },
)
ANSWER = st.fixed_dictionaries(
    {},
    optional={
        "continue": VALUES,
        "stopReason": VALUES,
        "decision": VALUES,
        "reason": VALUES,
        "systemMessage": VALUES,
        "hookSpecificOutput": SPECIFIC | VALUES,
    },
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(EVENTS), ANSWER)
def test_any_answer_is_read_and_allows_nothing_that_it_does_not_say(event, answer):
    said = read_answer(event, answer, "The hook")
    assert said.behavior != "allow"
    assert said.rules == ()
    assert said.mode is None
    for text in (*said.context, *said.messages, *said.problems, said.reason, said.stop or ""):
        text.encode()


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_any_output_is_one_that_the_api_takes_or_none(output):
    content = updated_content(output)
    assert content is None or content
    blocks = [] if content is None or isinstance(content, str) else content
    assert all(set(block) == {"type", "text"} and block["text"].strip() for block in blocks)


@for_each_row(
    ("event", "no"), [("PreToolUse", "deny"), ("PreModelSwitch", "deny"), ("PermissionRequest", "deny"), ("Stop", "")]
)
@for_each_row("decision", ["deny", "allow", 7])
def test_a_no_in_the_wrong_place_is_one_and_a_yes_is_asked_about(event, no, decision):
    said = read_answer(event, {"permissionDecision": decision}, "The hook")
    judging = event.startswith("Pre")
    assert said.behavior == (("ask" if judging else "") if decision == "allow" else no)
    assert said.block is (event == "Stop" and decision != "allow")
    assert bool(said.problems) is (judging or decision != "allow")
    right = {"permissionDecision": decision, "hookSpecificOutput": {"permissionDecision": "deny"}}
    assert read_answer("PreToolUse", right, "The hook").behavior == "deny"
    yes = {"permissionDecision": decision, "decision": "approve", "hookSpecificOutput": {"permissionDecision": "allow"}}
    assert read_answer("PreToolUse", yes, "The hook").behavior == ("allow" if decision == "allow" else "deny")


def test_an_answer_that_is_nested_too_deeply_is_a_no_of_a_guard():
    answer: object = 1
    for _ in range(5_000):
        answer = [answer]
    said = read_answer("PreToolUse", {"decision": "approve", "x": answer}, "The hook")
    assert said.behavior == "deny"
    assert "too deeply" in said.problems[0]
    assert read_answer("SessionStart", {"x": answer}, "The hook").behavior == ""


BEHAVIORS = st.sampled_from(["", "allow", "ask", "deny"])


@given(st.lists(BEHAVIORS, max_size=5))
def test_the_strictest_wins_whatever_the_order(behaviors):
    results = [HookResult(behavior=behavior, reason=behavior) for behavior in behaviors]
    expected = next((each for each in ("deny", "ask", "allow") if each in behaviors), "")
    said = merged(results)
    assert said.behavior == expected
    assert said.reason == expected


def test_nothing_said_by_many_is_nothing():
    assert merged([NO_HOOK_RESULT, NO_HOOK_RESULT]) is NO_HOOK_RESULT
    assert merged([]) is NO_HOOK_RESULT


@pytest.mark.parametrize("key", ["reason", "systemMessage", "stopReason"])
def test_every_text_is_bounded(key):
    answer = {"decision": "block", "continue": False, key: "x" * (LONGEST_TEXT * 3)}
    said = read_answer("Stop", answer, "The hook")
    assert len(json.dumps([said.reason, said.messages, said.stop])) < LONGEST_TEXT + 2_000


def requested(**decision):
    return {"PermissionRequest": [RecordingHook(specific("PermissionRequest", decision=decision))]}


def test_a_hook_says_yes_in_the_users_place(play):
    played = play(CALL, tools=[change], policy=asking(), hooks=requested(behavior="allow"))
    assert played.of(ToolEnd)[0].status == "success"
    assert played.of(Answered)[0].by == "hook"


def test_a_hook_says_no_in_the_users_place(play):
    played = play(CALL, tools=[change], policy=asking(), hooks=requested(behavior="deny", message="ask me later"))
    assert ": ask me later" in played.results()[0]["content"]
    assert played.end.ok


def test_a_no_may_end_the_run(play):
    hooks = requested(behavior="deny", message="stop it", interrupt=True)
    played = play(CALL, tools=[change], policy=asking(), hooks=hooks)
    assert played.end.error["message"] == "stop it"


def test_a_hook_that_does_not_decide_leaves_it_to_the_user(play):
    async def no(use):
        return Deny("I said no")

    hooks = {
        "PermissionRequest": [
            RecordingHook({}),
            RecordingHook(specific("PermissionRequest", decision={"behavior": "Allow"})),
        ]
    }
    played = play(CALL, tools=[change], policy=asking(), can_use_tool=no, hooks=hooks)
    assert played.of(Answered)[0].reason == "I said no"
    assert "neither" in notices(played)[0]


def test_a_hook_gets_what_would_be_offered_as_permission_updates(play, tmp_path):
    told = RecordingHook()

    async def call(tool_input, ctx):
        return "ok"

    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    bash = Tool(name="Bash", description="Run.", input_schema=schema, call=call, access=SHELL)
    script = [use("Bash", command="make all"), say("ok")]
    policy = PermissionPolicy(cwd=tmp_path)
    play(script, tools=[bash], policy=policy, hooks={"PermissionRequest": [told]})
    (hook_input,) = told.inputs
    assert "tool_use_id" not in hook_input
    update = hook_input["permission_suggestions"][0]
    assert update["type"] == "addRules"
    assert update["behavior"] == "allow"
    assert update["rules"][0]["toolName"] == "Bash"
    assert {each["destination"] for each in hook_input["permission_suggestions"]} <= {"session", "localSettings"}


@pytest.mark.parametrize(
    ("rules", "status"), [({}, "success"), ({"deny": ["change"]}, "denied"), ({"ask": ["change"]}, "denied")]
)
def test_a_hook_may_allow_what_mode_dont_ask_would_not_ask_for(play, rules, status):
    async def never(use):
        raise AssertionError("nobody is asked in this mode")

    hooks = {"PreToolUse": [RecordingHook(specific("PreToolUse", permissionDecision="allow"))]}
    policy = PermissionPolicy(mode="dontAsk", **rules)
    played = play(CALL, tools=[change], policy=policy, can_use_tool=never, hooks=hooks)
    assert played.of(Asked) == []
    assert played.of(ToolEnd)[0].status == status


def test_a_hook_does_not_allow_changes_in_plan_mode(play):
    answer = specific("PreToolUse", permissionDecision="allow")
    policy = PermissionPolicy(mode="plan")
    played = play(CALL, tools=[change], policy=policy, hooks={"PreToolUse": [RecordingHook(answer)]})
    assert played.of(ToolEnd)[0].status == "denied"


def test_rules_that_a_hook_adds_hold_for_the_session(play):
    update = {"type": "addRules", "rules": [{"toolName": "change"}], "behavior": "allow", "destination": "session"}
    told = RecordingHook(specific("PermissionRequest", decision={"behavior": "allow", "updatedPermissions": [update]}))
    script = [use("change", name="a"), use("change", name="b"), say("ok")]
    played = play(script, tools=[change], policy=asking(), hooks={"PermissionRequest": [told]})
    assert len(told.inputs) == 1
    assert [end.status for end in played.of(ToolEnd)] == ["success", "success"]
    assert played.session.granted == ("change",)


def test_a_hook_sets_the_mode_but_never_the_one_without_questions(play):
    updates = [{"type": "setMode", "mode": mode, "destination": "session"} for mode in ("dontAsk", "bypassPermissions")]
    played = play(CALL, tools=[change], policy=asking(), hooks=requested(behavior="allow", updatedPermissions=updates))
    assert [event.mode for event in played.of(ModeChanged)] == ["dontAsk"]
    assert "bypassPermissions" in notices(played)[0]


@for_each_row(
    "update",
    [
        {"type": "addRules", "rules": [{"toolName": "change"}], "behavior": "deny"},
        {"type": "removeRules", "rules": [{"toolName": "change"}], "behavior": "deny"},
        {"type": "addDirectories", "directories": ["/"]},
        {"type": "addRules", "rules": [{"ruleContent": "x"}], "behavior": "allow"},
        {
            "type": "addRules",
            "rules": [{"toolName": "Read", "ruleContent": "("}, {"toolName": "(("}],
            "behavior": "allow",
        },
        "everything",
    ],
    ids=str,
)
def test_other_updates_are_refused_and_said(play, update):
    played = play(CALL, tools=[change], policy=asking(), hooks=requested(behavior="allow", updatedPermissions=[update]))
    assert played.session.granted == ()
    assert notices(played)
    assert played.of(ToolEnd)[0].status == "success"


def test_an_input_that_a_permission_hook_rewrites_is_judged_anew(play):
    async def call(tool_input, ctx):
        raise AssertionError("it must not run")

    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    bash = Tool(name="Bash", description="Run.", input_schema=schema, call=call, access=SHELL)
    for rewritten in ({"command": "rm -rf /"}, {"command": "git push"}, {"comand": "x"}):
        played = play(
            [use("Bash", command="make"), say("ok")],
            tools=[bash],
            policy=PermissionPolicy(deny=["Bash(git push *)"]),
            hooks=requested(behavior="allow", updatedInput=rewritten),
        )
        assert played.of(ToolEnd)[0].status == "denied", rewritten


def test_claude_is_told_that_a_hook_rewrote_what_it_was_asked_about(play):
    hooks = requested(behavior="allow", updatedInput={"name": "y"})
    played = play(CALL, tools=[change], policy=asking(), hooks=hooks)
    assert played.results()[0]["content"].startswith("[A hook edited")
    assert played.results()[0]["content"].endswith("changed y")


def test_notifications_go_out_while_the_user_is_asked(play):
    told = RecordingHook()
    seen = asyncio.Event()

    async def notified(hook_input, *_):
        told.inputs.append(hook_input)
        seen.set()

    async def yes(use):
        await seen.wait()
        return Allow()

    hooks = {
        "Notification": [HookMatcher("permission_prompt", [notified]), HookMatcher("idle_prompt", [RecordingHook()])]
    }
    played = play(CALL, tools=[change], policy=asking(), can_use_tool=yes, hooks=hooks)
    assert played.end.ok
    (hook_input,) = told.inputs
    assert hook_input["notification_type"] == "permission_prompt"
    assert "change" in hook_input["message"]


def test_a_notification_that_hangs_holds_nobody_up_and_ends_with_an_interrupt(scene):
    hanging, ended = asyncio.Event(), []

    async def hang(*_):
        hanging.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def never(use):
        await asyncio.Event().wait()

    played = scene(CALL, tools=[change], policy=asking(), can_use_tool=never, hooks={"Notification": [hang]})

    async def interrupted():
        run = asyncio.create_task(played.run("go"))
        await hanging.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended == [True]

    asyncio.run(interrupted())
