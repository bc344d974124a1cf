"""Hooks in the loop: which events there are, what they are told, and what each answer does to the run."""

import asyncio
import dataclasses
from pathlib import Path

import pytest
from tests.agent.hooks.recording_hook import CALL, RecordingHook, notices, specific, texts
from tests.agent.plain_tools import change

from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.agent.hooks.hook_answers import read_answer
from cellwright.agent.hooks.protocol import EVENTS
from cellwright.agent.tool import Tool
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import ToolEnd
from cellwright.sessions.session import Session
from cellwright.testing import fault, say, turn, use


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
    assert f"{event} hook" in context
    assert ": It is Monday.\n</" in context


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
    assert [text.partition(":\n")[2] for text in texts(played.bodies[1]["messages"][-1])] == ["run the tests"]
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
    assert "ending 8 times" in notices(played)[-1]


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


@pytest.mark.parametrize("event", ["SessionStart", "PostModelSwitch", "CwdChanged", "SessionEnd"])
def test_a_block_where_there_is_nothing_to_block_is_only_said(event):
    said = read_answer(event, {"decision": "block", "reason": "no"}, "The hook")
    assert not said.block
    assert "has no meaning" in said.problems[0]


def test_the_user_reads_a_system_message(play):
    played = play([say("ok")], hooks={"Stop": [RecordingHook({"systemMessage": "Remember to commit."})]})
    assert notices(played) == ["Remember to commit."]


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


def test_an_event_that_there_is_not_is_said_when_the_agent_is_made(scene):
    with pytest.raises(CellwrightError, match="Hook event 'PreToolUsed' was not found") as caught:
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
