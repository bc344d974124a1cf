"""Hooks around calls: what they decide, rewrite, add and object to before a call runs and after it."""

import pytest
from tests.agent.hooks.recording_hook import CALL, SHELL, RecordingHook, asking, notices, specific, texts
from tests.agent.plain_tools import change, fail, look

from cellwright.agent.calls.approval import Allow
from cellwright.agent.tool import Tool, ToolResult
from cellwright.events import Asked, Decided, ToolEnd
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, turn, use
from row_tables import for_each_row


def test_a_hook_denies_a_call_and_claude_reads_why(play):
    answer = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="not on Fridays")
    played = play(CALL, tools=[change], hooks={"PreToolUse": [RecordingHook(answer)]})
    (result,) = played.results()
    assert result["is_error"]
    assert ": not on Fridays" in result["content"]
    (decided,) = played.of(Decided)
    assert (decided.behavior, decided.by, decided.reason) == ("deny", "hook", "not on Fridays")


@for_each_row(
    ("answer", "asked"),
    [
        (specific("PreToolUse", permissionDecision="allow"), False),
        ({"decision": "approve"}, False),
        (specific("PreToolUse", permissionDecision="ask"), True),
        (specific("PreToolUse", permissionDecision="defer"), True),
        (specific("PreToolUse", permissionDecision="Allow"), True),
        ({}, True),
        (None, True),
    ],
    ids=str,
)
def test_what_a_hook_decides_about_a_call_that_would_be_asked_for(play, answer, asked):
    played = play(CALL, tools=[change], policy=asking(), hooks={"PreToolUse": [RecordingHook(answer)]})
    assert bool(played.of(Asked)) is asked
    assert played.of(ToolEnd)[0].status == ("denied" if asked else "success")


@for_each_row("decision", ["perhaps", True, False, 7, "Deny", "blocked", {}, []])
def test_a_decision_that_is_not_understood_is_a_no(play, decision):
    hooks = {"PreToolUse": [RecordingHook(specific("PreToolUse", permissionDecision=decision))]}
    played = play(CALL, tools=[change], hooks=hooks)
    assert played.of(ToolEnd)[0].status == "denied"
    assert "taken as deny" in notices(played)[0]


def test_a_hook_can_have_asked_what_is_allowed(play):
    async def yes(use):
        return Allow()

    answer = specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="look twice")
    played = play(CALL, tools=[change], can_use_tool=yes, hooks={"PreToolUse": [RecordingHook(answer)]})
    assert played.of(Asked)[0].reason == "look twice"
    assert played.of(ToolEnd)[0].status == "success"


def test_the_strictest_of_many_hooks_decides(play):
    decisions = ("allow", "deny", "ask", "allow")
    hooks = [
        RecordingHook(specific("PreToolUse", permissionDecision=each, permissionDecisionReason=each))
        for each in decisions
    ]
    played = play(CALL, tools=[change], hooks={"PreToolUse": hooks})
    assert "allowed: deny" in played.results()[0]["content"]


@pytest.mark.parametrize(("rules", "status"), [({"deny": ["change"]}, "denied"), ({"ask": ["change"]}, "denied")])
def test_a_hooks_yes_does_not_overrule_a_deny_or_ask_rule(play, rules, status):
    hooks = {
        "PreToolUse": [RecordingHook(specific("PreToolUse", permissionDecision="allow"))],
        "PermissionRequest": [RecordingHook(specific("PermissionRequest", decision={"behavior": "allow"}))],
    }
    policy = PermissionPolicy(mode="bypassPermissions", **rules)
    played = play(CALL, tools=[change], policy=policy, hooks=hooks)
    assert played.of(ToolEnd)[0].status == status


def test_a_critical_delete_is_asked_for_whatever_hooks_say(play, tmp_path):
    async def call(tool_input, ctx):
        raise AssertionError("it must not run")

    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    bash = Tool(name="Bash", description="Run.", input_schema=schema, call=call, access=SHELL)
    hooks = {
        "PreToolUse": [RecordingHook(specific("PreToolUse", permissionDecision="allow"))],
        "PermissionRequest": [RecordingHook(specific("PermissionRequest", decision={"behavior": "allow"}))],
    }
    played = play([use("Bash", command="rm -rf /"), say("ok")], tools=[bash], hooks=hooks)
    assert played.of(ToolEnd)[0].status == "denied"


def test_an_input_that_a_hook_rewrites_is_what_runs(play):
    told = RecordingHook()
    hooks = {
        "PreToolUse": [RecordingHook(specific("PreToolUse", updatedInput={"name": "y"}))],
        "PostToolUse": [told],
        "PostToolBatch": [told],
    }
    played = play(CALL, tools=[change], hooks=hooks)
    assert played.results()[0]["content"] == "changed y"
    after, batch = told.inputs
    assert after["tool_input"] == batch["tool_calls"][0]["tool_input"] == {"name": "y"}


def test_a_rewritten_input_is_checked_against_the_schema(play):
    answer = specific("PreToolUse", permissionDecision="allow", updatedInput={"nam": "y"})
    played = play(CALL, tools=[change], hooks={"PreToolUse": [RecordingHook(answer)]})
    (end,) = played.of(ToolEnd)
    assert end.status == "error"
    assert end.error["code"] == "INVALID_PARAMETERS"


def test_a_rewritten_input_is_judged_by_the_policy(play, tmp_path):
    async def call(tool_input, ctx):
        raise AssertionError("it must not run")

    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    bash = Tool(name="Bash", description="Run.", input_schema=schema, call=call, access=SHELL)
    answer = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "git push"})
    policy = PermissionPolicy(mode="bypassPermissions", deny=["Bash(git push *)"])
    script = [use("Bash", command="git status"), say("ok")]
    played = play(script, tools=[bash], policy=policy, hooks={"PreToolUse": [RecordingHook(answer)]})
    assert played.of(ToolEnd)[0].status == "denied"
    assert "git push" in played.results()[0]["content"]


def test_context_of_a_call_is_read_after_all_results(play):
    before = RecordingHook(specific("PreToolUse", additionalContext="before"))
    after = RecordingHook(specific("PostToolUse", additionalContext="after"))
    batch = RecordingHook(specific("PostToolBatch", additionalContext="batch"))
    script = [turn(use("look", name="a"), use("look", name="b")), say("ok")]
    hooks = {"PreToolUse": [before], "PostToolUse": [after], "PostToolBatch": [batch]}
    played = play(script, tools=[look], hooks=hooks)
    message = played.bodies[1]["messages"][-1]
    assert [block["type"] for block in message["content"]] == ["tool_result"] * 2 + ["text"] * 5
    assert [text.split("context: ")[1].split("\n")[0] for text in texts(message)] == [
        *("before", "after"),
        *("before", "after"),
        "batch",
    ]
    assert texts(message)[0].startswith("<system-reminder>\nPreToolUse:look")


def test_a_hook_objects_to_a_result_and_claude_reads_it(play):
    played = play(
        CALL, tools=[change], hooks={"PostToolUse": [RecordingHook({"decision": "block", "reason": "lint fails"})]}
    )
    assert "lint fails" in texts(played.bodies[1]["messages"][-1])[0]
    assert played.results()[0]["content"] == "changed x"
    assert played.end.ok


def test_a_failed_call_has_an_event_of_its_own(play):
    told, other = RecordingHook(specific("PostToolUseFailure", additionalContext="try again")), RecordingHook()
    script = [use("fail", name="x"), say("ok")]
    played = play(script, tools=[fail], hooks={"PostToolUseFailure": [told], "PostToolUse": [other]})
    assert "x cannot be" in told.inputs[0]["error"]
    assert told.inputs[0]["is_interrupt"] is False
    assert other.inputs == []
    assert "try again" in texts(played.bodies[1]["messages"][-1])[0]


def test_a_command_that_fails_tells_its_exit_code_first(play):
    async def call(tool_input, ctx):
        return ToolResult("Exit code 3 (something)\nno such thing", is_error=True, structured={"exit_code": 3})

    bash = Tool(name="Bash", description="Run.", input_schema={"type": "object"}, call=call)
    told = RecordingHook()
    play([use("Bash"), say("ok")], tools=[bash], hooks={"PostToolUseFailure": [told]})
    assert told.inputs[0]["error"].split("\n") == ["Exit code 3", "no such thing"]


@pytest.mark.parametrize("status", ["denied", "unknown", "invalid"])
def test_a_call_that_did_not_run_has_no_event_after_it(play, status):
    told = RecordingHook()
    script = {
        "denied": use("change", name="x"),
        "unknown": use("nothing"),
        "invalid": use("change", nam="x"),
    }
    policy = PermissionPolicy(deny=["change"])
    hooks = {"PostToolUse": [told], "PostToolUseFailure": [told]}
    play([script[status], say("ok")], tools=[change], policy=policy, hooks=hooks)
    assert told.inputs == []


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("shorter", "shorter"),
        ({"content": "shorter"}, "shorter"),
        ({"stdout": "out", "stderr": "err"}, "out\nerr"),
        ({"file": {"content": "text"}}, "text"),
        ([{"type": "text", "text": "block", "more": 1}], [{"type": "text", "text": "block"}]),
    ],
    ids=str,
)
def test_a_hook_puts_another_output_in_the_place_of_the_tools(play, output, content):
    answer = specific("PostToolUse", updatedToolOutput=output)
    played = play(CALL, tools=[change], hooks={"PostToolUse": [RecordingHook(answer)]})
    assert played.results()[0]["content"] == content


@pytest.mark.parametrize("output", [17, {"success": True}, [], [{"type": "image"}]], ids=str)
def test_an_output_of_another_shape_is_not_taken(play, output):
    answer = specific("PostToolUse", updatedToolOutput=output)
    played = play(CALL, tools=[change], hooks={"PostToolUse": [RecordingHook(answer)]})
    assert played.results()[0]["content"] == "changed x"
    assert "the shape" in notices(played)[0]
