"""What the user says while a run goes on: delivered where the API allows it, told to hooks, taken back, never lost."""

import asyncio

import pytest

from cellwright.agent.calls.approval import Deny
from cellwright.agent.loop import run_agent
from cellwright.agent.prompt import Steering, SteeringText
from cellwright.agent.tool import tool
from cellwright.errors import CellwrightError
from cellwright.events import Notice, Steered
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages
from cellwright.testing import Gate, hold, say, turn, use


def texts(message):
    return [block["text"] for block in message["content"] if block["type"] == "text"]


def kinds(message):
    return [block["type"] for block in message["content"]]


def states(played):
    return [(event.steer_id, event.state) for event in played.of(Steered)]


@pytest.fixture
def steered(scene):
    """`steered(script, *words)`: a run whose first call of `act` is when the user says `words`; gives the scene."""

    def run(script, *words, after=lambda _: None, tools=(), prompt="go", **options):
        steering = Steering()

        @tool
        async def act() -> str:
            """Act."""
            for each in words:
                steering.add(each)
            after(steering)
            return "acted"

        played = scene(script, tools=[act, *tools], **options)
        asyncio.run(run_agent(played.agent, prompt, played.session, played.events.append, steering=steering))
        played.steering = steering
        return played

    return run


def test_words_go_with_the_results_of_the_calls_that_run(steered):
    played = steered(
        [turn(use("act")), say("I do.")],
        SteeringText("a", "Use tabs.", "steer"),
        SteeringText("b", "Be quick.", "steer"),
    )
    message = played.bodies[1]["messages"][-1]
    assert kinds(message) == ["tool_result", "text", "text"]
    assert texts(message) == ["Use tabs.", "Be quick."]
    assert states(played) == [("a", "waiting"), ("b", "waiting"), ("a", "delivered"), ("b", "delivered")]
    assert played.server.rejected == []
    assert played.end.ok


def test_the_transcript_on_disk_has_them_where_claude_read_them(steered):
    played = steered([turn(use("act")), say("I do.")], SteeringText("a", "Use tabs.", "steer"))
    played.session.close()
    assert read_messages(played.session.path) == Session.load(played.session.path).messages
    assert texts(read_messages(played.session.path)[2]) == ["Use tabs."]


def test_words_wait_for_all_results_of_a_message(steered):
    played = steered([turn(use("act"), use("act")), say("ok")], SteeringText("a", "Hurry.", "steer"))
    assert kinds(played.bodies[1]["messages"][-1]) == ["tool_result", "tool_result", "text"]


def test_words_that_come_with_the_last_answer_keep_the_run_going(scene):
    steering, gate = Steering(), Gate()
    played = scene([turn(say("Almost "), hold(gate), say("done.")), say("With tests, too.")])

    async def run():
        task = asyncio.create_task(
            run_agent(played.agent, "go", played.session, played.events.append, steering=steering)
        )
        await asyncio.to_thread(gate.wait_until_reached)
        steering.add(SteeringText("a", "And tests.", "steer"))
        gate.open()
        return await task

    end = asyncio.run(run())
    assert end.text == "With tests, too."
    assert end.requests == 2
    assert [message["role"] for message in played.session.messages] == ["user", "assistant", "user", "assistant"]
    assert texts(played.session.messages[2]) == ["And tests."]
    assert played.server.rejected == []


def test_a_queued_prompt_waits_until_claude_would_end_and_each_has_a_turn_of_its_own(steered):
    played = steered(
        [turn(use("act")), say("Done."), say("Second done."), say("Third done.")],
        SteeringText("q1", "Then the second.", "queue"),
        SteeringText("q2", "Then the third.", "queue"),
    )
    assert kinds(played.bodies[1]["messages"][-1]) == ["tool_result"]
    assert texts(played.bodies[2]["messages"][-1]) == ["Then the second."]
    assert texts(played.bodies[3]["messages"][-1]) == ["Then the third."]
    assert played.end.text == "Third done."


def test_what_is_taken_back_is_not_sent(steered):
    played = steered(
        [turn(use("act")), say("ok")],
        SteeringText("a", "Delete it all.", "steer"),
        SteeringText("b", "Keep it.", "steer"),
        after=lambda steering: steering.withdraw("a"),
    )
    assert texts(played.bodies[1]["messages"][-1]) == ["Keep it."]
    assert states(played) == [("a", "waiting"), ("b", "waiting"), ("a", "withdrawn"), ("b", "delivered")]
    assert not played.steering.withdraw("b")
    assert not played.steering.withdraw("never")


def test_an_interrupt_keeps_what_waits_and_answers_the_calls(scene):
    steering, reached = Steering(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        steering.add(SteeringText("a", "Not delivered.", "steer"))
        reached.set()
        await asyncio.Event().wait()
        return "never"

    played = scene([turn(use("wait"))], tools=[wait])

    async def run():
        task = asyncio.create_task(
            run_agent(played.agent, "go", played.session, played.events.append, steering=steering)
        )
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert kinds(played.session.messages[-1]) == ["tool_result"]
    assert states(played) == [("a", "waiting")]
    assert [words.text for words in steering.waiting] == ["Not delivered."]
    with pytest.raises(CellwrightError, match="just finished"):
        steering.add(SteeringText("b", "Too late.", "steer"))


def test_words_are_not_put_where_no_request_may_follow(steered):
    played = steered([turn(use("act"))], SteeringText("a", "Use tabs.", "steer"), max_turns=1)
    assert played.end.stop_reason == "max_turns"
    assert kinds(played.session.messages[-1]) == ["tool_result"]
    assert states(played) == [("a", "waiting")]


def test_max_turns_counts_for_queued_prompts_too(steered):
    played = steered([turn(use("act")), say("Done.")], SteeringText("q", "More.", "queue"), max_turns=2)
    assert played.end.stop_reason == "end_turn"
    assert [words.id for words in played.steering.waiting] == ["q"]


def test_a_denial_that_ends_the_run_delivers_nothing(scene):
    steering = Steering()
    steering.add(SteeringText("a", "Go on.", "steer"))

    @tool
    async def change() -> str:
        """Change something."""
        return "changed"

    async def nobody(use):
        return Deny("stop here", "callback", interrupt=True)

    played = scene([turn(use("change"))], tools=[change], can_use_tool=nobody, policy=PermissionPolicy(mode="default"))
    asyncio.run(run_agent(played.agent, "go", played.session, played.events.append, steering=steering))
    assert played.end.stop_reason == "interrupted"
    assert kinds(played.session.messages[-1]) == ["tool_result"]
    assert states(played) == [("a", "waiting")]


def test_hooks_see_the_words_as_a_prompt_and_may_add_to_them(steered):
    seen = []

    async def submitted(hook_input, *_):
        seen.append(hook_input["prompt"])
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "It is Friday."}}

    played = steered(
        [turn(use("act")), say("ok")],
        SteeringText("a", "Use tabs.", "steer"),
        hooks={"UserPromptSubmit": [submitted]},
    )
    assert seen == ["go", "Use tabs."]
    assert "Use tabs." in texts(played.bodies[1]["messages"][-1])
    assert "It is Friday." in texts(played.bodies[1]["messages"][-1])[-1]


def test_a_hook_keeps_words_back_and_the_run_goes_on(steered):
    async def submitted(hook_input, *_):
        return {"decision": "block", "reason": "No secrets."} if "secret" in hook_input["prompt"] else {}

    played = steered(
        [turn(use("act")), say("ok")],
        SteeringText("a", "The secret is 7.", "steer"),
        SteeringText("b", "Be quick.", "steer"),
        hooks={"UserPromptSubmit": [submitted]},
    )
    assert texts(played.bodies[1]["messages"][-1]) == ["Be quick."]
    assert ("a", "withdrawn") in states(played)
    assert any("No secrets." in notice.message for notice in played.of(Notice))
    assert played.end.ok


def test_what_was_said_before_the_run_began_is_shown_when_it_begins(scene):
    steering = Steering()
    steering.add(SteeringText("early", "Be quick.", "steer"))
    steering.add(SteeringText("gone", "Never mind.", "steer"))
    steering.withdraw("gone")
    played = scene([say("Done."), say("Quick.")])
    asyncio.run(run_agent(played.agent, "go", played.session, played.events.append, steering=steering))
    assert states(played) == [("early", "waiting"), ("early", "delivered")]


def test_words_that_are_sent_twice_are_said_once():
    steering = Steering()
    for _ in range(2):
        steering.add(SteeringText("a", "Once.", "steer"))
    assert len(steering.waiting) == 1
    with pytest.raises(CellwrightError, match="message is empty"):
        steering.add(SteeringText("b", "  ", "steer"))


def test_a_run_that_takes_no_words_says_why():
    with pytest.raises(CellwrightError, match="recording"):
        Steering("This run plays a recording.").add(SteeringText("a", "Use tabs.", "steer"))
