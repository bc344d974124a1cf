"""Hooks in the loop: which events there are, what they are told, and what each answer does to the run."""

import asyncio
import dataclasses
from pathlib import Path

import pytest
from tests.agent.plain_tools import change, fail, look

from cellwright.agent.calls.approval import Allow, Deny
from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.agent.hooks.hook_answers import read_answer
from cellwright.agent.hooks.protocol import EVENTS
from cellwright.agent.tool import Tool, ToolAccess, ToolResult
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Answered, Asked, Decided, ModeChanged, Notice, ToolEnd
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import fault, say, turn, use
from row_tables import for_each_row

SHELL = ToolAccess("shell", "command")


class RecordingHook:
    """A hook that remembers what it was told and answers `answer`."""

    def __init__(self, answer=None):
        self.answer = answer
        self.inputs = []

    async def __call__(self, hook_input, tool_use_id, context):
        self.inputs.append(hook_input)
        return self.answer

    @property
    def events(self):
        return [told["hook_event_name"] for told in self.inputs]


def specific(event, **fields):
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def texts(message):
    return [block["text"] for block in message["content"] if block["type"] == "text"]


def notices(played):
    return [event.message for event in played.of(Notice)]


def asking(*rules, **options):
    return PermissionPolicy(mode="default", **options)


CALL = [use("change", name="x"), say("Done.")]


def test_a_run_tells_its_events_in_order_and_each_with_what_every_event_has(play):
    told = RecordingHook()
    listening = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop")
    played = play(CALL, "do it", tools=[change], hooks={event: [told] for event in listening}, effort="low")
    assert told.events == list(listening)
    for each in told.inputs:
        assert each["session_id"] == played.session.id
        assert each["transcript_path"] == str(played.session.path)
        assert each["cwd"] == str(played.session.cwd)
        assert each["permission_mode"] == "bypassPermissions"
        assert each["effort"] == {"level": "low"}
    start, prompt, before, after, batch, stop = told.inputs
    assert (start["source"], start["model"]) == ("startup", "claude-opus-5-5")
    assert (prompt["prompt"], prompt["source"]) == ("do it", "user")
    call_id = played.of(ToolEnd)[0].tool_use_id
    assert (before["tool_name"], before["tool_input"], before["tool_use_id"]) == ("change", {"name": "x"}, call_id)
    assert after["tool_response"] == {"content": "changed x"}
    assert after["duration_ms"] >= 0
    assert batch["tool_calls"] == [
        {"tool_name": "change", "tool_input": {"name": "x"}, "tool_use_id": call_id, "tool_response": "changed x"}
    ]
    assert (stop["stop_hook_active"], stop["last_assistant_message"]) == (False, "Done.")


def test_without_hooks_nothing_is_asked_and_the_messages_are_the_same(play):
    played = play(CALL, tools=[change])
    assert [len(message["content"]) for message in played.session.messages] == [1, 1, 1, 1]


def test_a_session_starts_once(scene):
    told = RecordingHook()
    played = scene([say("one"), say("two")], hooks={"SessionStart": [told]})
    played.go_on("first")
    played.go_on("second")
    assert [each["source"] for each in told.inputs] == ["startup"]


def test_a_session_that_was_loaded_is_resumed_and_a_fork_is_a_fork(scene):
    told = RecordingHook()
    played = scene([say("one"), say("two"), say("three")], hooks={"SessionStart": [told]})
    played.go_on("first")
    path = played.session.path
    played.session.close()
    played.session = Session.load(path)
    played.go_on("second")
    played.session = played.session.fork()
    played.go_on("third")
    assert [each["source"] for each in told.inputs] == ["startup", "resume", "fork"]


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
def test_context_is_read_with_the_prompt(play, event):
    played = play(
        [say("ok")], "hello", hooks={event: [RecordingHook(specific(event, additionalContext="It is Monday."))]}
    )
    prompt, context = texts(played.bodies[0]["messages"][0])
    assert prompt == "hello"
    assert context == f"<system-reminder>\n{event} hook additional context: It is Monday.\n</system-reminder>"


@pytest.mark.parametrize(
    "answer",
    [{"decision": "block", "reason": "no secrets"}, {"continue_": False, "stopReason": "no secrets"}],
    ids=["block", "continue"],
)
def test_a_prompt_that_a_hook_refuses_is_not_sent_and_leaves_no_trace(scene, answer):
    played = scene([say("fine")], hooks={"UserPromptSubmit": [HookMatcher(hooks=[RecordingHook(answer)])]})
    end = played.go_on("my password is hunter2")
    assert end.error["code"] == "PERMISSION_DENIED"
    assert "no secrets" in end.error["message"]
    assert played.server.requests == []
    assert played.session.messages == []
    assert not played.session.path.exists()
    played.agent = dataclasses.replace(played.agent, hooks={})
    assert played.go_on("hello").ok


def test_what_a_session_is_told_at_its_start_comes_with_its_first_prompt_that_is_sent(scene):
    starts = RecordingHook(specific("SessionStart", additionalContext="It is Monday."))
    answers = iter([{"decision": "block"}, {}, {}])

    async def submit(*_):
        return next(answers)

    played = scene([say("one"), say("two")], hooks={"SessionStart": [starts], "UserPromptSubmit": [submit]})
    for prompt in ("refused", "first", "second"):
        played.go_on(prompt)
    assert ["It is Monday." in str(body["messages"][-1]) for body in played.bodies] == [True, False]


def test_a_hook_denies_a_call_and_claude_reads_why(play):
    answer = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="not on Fridays")
    played = play(CALL, tools=[change], hooks={"PreToolUse": [RecordingHook(answer)]})
    (result,) = played.results()
    assert result["is_error"]
    assert result["content"] == "change was not allowed: not on Fridays"
    (decided,) = played.of(Decided)
    assert (decided.behavior, decided.by, decided.reason) == ("deny", "hook", "not on Fridays")


@for_each_row(
    ("answer", "asked"),
    [
        (specific("PreToolUse", permissionDecision="allow"), False),
        ({"decision": "approve"}, False),
        (specific("PreToolUse", permissionDecision="ask"), True),
        (specific("PreToolUse", permissionDecision="defer"), True),
        (specific("PreToolUse", permissionDecision="perhaps"), True),
        (specific("PreToolUse", permissionDecision=True), True),
        ({}, True),
        (None, True),
    ],
    ids=str,
)
def test_what_a_hook_decides_about_a_call_that_would_be_asked_for(play, answer, asked):
    played = play(CALL, tools=[change], policy=asking(), hooks={"PreToolUse": [RecordingHook(answer)]})
    assert bool(played.of(Asked)) is asked
    assert played.of(ToolEnd)[0].status == ("denied" if asked else "success")


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
    assert played.results()[0]["content"] == "change was not allowed: deny"


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
    assert texts(message)[0].startswith("<system-reminder>\nPreToolUse:look hook additional context")


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
    assert told.inputs[0]["error"] == "x cannot be done; try another"
    assert told.inputs[0]["is_interrupt"] is False
    assert other.inputs == []
    assert "try again" in texts(played.bodies[1]["messages"][-1])[0]


def test_a_command_that_fails_tells_its_exit_code_first(play):
    async def call(tool_input, ctx):
        return ToolResult("Exit code 3 (something)\nno such thing", is_error=True, structured={"exit_code": 3})

    bash = Tool(name="Bash", description="Run.", input_schema={"type": "object"}, call=call)
    told = RecordingHook()
    play([use("Bash"), say("ok")], tools=[bash], hooks={"PostToolUseFailure": [told]})
    assert told.inputs[0]["error"] == "Exit code 3\nno such thing"


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
    assert "does not have the shape" in notices(played)[0]


STOPPING = {"continue": False, "stopReason": "that is enough"}


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "PostToolBatch"])
def test_continue_false_stops_the_run_and_every_call_is_answered(play, event):
    script = [turn(use("change", name="a"), use("change", name="b")), say("never")]
    played = play(script, tools=[change], hooks={event: [RecordingHook(STOPPING)]})
    assert played.end.stop_reason == "interrupted"
    assert played.end.error["message"] == "that is enough"
    assert len(played.bodies) == 1
    results = played.results()
    assert len(results) == 2
    expected = {"PreToolUse": 0, "PostToolUse": 1, "PostToolBatch": 2}[event]
    assert sum(not result.get("is_error") for result in results) == expected


def test_a_blocked_batch_stops_the_loop(play):
    played = play(
        CALL, tools=[change], hooks={"PostToolBatch": [RecordingHook({"decision": "block", "reason": "review it"})]}
    )
    assert played.end.error["message"] == "review it"
    assert len(played.bodies) == 1


def test_a_stop_that_is_blocked_goes_on_with_the_reason(play):
    answers = iter([{"decision": "block", "reason": "run the tests"}, {}])
    inputs = []

    async def stop(hook_input, _id, _context):
        inputs.append(hook_input)
        return next(answers)

    played = play([say("Done."), say("Tests pass.")], hooks={"Stop": [stop]})
    assert texts(played.bodies[1]["messages"][-1]) == ["Stop hook feedback:\nrun the tests"]
    assert [each["stop_hook_active"] for each in inputs] == [False, True]
    assert played.end.ok
    assert played.end.text == "Tests pass."


def test_context_at_a_stop_goes_on_too(play):
    answers = iter([specific("Stop", additionalContext="one more thing"), {}])

    async def stop(*_):
        return next(answers)

    played = play([say("Done."), say("That too.")], hooks={"Stop": [stop]})
    assert "one more thing" in texts(played.bodies[1]["messages"][-1])[0]


def test_a_stop_that_is_always_blocked_ends_after_eight_times(play):
    played = play(
        [say(f"answer {number}") for number in range(9)], hooks={"Stop": [RecordingHook({"decision": "block"})]}
    )
    assert played.end.ok
    assert len(played.bodies) == 9
    assert "kept Claude from ending 8 times" in notices(played)[-1]


def test_continue_false_at_a_stop_beats_a_block(play):
    played = play(
        [say("Done.")],
        hooks={"Stop": [RecordingHook({"decision": "block", "reason": "go on"}), RecordingHook(STOPPING)]},
    )
    assert played.end.ok
    assert notices(played) == ["that is enough"]


def test_a_stop_hook_does_not_go_past_max_turns(play):
    played = play([say("Done.")] * 2, max_turns=1, hooks={"Stop": [RecordingHook({"decision": "block"})]})
    assert played.end.stop_reason == "max_turns"


def test_an_api_error_is_told_as_a_stop_failure(play):
    told = RecordingHook()
    played = play([fault("status", status=400)], hooks={"StopFailure": [told]})
    assert not played.end.ok
    assert told.inputs[0]["error"] == "invalid_request"
    assert told.inputs[0]["error_details"] == played.end.error["message"]


def test_an_interrupt_is_no_failure_and_no_stop(scene):
    told, waiting = RecordingHook(), asyncio.Event()

    async def hang(*_):
        waiting.set()
        await asyncio.Event().wait()

    played = scene(CALL, tools=[change], hooks={"PreToolUse": [hang], "StopFailure": [told], "Stop": [told]})

    async def interrupted():
        run = asyncio.create_task(played.run("go"))
        await waiting.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(interrupted())
    assert told.inputs == []
    assert played.end.stop_reason == "interrupted"
    assert len(played.results()) == 1


@pytest.mark.parametrize("event", ["SessionStart", "PreModelSwitch", "PostModelSwitch", "CwdChanged", "SessionEnd"])
def test_a_block_where_there_is_nothing_to_block_is_only_said(event):
    said = read_answer(event, {"decision": "block", "reason": "no"}, "The hook")
    assert not said.block
    assert "has no meaning" in said.problems[0]


def test_the_user_reads_a_system_message(play):
    played = play([say("ok")], hooks={"Stop": [RecordingHook({"systemMessage": "Remember to commit."})]})
    assert notices(played) == ["Remember to commit."]


# PermissionRequest


def requested(**decision):
    return {"PermissionRequest": [RecordingHook(specific("PermissionRequest", decision=decision))]}


def test_a_hook_says_yes_in_the_users_place(play):
    played = play(CALL, tools=[change], policy=asking(), hooks=requested(behavior="allow"))
    assert played.of(ToolEnd)[0].status == "success"
    assert played.of(Answered)[0].by == "hook"


def test_a_hook_says_no_in_the_users_place(play):
    played = play(CALL, tools=[change], policy=asking(), hooks=requested(behavior="deny", message="ask me later"))
    assert played.results()[0]["content"] == "change was not allowed: ask me later"
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
            RecordingHook(specific("PermissionRequest", decision={"behavior": "maybe"})),
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
    assert played.results()[0]["content"].startswith("[A hook edited this call before it ran.")
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


def test_a_failure_is_told_once(play):
    script = [use("change", name="a"), use("change", name="b"), say("ok")]
    played = play(script, tools=[change], hooks={"PostToolUse": [raises]})
    assert len(notices(played)) == 1


def test_a_shell_that_moves_is_told(play):
    where = ["/a"]

    async def call(tool_input, ctx):
        where[0] = "/b"
        return "ok"

    bash = Tool(
        name="Bash",
        description="Run.",
        input_schema={"type": "object"},
        call=call,
        facts=lambda tool_input: {"cwd": where[0]},
    )
    told = RecordingHook()
    play([use("Bash"), use("Bash"), say("ok")], tools=[bash], hooks={"CwdChanged": [told]})
    assert [(each["old_cwd"], each["new_cwd"]) for each in told.inputs] == [("/a", "/b")]


def switch(scene, answer):
    told, after = RecordingHook(answer), RecordingHook()
    played = scene([say("one"), say("two")], hooks={"PreModelSwitch": [told], "PostModelSwitch": [after]})
    played.go_on("first")
    played.agent = dataclasses.replace(played.agent, model="claude-sonnet-5-5")
    return played, played.go_on("second"), told, after


def test_another_model_is_told_before_and_after(scene):
    _, end, told, after = switch(scene, None)
    assert end.ok
    (hook_input,) = told.inputs
    assert (hook_input["from_model"], hook_input["to_model"]) == ("claude-opus-5-5", "claude-sonnet-5-5")
    assert hook_input["context_tokens"] > 0
    assert hook_input["prompt_cache_warm"] is True
    assert after.events == ["PostModelSwitch"]


def test_a_hook_keeps_a_session_on_its_model(scene):
    answer = specific("PreModelSwitch", permissionDecision="deny", permissionDecisionReason="too dear")
    played, end, _, after = switch(scene, answer)
    assert "too dear" in end.error["message"]
    assert len(played.bodies) == 1
    assert after.inputs == []


# Python callables


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
        assert "goes on without it" in notices(played)[0]


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


def test_an_event_that_there_is_not_is_said_when_the_agent_is_made(scene):
    with pytest.raises(CellwrightError, match="no hook event 'PreToolUsed'") as caught:
        scene([], hooks={"PreToolUsed": [RecordingHook()]})
    assert caught.value.code == ErrorCode.CONFIG_INVALID


def test_all_events_can_be_listened_to(play):
    assert play([say("ok")], hooks={event: [RecordingHook()] for event in EVENTS}).end.ok


def test_hook_text_that_no_encoder_takes_is_mended(play):
    answer = specific("UserPromptSubmit", additionalContext="half \ud83d of it")
    assert play([say("ok")], hooks={"UserPromptSubmit": [RecordingHook(answer)]}).end.ok


def test_long_context_is_cut_and_kept_in_a_file(play):
    answer = specific("UserPromptSubmit", additionalContext="x" * 10_001)
    played = play([say("ok")], hooks={"UserPromptSubmit": [RecordingHook(answer)]})
    context = texts(played.bodies[0]["messages"][0])[1]
    assert len(context) < 10_500
    path = context.split("the whole is in ")[1].split(",")[0]
    assert Path(path).stat().st_size == 10_001
