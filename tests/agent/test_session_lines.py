"""What was shown is kept: answers that are stopped, or that end in an error, stay in the conversation."""

import asyncio
import contextlib
import dataclasses
import json

import pytest
from msgspec.structs import replace
from tests.agent.plain_tools import change, look

from cellwright.agent.agent_setup import NO_CHECKPOINTS, CompactionSettings
from cellwright.agent.tool import tool
from cellwright.errors import ErrorCode
from cellwright.events import Notice, RunEnd, TextDelta, ThinkingDelta, ToolEnd, ToolInputDelta, TurnEnd
from cellwright.model.provider import BlockEnd
from cellwright.sessions.session import Session
from cellwright.testing import Gate, fault, hold, say, think, turn, use, use_json
from cellwright.testing.script import Say, Think, Use
from row_tables import for_each_row

OFF = CompactionSettings(automatic=False)


def stopped(played, last, gate):
    """Run a prompt until `last`, what the model says before its gate, was shown whole; then stop it."""

    async def main():
        run = asyncio.create_task(played.run("go"))
        await asyncio.to_thread(gate.wait_until_reached)
        while not was_shown(played, last):
            await asyncio.sleep(0.001)
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run

    asyncio.run(main())
    gate.open()


def was_shown(played, part):
    match part:
        case Say(text):
            return text in "".join(event.text for event in played.of(TextDelta))
        case Think(text):
            return text in "".join(event.text for event in played.of(ThinkingDelta))
        case Use(pieces=pieces):
            return "".join(pieces) in "".join(event.partial_json for event in played.of(ToolInputDelta))


def kept(played):
    return [(m["role"], [b.get("text") or b["type"] for b in m["content"]]) for m in played.session.messages]


@pytest.fixture
def gate():
    return Gate()


def test_a_stopped_answer_stays_in_the_conversation(scene, gate):
    cut = say("Bees. Second, was")
    played = scene([turn(cut, hold(gate), say("ps.")), say("Wasps.")])
    stopped(played, cut, gate)
    assert played.end.stop_reason == "interrupted"
    assert played.end.text == "Bees. Second, was"
    again = played.go_on("what was second?")
    assert again.text == "Wasps."
    [_, answer, note, prompt] = played.bodies[1]["messages"]
    assert answer == {"role": "assistant", "content": [{"type": "text", "text": "Bees. Second, was"}]}
    assert "stopped you here" in note["content"][0]["text"]
    assert prompt["content"][-1]["text"] == "what was second?"
    assert played.server.rejected == []


def test_a_stopped_answer_is_paid_for_once(scene, gate):
    cut = say("x" * 300)
    played = scene([turn(cut, hold(gate), say("more"))])
    stopped(played, cut, gate)
    assert played.end.usage["output_tokens"] == 100
    assert played.end.usage["input_tokens"] + played.end.usage.get("cache_creation_input_tokens", 0) > 0
    assert played.end.session_cost_usd == pytest.approx(played.end.cost_usd)
    assert played.end.cost_usd > 0
    played.session.close()
    again = Session.load(played.session.path)
    assert again.cost_usd == pytest.approx(played.end.cost_usd)
    assert again.context_tokens > 0


@for_each_row(
    ("parts", "content"),
    [
        ([think("Hm."), say("A")], ["thinking", "A"]),
        ([think("Hm.")], None),
        ([say("A"), think("Hm.")], ["A"]),
        ([use("change", name="x"), say("A")], ["tool_use", "A"]),
        ([say("A"), use_json("change", '{"name": "x')], ["A"]),
        ([use_json("change", '{"name": "x')], None),
        ([say("A"), say(" ")], ["A"]),
    ],
)
def test_blocks_that_are_whole_are_kept_and_those_that_cannot_go_back_are_not(scene, parts, content):
    gate = Gate()
    played = scene([turn(*parts, hold(gate), use("look", name="x")), say("on")], tools=[change, look])
    stopped(played, parts[-1], gate)
    if content is None:
        assert [role for role, _ in kept(played)] == ["user"]
    else:
        assert kept(played)[1] == ("assistant", content)
    assert played.go_on("go on").text == "on"
    assert played.server.rejected == []
    assert not played.of(ToolEnd)


def test_calls_of_a_stopped_answer_are_answered_and_did_not_run(scene, gate):
    cut = say("and now")
    played = scene([turn(use("change", name="x"), cut, hold(gate), say(".")), say("on")], tools=[change])
    stopped(played, cut, gate)
    assert played.results()[0]["content"].startswith("Not run:")
    assert played.go_on("go on").ok
    assert played.server.rejected == []


def test_an_answer_that_breaks_off_for_good_is_kept(scene, monkeypatch):
    broken = turn(say("So far good."), fault("cut"))
    monkeypatch.setenv("CELLWRIGHT_MAX_RETRIES", "0")
    played = scene([broken, say("on")])
    assert played.go_on("go").error["code"] == "API_NETWORK_ERROR"
    assert played.end.text == "So far good."
    assert kept(played)[1] == ("assistant", ["So far good."])
    assert played.go_on("go on").text == "on"
    assert played.server.rejected == []


def test_what_is_asked_for_again_is_void(scene):
    played = scene([turn(say("Fal"), fault("cut")), say("True.")])
    assert played.go_on("go").text == "True."
    assert kept(played)[1:] == [("assistant", ["True."])]
    assert played.end.requests == 2, "both were sent"


def test_a_refusal_s_words_are_void(scene):
    played = scene([turn(say("Well, "), stop_reason="refusal"), say("fine")])
    assert played.go_on("do harm").error["code"] == "REFUSED"
    played.session.close()
    played.session = Session.load(played.session.path)
    assert [role for role, _ in kept(played)] == ["user"]
    assert played.session.cost_usd == pytest.approx(played.end.session_cost_usd)


def test_a_draft_costs_its_words_once(play):
    """Bytes grow with the answer, not with its square: each draft line holds what is new."""
    parts = [f"{number:04} " * 800 for number in range(40)]
    played = play([turn(*[part for words in parts for part in (say(words), think("Hm."))])])
    assert played.end.text == "".join(parts)
    overhead = 1_500 * len(parts)  # a block's own fields, its line's, the signature beside it
    assert played.session.path.stat().st_size < 2 * len("".join(parts)) + overhead


def test_a_session_in_memory_keeps_what_was_shown_as_well(scene, gate, tmp_path):
    cut = say("half")
    played = scene([turn(cut, hold(gate), say("x")), say("on")], session=Session.create(tmp_path, None))
    stopped(played, cut, gate)
    assert played.go_on("go on").text == "on"
    assert played.bodies[1]["messages"][1]["content"][0]["text"] == "half"


class TestAfterAKill:
    """The transcript as `kill -9` leaves it: a copy, made while the answer streams."""

    def copied_while(self, played, gate, until):
        copy = played.session.path.with_name("copy.jsonl")

        async def main():
            run = asyncio.create_task(played.run("go"))
            await asyncio.to_thread(gate.wait_until_reached)
            while not until(played.session.path.read_bytes()):
                await asyncio.sleep(0.01)
            copy.write_bytes(played.session.path.read_bytes())
            gate.open()
            await run

        asyncio.run(main())
        return Session.load(copy)

    def test_the_answer_so_far_is_there(self, scene, gate):
        played = scene([turn(think("Hm."), say("Bees. Second, was"), hold(gate), say("ps.")), say("on")])
        session = self.copied_while(played, gate, lambda data: b"Second, was" in data)
        [_, answer, note] = session.messages
        assert [block["type"] for block in answer["content"]] == ["thinking", "text"]
        assert answer["content"][1]["text"] == "Bees. Second, was"
        assert "process ended" in note["content"][0]["text"]
        assert any("cut off" in notice for notice in session.notices)
        assert session.cost_usd > 0
        played.session = session
        assert played.go_on("go on").text == "on"
        assert played.server.rejected == []
        session.close()
        assert Session.load(session.path).notices == [], "told once"

    def test_results_that_were_there_are_not_lost(self, scene, gate):
        ready = asyncio.Event()

        @tool
        async def step(name: str) -> str:
            """Step."""
            if name == "b":
                await ready.wait()
            return f"did {name}"

        played = scene([turn(use("step", name="a"), use("step", name="b")), say("on"), say("more")], tools=[step])

        async def main():
            run = asyncio.create_task(played.run("go"))
            while b"did a" not in (played.session.path.read_bytes() if played.session.path.exists() else b""):
                await asyncio.sleep(0.01)
            copy = played.session.path.with_name("copy.jsonl")
            copy.write_bytes(played.session.path.read_bytes())
            ready.set()
            await run
            return copy

        session = Session.load(asyncio.run(main()))
        first, second = session.messages[-1]["content"]
        assert first["content"] == "did a"
        assert second["is_error"]
        assert [notice[:14] for notice in session.notices] == ["1 tool call(s)"]


class Altered:
    """A provider whose events another server would send."""

    def __init__(self, provider, alter):
        self.provider = provider
        self.alter = alter

    async def stream(self, request):
        async for event in self.provider.stream(request):
            yield self.alter(event)


def with_one_id(event):
    match event:
        case ToolInputDelta():
            return ToolInputDelta("call_0", event.name, event.partial_json, event.index)
        case BlockEnd(block={"type": "tool_use"}):
            return BlockEnd(event.index, {**event.block, "id": "call_0"})
        case TurnEnd():
            content = [{**b, "id": "call_0"} if b["type"] == "tool_use" else b for b in event.message["content"]]
            return replace(event, message={**event.message, "content": content})
    return event


def with_a_hologram(event):
    if isinstance(event, TurnEnd):
        event.message["content"].append({"type": "hologram", "beams": [1]})
    return event


class TestOneBadMessage:
    def test_ids_are_made_unique(self, scene):
        """Some gateways number the calls of each answer anew."""
        calls = turn(use("look", name="a"), use("look", name="b"))
        played = scene([calls, turn(use("look", name="c")), say("ok")], tools=[look])
        played.agent = dataclasses.replace(played.agent, provider=Altered(played.agent.provider, with_one_id))
        assert played.go_on("go").ok
        ids = [result["tool_use_id"] for result in played.results()]
        assert len(set(ids)) == 3
        assert [result["content"] for result in played.results()] == ["a looks fine", "b looks fine", "c looks fine"]
        shown = {event.tool_use_id for event in played.of(ToolInputDelta)}
        assert shown == set(ids) == {event.tool_use_id for event in played.of(ToolEnd)}

    def test_blocks_that_are_not_known_are_kept_aside(self, scene):
        played = scene([say("hello"), say("on")])
        played.agent = dataclasses.replace(played.agent, provider=Altered(played.agent.provider, with_a_hologram))
        assert played.go_on("go").ok
        assert kept(played)[1] == ("assistant", ["hello"])
        assert b"hologram" in played.session.path.read_bytes()
        assert played.go_on("go on").text == "on"
        played.session.close()
        assert len(Session.load(played.session.path).messages) == 4

    def test_a_refused_history_goes_back_to_where_it_was_accepted(self, scene):
        refusal = fault("status", status=400, message="messages.5.content.0: what nobody thought of")
        script = [say("one"), turn(use("look", name="x")), say("two"), refusal, say("three"), say("four")]
        played = scene(script, tools=[look])
        assert played.go_on("first").text == "one"
        assert played.go_on("second").text == "two"
        assert played.go_on("third").text == "three"
        assert any("last accepted message" in notice.message for notice in played.of(Notice))
        sent = played.bodies[4]["messages"]
        assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant", "user", "user"]
        note, prompt = sent[-1]["content"]
        assert "You said: two" in note["text"]
        assert prompt["text"] == "third"
        assert played.go_on("fourth").text == "four"
        assert played.server.rejected == []

    def test_a_message_far_back_is_gone_back_to(self, scene):
        refusal = fault("status", status=400, message="messages.3.content.0: what nobody thought of")
        played = scene([say("one"), say("two"), say("three"), refusal, say("four"), say("five")])
        for prompt in ("first", "second", "third", "fourth"):
            assert played.go_on(prompt).ok
        sent = played.bodies[4]["messages"]
        assert [message["role"] for message in sent] == ["user", "assistant", "user", "user"]
        assert "You said: two" in sent[-1]["content"][0]["text"]
        assert "said: third" in sent[-1]["content"][0]["text"]
        assert played.go_on("fifth").text == "five"
        assert played.server.rejected == []

    def test_thinking_that_is_not_taken_any_more_is_left_out(self, scene):
        refusal = fault("status", status=400, message="messages.1.content.0: Invalid `signature` in `thinking` block.")
        script = [turn(think("Hm."), say("one")), refusal, say("two"), say("three")]
        played = scene(script)
        assert played.go_on("first").ok
        assert played.go_on("second").text == "two"
        assert any("thinking" in notice.message for notice in played.of(Notice))
        sent = played.bodies[2]["messages"]
        assert [block["type"] for block in sent[1]["content"]] == ["text"]
        assert sent[-1]["content"][-1]["text"] == "second"
        assert played.end.session_cost_usd == pytest.approx(
            sum(event.cost_usd for event in played.of(TurnEnd)), rel=0.01
        )
        assert played.go_on("third").text == "three"
        assert played.server.rejected == []

    def test_results_that_are_refused_are_told_in_short(self, scene):
        refusal = fault("status", status=400, message="messages.2.content.0.tool_result: bad image")
        played = scene([turn(use("look", name="x")), refusal, say("I see."), say("on")], tools=[look])
        assert played.go_on("first").text == "I see."
        told = played.bodies[2]["messages"][-1]["content"][0]["text"]
        assert "You called look" in told
        assert "x looks fine" in told
        assert played.go_on("more").text == "on"
        assert played.server.rejected == []

    def test_a_prompt_that_is_refused_takes_nothing_else_with_it(self, scene):
        refusal = fault("status", status=400, message="messages.2.content.0: bad")
        played = scene([say("one"), refusal, say("on")])
        played.go_on("first")
        assert played.go_on("bad").error["code"] == "API_REQUEST_INVALID"
        assert played.go_on("good").text == "on"
        assert [message["role"] for message in played.bodies[2]["messages"]] == ["user", "assistant", "user"]

    def test_where_going_back_is_no_help_nothing_is_lost(self, scene):
        refusal = fault("status", status=400, message="messages: something is wrong")
        played = scene([say("one"), refusal, refusal, say("on")])
        played.go_on("first")
        assert played.go_on("bad").error["code"] == "API_REQUEST_INVALID"
        assert played.go_on("good").text == "on"
        assert played.bodies[3]["messages"][1]["content"] == [{"type": "text", "text": "one"}]


class TestContextLimit:
    """Where conversations are not summed up."""

    def test_the_user_is_told_once_at_80_percent(self, scene):
        def filled(tokens):
            return turn(say("x"), usage={"input_tokens": tokens})

        tokens = (700_000, 810_000, 850_000, 100_000, 900_000)
        played = scene([*map(filled, tokens)], compaction=OFF)
        told = []
        for prompt in "abcde":
            played.events.clear()
            played.go_on(prompt)
            told.append([notice.message for notice in played.of(Notice) if "of the 1,000,000" in notice.message])
        assert list(map(len, told)) == [0, 1, 0, 0, 1]

    def test_results_that_meet_the_limit_are_kept(self, scene):
        refusal = fault("status", status=400, message="prompt is too long: 1000001 tokens > 1000000 maximum")
        played = scene([turn(use("look", name="x")), refusal, refusal, say("on")], tools=[look], compaction=OFF)
        assert played.go_on("first").error["code"] == "CONTEXT_TOO_LONG"
        assert played.results()[0]["content"] == "x looks fine"
        assert any("results are kept" in notice.message for notice in played.of(Notice))
        assert played.go_on("still too much").error["code"] == "CONTEXT_TOO_LONG"
        assert played.go_on("with a larger model").text == "on"
        assert played.server.rejected == []
        assert "x looks fine" in json.dumps(played.bodies[-1])
        assert "still too much" not in json.dumps(played.bodies[-1])


class TestEveryRunHasItsEnd:
    def test_a_fault_of_ours_is_an_error_for_the_user(self, scene, caplog):
        class Broken:
            def begin(self, *_):
                raise ZeroDivisionError("ours")

        played = scene([say("never")], checkpoints=Broken())
        end = played.go_on("go")
        assert isinstance(played.events[-1], RunEnd)
        assert end.error["code"] == ErrorCode.EXECUTION_ERROR
        assert "ZeroDivisionError('ours')" in end.error["message"]
        assert "Traceback" in caplog.text

    def test_a_fault_while_calls_run_leaves_them_answered(self, scene):
        class Broken:
            def begin(self, *_):
                return self

            async def before_call(self, *_):
                raise RuntimeError("ours")

            def end(self):
                raise RuntimeError("again")

        script = [turn(use("change", name="x"), use("look", name="y")), say("on")]
        played = scene(script, tools=[change, look], checkpoints=Broken())
        assert "RuntimeError('ours')" in played.go_on("go").error["message"]
        assert "fault" in played.results()[0]["content"]
        played.agent = dataclasses.replace(played.agent, checkpoints=NO_CHECKPOINTS)
        assert played.go_on("go on").text == "on"
        assert played.server.rejected == []

    def test_a_usage_of_ten_ends_one_call(self, scene):
        played = scene([turn(say("x"), usage={"output_tokens": "ten"}), say("on")])
        assert "is 'ten'" in played.go_on("go").error["message"]
        assert played.go_on("go on").text == "on"
        assert played.server.rejected == []


def test_requests_are_those_that_were_sent(play):
    assert play([say("x")], budget_usd=0.0001).end.requests == 0
    assert play([fault("status", status=529, retry_after_ms=1), say("x")]).end.requests == 2
