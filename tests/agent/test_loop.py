"""The loop: what is asked, what is run, what goes back, and how each stop_reason ends."""

import asyncio
import json
import re
import signal
import stat
from pathlib import Path

import pytest
from msgspec import to_builtins
from tests.agent.plain_tools import change, fail, look

from cellwright.agent.agent_setup import CompactionSettings
from cellwright.agent.calls.approval import Allow, Deny
from cellwright.agent.loop import run_agent
from cellwright.agent.tool import ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import (
    Answered,
    Asked,
    Notice,
    RunEnd,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    TurnEnd,
    UserPrompt,
)
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages
from cellwright.testing import say, think, turn, use, use_json
from cellwright.text import dollars
from row_tables import for_each_row


def statuses(played):
    return [event.status for event in played.of(ToolEnd)]


def test_an_answer_is_streamed_and_kept(play):
    played = play([turn(think("Easy."), say("The answer is **4**."))], "2 + 2?")
    assert "".join(e.text for e in played.of(TextDelta)) == "The answer is **4**."
    assert "".join(e.text for e in played.of(ThinkingDelta)) == "Easy."
    assert type(played.events[0]) is UserPrompt
    assert played.end.ok
    assert played.end.text == "The answer is **4**."
    assert [m["role"] for m in played.session.messages] == ["user", "assistant"]
    assert played.end.cost_usd == pytest.approx(played.of(TurnEnd)[0].cost_usd)
    assert played.end.cost_usd > 0


def test_events_are_numbered_without_gaps_also_over_runs(scene):
    played = scene([say("one"), say("two")])
    played.go_on("first")
    played.go_on("second")
    numbers = [event.seq for event in played.events]
    assert numbers == list(range(1, len(numbers) + 1))


def test_notices_about_one_file_are_one(scene):
    played = scene([say("one")])
    played.session.notices += ["/p/s.json: `a` is not a list.", "/p/s.json: `b` is not a list."]
    played.go_on("first")
    assert [event.message.split("\n") for event in played.of(Notice)] == [
        ["/p/s.json:", "- `a` is not a list.", "- `b` is not a list."]
    ]


def test_a_tool_is_run_and_its_result_goes_back(play):
    played = play([turn(say("Let me look."), use("look", name="x")), say("Fine.")], tools=[look])
    kinds = [type(e) for e in played.events]
    assert kinds.index(ToolInputDelta) < kinds.index(TurnEnd) < kinds.index(ToolStart) < kinds.index(ToolEnd)
    assert played.bodies[1]["messages"][-1]["content"][0]["content"] == "x looks fine"
    assert played.end.tools_succeeded == 1
    assert played.end.requests == 2


def test_read_only_calls_of_a_turn_run_at_once(play):
    everyone_is_here = asyncio.Barrier(3)

    @tool(read_only=True)
    async def meet(name: str) -> str:
        """Wait for the others."""
        await everyone_is_here.wait()
        return name

    calls = [use("meet", name=name) for name in "abc"]
    played = play([turn(*calls), say("done")], tools=[meet])
    assert [r["content"] for r in played.results()] == ["a", "b", "c"]
    assert played.of(ToolStart)[0].parallel
    [batch] = played.end.parallel_batches
    assert (len(batch.tool_use_ids), batch.succeeded, batch.failed) == (3, 3, 0)


def test_no_more_calls_run_at_once_than_allowed(play):
    now, most = 0, 0

    @tool(read_only=True)
    async def count() -> str:
        """Count who is here."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return "ok"

    play([turn(*[use("count")] * 1, *[use("count") for _ in range(7)]), say("x")], tools=[count], max_parallel_tools=3)
    assert most == 3


def test_calls_with_effects_run_one_after_another_in_order(play):
    order = []

    @tool
    async def step(name: str) -> str:
        """Do a step."""
        order.append(f"{name} begins")
        await asyncio.sleep(0)
        order.append(f"{name} ends")
        return name

    play([turn(use("step", name="a"), use("step", name="b")), say("x")], tools=[step])
    assert order == ["a begins", "a ends", "b begins", "b ends"]


def test_the_call_is_on_disk_before_it_has_effects(play, tmp_path):
    session = Session.create(tmp_path, tmp_path / "sessions")
    seen = []

    @tool
    async def act() -> str:
        """Act."""
        seen.extend(block["name"] for block in read_messages(session.path)[-1]["content"])
        return "ok"

    play([turn(use("act")), say("x")], tools=[act], session=session)
    assert seen == ["act"]


@for_each_row(
    ("call", "tools", "status", "told"),
    [
        (use("nothing", a=1), [look], "error", "Tool nothing was not found. The tools are: look."),
        (use("look"), [look], "error", "name"),
        (use("look", name=3), [look], "error", "name"),
        (use("look", name="x", other=1), [look], "error", "other"),
        (use_json("look", '{"name": "x'), [look], "error", "was not valid JSON"),
        (use("fail", name="x"), [fail], "error", "x cannot be done; try another"),
    ],
)
def test_a_call_that_cannot_run_is_answered_so_that_claude_can_react(play, call, tools, status, told):
    played = play([turn(call), say("ok")], tools=tools)
    (result,) = played.results()
    assert result["is_error"]
    assert told in result["content"]
    assert statuses(played) == [status]
    assert played.end.ok


def test_an_unforeseen_exception_is_told_to_claude(play):
    @tool
    async def break_down() -> str:
        """Break."""
        raise ZeroDivisionError("by zero")

    played = play([turn(use("break_down")), say("ok")], tools=[break_down])
    assert "ZeroDivisionError: by zero" in played.results()[0]["content"]


@pytest.mark.parametrize("leaving", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_tool_cannot_end_the_loop_it_runs_on(play, leaving):
    @tool
    async def leave(name: str) -> str:
        """Leave."""
        raise leaving

    played = play([turn(use("leave", name="x"), use("look", name="y")), say("I see.")], tools=[leave, look])
    assert statuses(played) == ["error", "success"]
    assert played.end.text == "I see."


def test_a_call_that_takes_too_long_is_stopped(play):
    @tool(limits=ToolLimits(seconds=0.05))
    async def wait() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return "never"

    played = play([turn(use("wait")), say("ok")], tools=[wait])
    assert statuses(played) == ["timeout"]
    assert played.of(ToolEnd)[0].error["details"]["requested_timeout"] == 0.05
    assert played.end.ok


def test_a_tool_s_own_timeout_error_is_not_taken_for_its_limit(play):
    @tool
    async def connect_somewhere() -> str:
        """Connect."""
        raise TimeoutError("no answer from host")

    played = play([turn(use("connect_somewhere")), say("ok")], tools=[connect_somewhere])
    assert statuses(played) == ["error"]


def test_a_long_result_is_cut_and_says_so(play):
    @tool(limits=ToolLimits(result_chars=100))
    async def talk() -> str:
        """Talk a lot."""
        return "a" * 500 + "z" * 500

    played = play([turn(use("talk")), say("ok")], tools=[talk])
    content = played.results()[0]["content"]
    assert content.startswith("a" * 50)
    assert content.endswith("z" * 50)
    assert "900 of 1,000" in content
    [kept] = re.findall(r"the whole is in (\S+), which Read can page", content)
    assert Path(kept).read_text("utf-8") == "a" * 500 + "z" * 500
    assert stat.S_IMODE(Path(kept).stat().st_mode) == 0o600


def test_a_tool_that_is_called_too_often_is_refused_until_the_minute_is_over(play):
    calls: list[str] = []

    @tool(read_only=True, limits=ToolLimits(calls_per_minute=2))
    def look() -> str:
        "Look."
        calls.append("x")
        return "seen"

    played = play([turn(use("look")), turn(use("look"), use("look")), say("ok")], tools=[look])
    assert calls == ["x", "x"]
    assert [result["content"] for result in played.results()[:2]] == ["seen", "seen"]
    assert "2 times a minute" in played.results()[2]["content"]
    ends = [event for event in played.events if isinstance(event, ToolEnd)]
    assert sorted(end.error["code"] for end in ends if end.error) == ["RATE_LIMIT_EXCEEDED"]


def test_an_empty_result_is_never_sent_empty(play):
    @tool
    async def silent() -> str:
        """Say nothing."""
        return "  "

    assert play([turn(use("silent")), say("ok")], tools=[silent]).results()[0]["content"] == "(no output)"


def test_a_failure_that_is_a_result_is_marked(play):
    @tool
    async def run() -> ToolResult:
        """Run."""
        return ToolResult("exit code 1", display={"exit_code": 1}, is_error=True)

    played = play([turn(use("run")), say("ok")], tools=[run])
    assert played.results()[0]["is_error"]
    assert played.of(ToolEnd)[0].display == {"exit_code": 1}


def test_half_a_character_ends_no_view(play):
    @tool
    async def halves(name: str, ctx: ToolContext) -> ToolResult:
        """Give back what no encoder takes."""
        ctx.progress("\ud800", message="\ud800", output={"text/plain": "\ud800"})
        return ToolResult([{"type": "text", "text": "a\ud800b"}], {"diff": "\ud83c\udf89 \ud800"})

    @tool
    async def raises(name: str) -> str:
        """Fail with what no encoder takes."""
        raise ToolError("\ud800", details={"path": "\ud800"})

    calls = turn(use("halves", name="x"), use("raises", name="y"))
    played = play([calls, say("ok")], "\ud800 go", tools=[halves, raises])
    for event in played.events:
        repr(to_builtins(event)).encode()
        json.dumps(to_builtins(event), ensure_ascii=False).encode()
    first, second = played.of(ToolEnd)
    assert first.content == [{"type": "text", "text": "a\ufffdb"}]
    assert first.display == {"diff": "🎉 \ufffd"}
    assert second.content == "\ufffd"


def test_progress_reaches_the_views_also_from_another_thread(play):
    @tool
    def work(ctx: ToolContext) -> str:
        """Work in a thread."""
        ctx.progress(text="half\n")
        return "whole"

    played = play([turn(use("work")), say("ok")], tools=[work])
    assert [e.text for e in played.of(ToolProgress)] == ["half\n"]


class TestPermission:
    def asks(self, tmp_path):
        return PermissionPolicy(roots=(tmp_path,), cwd=tmp_path)

    def test_what_asks_is_denied_when_nobody_is_there(self, play, tmp_path):
        played = play([turn(use("change", name="x")), say("ok")], tools=[change], policy=self.asks(tmp_path))
        assert statuses(played) == ["denied"]
        assert "change" in played.results()[0]["content"]
        assert played.of(Answered)[0].by == "policy"
        assert played.end.ok

    def test_the_user_allows(self, play, tmp_path):
        async def yes(use):
            assert "tool change" in use.preview.title
            return Allow(by="terminal")

        played = play(
            [turn(use("change", name="x")), say("ok")], tools=[change], policy=self.asks(tmp_path), can_use_tool=yes
        )
        assert played.results()[0]["content"] == "changed x"
        assert played.of(Asked)[0].question_id == played.of(Answered)[0].question_id

    def test_the_reason_of_a_denial_is_told_to_claude(self, play, tmp_path):
        async def no(use):
            return Deny("not today")

        played = play(
            [turn(use("change", name="x")), say("ok")], tools=[change], policy=self.asks(tmp_path), can_use_tool=no
        )
        assert ": not today" in played.results()[0]["content"]

    def test_an_answer_for_the_session_is_not_asked_again(self, scene, tmp_path):
        asked = []

        async def for_the_session(use):
            asked.append(use.name)
            return Allow(scope="session", rules=("change",))

        script = [
            turn(use("change", name="a"), use("change", name="b")),
            say("1"),
            turn(use("change", name="c")),
            say("2"),
        ]
        played = scene(script, tools=[change], policy=self.asks(tmp_path), can_use_tool=for_the_session)
        played.go_on("first")
        played.go_on("second")
        assert asked == ["change"]
        assert statuses(played) == ["success"] * 3

    def test_an_edited_call_runs_as_edited_and_claude_is_told(self, play, tmp_path):
        async def edit(use):
            return Allow(updated_input={"name": "y"})

        played = play(
            [turn(use("change", name="x")), say("ok")], tools=[change], policy=self.asks(tmp_path), can_use_tool=edit
        )
        content = played.results()[0]["content"]
        assert "changed y" in content
        assert "edited" in content
        assert played.of(Answered)[0].edited

    def test_an_edited_call_is_decided_on_again(self, play, tmp_path):
        async def edit(use):
            return Allow(updated_input={"command": "rm -r x"})

        @tool(name="Bash", access=ToolAccess("shell", "command"))
        async def bash(command: str) -> str:
            """Run."""
            return f"ran {command}"

        policy = PermissionPolicy(deny=("Bash(rm *)",), roots=(tmp_path,), cwd=tmp_path)
        played = play([turn(use("Bash", command="make x")), say("ok")], tools=[bash], policy=policy, can_use_tool=edit)
        assert statuses(played) == ["denied"]

    def test_a_callback_that_leaves_allows_nothing(self, play, tmp_path):
        async def leave(use):
            raise SystemExit

        played = play(
            [turn(use("change", name="x")), say("ok")], tools=[change], policy=self.asks(tmp_path), can_use_tool=leave
        )
        assert statuses(played) == ["denied"]

    def test_a_callback_that_raises_allows_nothing(self, play, tmp_path):
        async def broken(use):
            raise RuntimeError("oops")

        played = play(
            [turn(use("change", name="x")), say("ok")], tools=[change], policy=self.asks(tmp_path), can_use_tool=broken
        )
        assert statuses(played) == ["denied"]
        assert "oops" in played.results()[0]["content"]

    def test_questions_come_one_at_a_time(self, play, tmp_path):
        open_questions = most = 0

        async def ask(use):
            nonlocal open_questions, most
            open_questions += 1
            most = max(most, open_questions)
            await asyncio.sleep(0)
            open_questions -= 1
            return Allow()

        @tool(name="Read", read_only=True, access=ToolAccess("read", "file_path"))
        async def read(file_path: str) -> str:
            """Read."""
            return "x"

        calls = [use("Read", file_path=f"/outside/{i}") for i in range(3)]
        played = play([turn(*calls), say("ok")], tools=[read], policy=self.asks(tmp_path), can_use_tool=ask)
        assert most == 1
        assert len(played.of(Asked)) == 3


class TestInterrupt:
    def interrupt(self, played, when):
        async def main():
            run = asyncio.create_task(played.run("go"))
            await when(run)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

        asyncio.run(main())

    def test_in_a_call_every_call_is_answered_and_the_next_request_is_valid(self, scene):
        running = asyncio.Event()

        @tool
        async def hang(name: str) -> str:
            """Hang."""
            running.set()
            await asyncio.Event().wait()
            return "never"

        calls = turn(use("look", name="a"), use("hang", name="b"), use("hang", name="c"))
        played = scene([calls, say("going on")], tools=[look, hang])
        self.interrupt(played, lambda run: running.wait())
        assert statuses(played) == ["success", "interrupted", "interrupted"]
        assert played.end.stop_reason == "interrupted"
        assert played.end.error["code"] == "INTERRUPTED"
        assert played.go_on("what now?").text == "going on"

    def test_while_a_question_waits(self, scene, tmp_path):
        asked = asyncio.Event()

        async def never(use):
            asked.set()
            await asyncio.Event().wait()

        policy = PermissionPolicy(roots=(tmp_path,), cwd=tmp_path)
        played = scene([turn(use("change", name="x")), say("ok")], tools=[change], policy=policy, can_use_tool=never)
        self.interrupt(played, lambda run: asked.wait())
        assert played.of(Answered)[0].behavior == "deny"
        assert statuses(played) == ["interrupted"]
        assert played.go_on("again").ok


class TestStopReasons:
    def test_a_call_cut_off_by_max_tokens_is_not_run(self, play):
        cut = turn(use_json("change", '{"name": "x'), stop_reason="max_tokens")
        played = play([cut, say("shorter")], tools=[change])
        assert "output limit" in played.results()[0]["content"]
        assert played.end.tools_succeeded == 0
        assert played.bodies[1]["max_tokens"] > played.bodies[0]["max_tokens"]

    def test_a_text_cut_off_goes_on(self, play):
        played = play([turn(say("One, two,"), stop_reason="max_tokens"), say(" three.")])
        assert played.end.ok
        assert played.end.text == "One, two, three."
        assert "Continue exactly" in played.bodies[1]["messages"][-1]["content"][0]["text"]
        assert played.of(Notice)

    def test_it_does_not_go_on_for_ever(self, play):
        played = play([turn(say("more"), stop_reason="max_tokens")] * 5)
        assert not played.end.ok
        assert played.end.requests == 4

    def test_a_pause_is_answered_by_going_on(self, play):
        played = play([turn(say("hm"), stop_reason="pause_turn"), say(", done")])
        assert played.end.text == "hm, done"
        assert played.bodies[1]["messages"][-1]["role"] == "assistant"

    def test_a_refusal_ends_the_run_and_is_not_kept(self, play):
        details = {"type": "refusal", "category": "cyber", "explanation": "It could do harm."}
        played = play([turn(say("I"), stop_reason="refusal", stop_details=details)])
        assert played.end.error["code"] == "REFUSED"
        assert "do harm." in played.end.error["message"]
        assert [m["role"] for m in played.session.messages] == ["user"]

    def test_a_full_context_window_ends_the_run_with_every_call_answered(self, scene):
        full = turn(use("look", name="x"), stop_reason="model_context_window_exceeded")
        played = scene([full, say("ok")], tools=[look], compaction=CompactionSettings(automatic=False))
        assert played.go_on("a").error["code"] == "CONTEXT_TOO_LONG"
        assert played.results()[0]["is_error"]
        assert played.go_on("b").ok

    def test_an_unknown_reason_is_shown(self, play):
        played = play([turn(say("?"), stop_reason="something_new")])
        assert played.end.stop_reason == "something_new"
        assert "something_new" in played.of(Notice)[0].message

    def test_after_a_refusal_the_conversation_goes_on(self, scene):
        played = scene([turn(say("I"), stop_reason="refusal"), say("fine")])
        refused = played.go_on("do harm")
        assert played.go_on("do good").text == "fine"
        assert played.server.rejected == []
        assert played.end.session_cost_usd == pytest.approx(refused.cost_usd + played.end.cost_usd)

    def test_an_empty_answer_is_not_sent_back(self, scene):
        played = scene([turn(use("look", name="x")), turn(stop_reason="end_turn"), say("hello")], tools=[look])
        assert played.go_on("a").ok
        assert played.go_on("b").text == "hello"


class TestLimits:
    def test_max_turns_is_requests(self, play):
        played = play([turn(use("look", name="x"))] * 3, tools=[look], max_turns=2)
        assert played.end.requests == 2
        assert played.end.stop_reason == "max_turns"
        assert played.end.error["code"] == "MAX_TURNS_REACHED"
        assert len(played.results()) == 2

    def test_a_budget_stops_before_it_is_passed(self, play):
        def expensive(body):
            return turn(use("look", name="x"), usage={"output_tokens": min(2000, body["max_tokens"])})

        played = play(expensive, tools=[look], budget_usd=0.2)
        assert played.end.error["code"] == "BUDGET_EXCEEDED"
        assert 0 < played.end.cost_usd <= 0.2

    def test_a_budget_bounds_the_answer(self, play):
        played = play([say("short")], budget_usd=0.1)
        assert played.bodies[0]["max_tokens"] < 5_000

    def test_a_budget_too_small_sends_nothing(self, play):
        played = play([say("x")], budget_usd=0.0001)
        assert played.bodies == []
        assert played.end.error["code"] == "BUDGET_EXCEEDED"
        next_request = played.end.error["details"]["next_request_usd"]
        # the prompt, written to the cache at worst, and the shortest answer worth asking for
        assert 0.005 < next_request < 0.05
        assert "$0.0001" in played.end.error["message"]
        assert f"{dollars(next_request)}; $0.00" in played.end.error["message"]


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs a limit on the size of files")
def test_a_disk_that_fills_up_under_a_call_leaves_a_session_that_goes_on(scene):
    import resource  # not on Windows

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    @tool
    async def fill(name: str) -> str:
        """Fill the disk."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (played.session.path.stat().st_size, hard))
        return name

    played = scene([turn(use("fill", name="x")), say("on")], tools=[fill])
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        assert played.go_on("a").error["code"] == "FILE_ACCESS_ERROR"
        assert played.go_on("still full").error["code"] == "FILE_ACCESS_ERROR"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert played.go_on("b").text == "on"
    assert played.server.rejected == []
    assert [result["is_error"] for result in played.results()] == [True]


def test_a_view_that_fails_does_not_stop_the_run(scene):
    played = scene([turn(use("look", name="x")), say("done")], tools=[look])
    seen = []

    def broken(event):
        seen.append(event)
        raise RuntimeError("a bug of a view")

    end = asyncio.run(run_agent(played.agent, "go", played.session, broken))
    assert end.ok
    assert isinstance(seen[-1], RunEnd)
    assert len(played.results()) == 1


@for_each_row(
    ("model", "wanted", "sent", "told"),
    [
        ("claude-opus-4-5", "max", "high", ["claude-opus-4-5 does not have the effort max; it thinks with high."]),
        ("claude-opus-4-5", "medium", "medium", []),
        (
            "claude-haiku-4-5",
            "low",
            None,
            ["claude-haiku-4-5 does not have the effort low; it thinks as it usually does."],
        ),
    ],
)
def test_an_effort_that_the_model_lacks_is_lowered_and_said_once(play, model, wanted, sent, told):
    played = play([say("one"), say("two")], model=model, effort=wanted)
    played.go_on("again")
    assert [body.get("output_config", {}).get("effort") for body in played.bodies] == [sent, sent]
    assert [event.message for event in played.of(Notice)] == told
