"""A conversation that fills the window goes on: summed up in time, with what must survive, and never in circles."""

import json
import os

import pytest
from msgspec.structs import replace
from tests.agent.plain_tools import look

import cellwright
from cellwright.agent.agent_setup import CompactionSettings
from cellwright.agent.context_usage import context_tokens
from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.agent.spending import Budget, SharedBudgets
from cellwright.events import ContextCompacted, Notice, TurnEnd
from cellwright.model.anthropic import AnthropicProvider, connect
from cellwright.model.credentials import choose_transport
from cellwright.sessions.api_messages import begins_turn
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages
from cellwright.testing import fault, say, think, turn, use
from row_tables import for_each_row

ASKED = "Everything above will be replaced by a summary"
SUMMARY = "<summary>The tide gauge of Brest is 42 years old.</summary>"
SMALL = CompactionSettings(window=10_000)

OWN = replace(SMALL, own_api=True)

STEPS = 70
WINDOW = CompactionSettings(window=100_000)


@cellwright.tool(read_only=True)
def dig(words: int = 1_000) -> str:
    """So many words."""
    return "mud and sand, " * (words // 3)


def last_text(body):
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(str(block.get("text", "")) for block in content)


def digging(steps, words=900, summary=SUMMARY):
    """A model that digs so many times, and sums up when it is asked to."""
    left = iter(range(steps))

    def answer(body):
        if ASKED in last_text(body):
            return say(summary)
        return turn(think("Deeper."), use("dig", words=words)) if next(left, None) is not None else say("done")

    return answer


def sizes(played):
    return [
        end.usage["input_tokens"] + end.usage["cache_read_input_tokens"] + end.usage["cache_creation_input_tokens"]
        for end in played.of(TurnEnd)
    ]


@pytest.mark.parametrize(
    ("model", "window", "tokens"),
    [("qwen3-coder", 8_192, 2_048), ("qwen3-coder", None, 16_000), ("claude-opus-5-5", 8_192, 16_000)],
)
def test_a_summary_leaves_room_in_a_small_window(model, window, tokens):
    assert CompactionSettings(window=window).summary_tokens(model) == tokens


def test_a_turn_goes_on_behind_its_summary(play):
    played = play(digging(20), "Dig at Brest.", tools=[dig], compaction=SMALL)
    assert played.end.ok, played.end.error
    assert played.server.rejected == []
    done = [event for event in played.of(ContextCompacted) if event.state == "done"]
    assert len(done) >= 2
    assert all(event.tokens_after < event.tokens_before and event.cost_usd > 0 for event in done)
    assert max(sizes(played)) < 10_000
    first = next(body for body in played.bodies if "42 years old" in json.dumps(body["messages"][0]))
    told = json.dumps(first["messages"])
    assert "Dig at Brest." in told
    assert "mud and sand" in told, "the last result is told again"
    assert [message["role"] for message in first["messages"]] == ["user", "user"]


def test_what_was_said_stays_in_the_transcript_and_comes_back_with_a_resume(play):
    played = play(digging(20), tools=[dig], compaction=SMALL)
    session = played.session
    sent, story = list(session.encoded), list(session.story)
    session.close()
    resumed = Session.load(session.path)
    assert resumed.encoded == sent, "byte for byte: the cache holds"
    assert resumed.story == story
    assert len(sent) < len(story)
    said = read_messages(session.path)
    assert sum(map(begins_turn, said)) == 1
    assert sum(block["type"] == "tool_result" for m in said if m["role"] == "user" for block in m["content"]) == 20
    assert not any("42 years old" in json.dumps(message) for message in said)
    fork = resumed.fork()
    assert (fork.encoded, fork.story) == (sent, story)
    resumed.return_to(session.story_lines()[2].meta["seq"])
    assert resumed.encoded == story[:3], "before the boundary the conversation is whole"


def test_a_prompt_that_would_not_fit_follows_the_summary_word_for_word(scene):
    played = scene(digging(1, words=24_000), tools=[dig], compaction=CompactionSettings(window=40_000))
    played.go_on("Dig.")
    assert context_tokens(played.session) < 32_000
    prompt = "And what of this? " * 2_000
    played.go_on(prompt)
    assert played.end.ok
    last = played.bodies[-1]["messages"]
    assert prompt in json.dumps(last[-1])
    assert "42 years old" in json.dumps(last[0])
    assert sum(map(begins_turn, played.session.said())) == 2


@pytest.mark.parametrize("where", ["prompt", "results"])
def test_a_conversation_that_the_api_calls_too_long_goes_on_in_the_same_turn(scene, where):
    refused = fault(
        "status", status=400, error_type="invalid_request_error", message="prompt is too long: 9 tokens > 8 maximum"
    )
    steps = [use("dig"), say("first")] + ([use("dig"), refused] if where == "results" else [refused])
    played = scene([*steps, turn(say(SUMMARY), when=ASKED), say("done")], tools=[dig])
    played.go_on("Dig.")
    played.go_on("Dig again, literally.")
    assert played.end.ok, played.end.error
    assert played.end.text == "done"
    told = json.dumps(played.bodies[-1]["messages"])
    assert "42 years old" in told
    assert "Dig again, literally." in told
    assert sum(map(begins_turn, played.session.said())) == 2


def test_compactions_that_follow_one_another_end_the_run(play):
    played = play(digging(50, words=9_000), tools=[dig], compaction=CompactionSettings(window=12_000))
    assert played.end.error["code"] == "CONTEXT_TOO_LONG"
    assert "circles" in played.end.error["message"] or "summarise it again" in played.end.error["message"]
    assert len(played.bodies) < 15


def test_a_summary_that_is_as_long_as_what_it_sums_up_ends_the_run(play):
    played = play(digging(30, summary="<summary>" + "all of it " * 4_000 + "</summary>"), tools=[dig], compaction=SMALL)
    assert played.end.error["code"] == "CONTEXT_TOO_LONG"
    assert len([event for event in played.of(ContextCompacted) if event.state == "done"]) == 1


def test_hooks_are_told_and_may_say_no(play):
    heard = []

    async def hear(given, _id, _context):
        heard.append((given["hook_event_name"], given.get("trigger") or given.get("source")))
        if given["hook_event_name"] == "SessionStart" and given["source"] == "compact":
            return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "Tide is out."}}
        return {}

    async def refuse(_given, _id, _context):
        return {"decision": "block", "reason": "I want it all."}

    events = ("PreCompact", "PostCompact", "SessionStart")
    played = play(
        digging(9), tools=[dig], compaction=SMALL, hooks={event: [HookMatcher(None, [hear])] for event in events}
    )
    assert heard[1:4] == [("PreCompact", "auto"), ("PostCompact", "auto"), ("SessionStart", "compact")] or heard[
        1:4
    ] == [
        ("PreCompact", "auto"),
        ("SessionStart", "compact"),
        ("PostCompact", "auto"),
    ]
    assert "Tide is out." in json.dumps(played.bodies[-1]["messages"])

    only_auto = {"PreCompact": [HookMatcher("manual", [hear]), HookMatcher("auto", [refuse])]}
    refused = play(digging(9), tools=[dig], compaction=SMALL, hooks=only_auto)
    assert refused.end.ok
    assert not refused.of(ContextCompacted)
    assert [n.message for n in refused.of(Notice) if "I want it all." in n.message]


def test_what_a_summary_costs_counts_in_the_budget(play):
    played = play(digging(20), tools=[dig], compaction=SMALL)
    total = sum(end.cost_usd for end in played.of(TurnEnd))
    summaries = sum(event.cost_usd for event in played.of(ContextCompacted) if event.state == "done")
    assert played.end.cost_usd == pytest.approx(total + summaries)
    assert played.session.cost_usd == pytest.approx(total + summaries)
    poor = play(digging(50), tools=[dig], compaction=SMALL, budget_usd=0.12)
    assert poor.end.stop_reason in ("budget", "error")
    assert poor.end.error["code"] == "BUDGET_EXCEEDED"
    assert poor.end.cost_usd <= 0.12


def test_without_it_the_user_is_told_how_full_it_is(play):
    off = CompactionSettings(automatic=False)
    filled = turn(use("look", name="a"), usage={"input_tokens": 850_000})
    played = play([filled, say("done")], tools=[look], compaction=off)
    assert [n.message for n in played.of(Notice) if "takes 850," in n.message]


def test_an_answer_that_meets_the_windows_end_is_gone_on_with(scene):
    full = turn(say("The tide is"), use("dig"), stop_reason="model_context_window_exceeded")
    played = scene([full, turn(say(SUMMARY), when=ASKED), say("at three.")], tools=[dig])
    again = played.go_on("When is tide?")
    assert again.text == "at three."
    told = json.dumps(played.bodies[-1]["messages"])
    assert "When is tide?" in told
    assert "The tide is" in told
    assert played.server.rejected == []


def test_where_the_model_cannot_sum_up_the_next_one_does(play):
    deeper = digging(20)

    def answer(body):
        overloaded = ASKED in last_text(body) and body["model"] == "claude-opus-5-5"
        return fault("status", status=404, error_type="not_found_error") if overloaded else deeper(body)

    played = play(answer, tools=[dig], compaction=SMALL, fallback_models=("claude-sonnet-5-5",))
    assert played.end.ok, played.end.error
    assert played.server.rejected == []
    done = [event for event in played.of(ContextCompacted) if event.state == "done"]
    assert done
    assert all(event.cost_usd for event in done)
    told = [event.message for event in played.of(Notice)]
    assert [notice for notice in told if "claude-sonnet-5-5" in notice] == told
    assert len(told) == 1, "once for the rest of the run"
    assert {body["model"] for body in played.bodies[-3:]} == {"claude-sonnet-5-5"}


def test_a_summary_is_asked_for_as_the_runs_own_answers_are(play):
    """Other thinking, or other edits, would have the whole conversation read anew, and pay for it."""
    played = play(
        digging(20),
        tools=[dig],
        model="claude-haiku-4-5",
        compaction=replace(SMALL, clear_tool_results=True),
        thinking_budget=20_000,
        max_tokens=30_000,
    )
    assert played.end.ok, played.end.error
    asked = [body for body in played.bodies if ASKED in last_text(body)]
    assert asked
    for body in played.bodies:
        assert body["thinking"] == {"type": "enabled", "budget_tokens": 20_000}
    assert {body["max_tokens"] for body in asked} == {36_000}, "room for the summary besides the thinking"


TOO_LONG = fault(
    "status", status=400, error_type="invalid_request_error", message="prompt is too long: 9 tokens > 8 maximum"
)
INVALID = fault("status", status=400, error_type="invalid_request_error", message="messages.0: a picture is gone")
REFUSED = turn(say("I would rather not."), stop_reason="refusal")


def not_summing_up(steps, answer, shortened=SUMMARY):
    """A model that digs, and answers so when it is asked for a summary of the conversation as it is."""
    deeper = digging(steps)

    def answers(body):
        if ASKED not in last_text(body):
            return deeper(body)
        if "<conversation>" not in last_text(body):
            return answer
        return say(shortened) if isinstance(shortened, str) else shortened

    return answers


@for_each_row("answer", [TOO_LONG, INVALID, REFUSED, say("<summary></summary>")])
def test_what_cannot_be_summed_up_as_it_is_is_shortened_first(play, answer):
    played = play(not_summing_up(14, answer), "Dig at Brest.", tools=[dig], compaction=SMALL)
    assert played.end.ok, played.end.error
    assert played.server.rejected == []
    asked = next(body for body in played.bodies if "<conversation>" in last_text(body))
    assert "Dig at Brest." in last_text(asked)
    assert "mud and sand" in last_text(asked)
    assert not asked.get("tools")
    assert len(json.dumps(asked)) < 40_000
    assert [notice for notice in played.of(Notice) if "left out first" in notice.message]
    assert [event.state for event in played.of(ContextCompacted)][:2] == ["started", "done"]
    assert "42 years old" in json.dumps(played.bodies[-1]["messages"][0])


def test_without_any_summary_the_session_goes_on_as_it_is(scene):
    played = scene(not_summing_up(9, INVALID, INVALID), tools=[dig], compaction=SMALL)
    assert played.go_on("Dig.").ok, played.end.error
    [notice] = [notice.message for notice in played.of(Notice) if "was not summarised" in notice.message]
    assert "a picture is gone" in notice
    assert [event.state for event in played.of(ContextCompacted)] == ["started", "failed"]
    before = len(played.session.encoded)
    again = played.go_on("And what is it?")
    assert again.text == "done"
    assert len(played.session.encoded) == before + 2
    assert played.server.rejected == []


def test_the_words_of_an_error_are_clear_where_nothing_can_be_sent(scene):
    refused = not_summing_up(0, TOO_LONG, TOO_LONG)
    left = iter([say("first"), TOO_LONG])
    played = scene(lambda body: refused(body) if ASKED in last_text(body) else next(left), tools=[dig])
    played.go_on("Dig.")
    kept = list(played.session.encoded)
    end = played.go_on("Dig again.")
    assert end.error["code"] == "CONTEXT_TOO_LONG"
    assert played.session.encoded[: len(kept)] == kept
    assert played.server.rejected == []


def test_a_budget_that_pays_for_half_a_summary_pays_for_none(scene):
    played = scene(digging(9), tools=[dig], compaction=CompactionSettings(automatic=False))
    played.go_on("Dig.")
    kept = list(played.session.encoded)
    tight = Budget(played.session.cost_usd + 0.09, "session")
    again = scene(
        digging(0),
        tools=[dig],
        session=played.session,
        compaction=SMALL,
        shared_budgets=SharedBudgets(session=tight),
    )
    again.go_on("Dig again.")
    assert again.end.error["code"] == "BUDGET_EXCEEDED", again.end
    assert "The session's budget" in again.end.error["message"]
    assert again.bodies == []
    assert again.session.encoded == kept


def digging_and_compacting(steps):
    left = iter(range(steps))

    def answer(body):
        if body.get("compaction"):
            return say("Brest: 42 years old.")
        return turn(think("Deeper."), use("dig", words=900)) if next(left, None) is not None else say("done")

    return answer


@pytest.fixture
def own_scene(scene):
    """A scene whose server is taken for Anthropic's own address."""

    def make(script, **options):
        played = scene(script, tools=[dig], **options)
        environ = {**os.environ, "ANTHROPIC_BASE_URL": played.server.url, "ANTHROPIC_API_KEY": played.server.api_key}
        object.__setattr__(played.agent, "provider", AnthropicProvider(choose_transport(environ), own_compaction=True))
        return played

    return make


def test_a_turn_goes_on_behind_the_apis_own_summary(own_scene):
    played = own_scene(digging_and_compacting(20), compaction=OWN)
    played.go_on("Dig at Brest.")
    assert played.end.ok, played.end.error
    assert played.server.rejected == []
    done = [event for event in played.of(ContextCompacted) if event.state == "done"]
    assert len(done) >= 2
    assert done[0].summary == "Brest: 42 years old."
    assert 0 < done[0].cost_usd < 0.1
    last = played.bodies[-1]
    assert last["messages"][0]["role"] == "assistant"
    [block] = last["messages"][0]["content"]
    assert (block["type"], bool(block["signature"])) == ("compaction", True)
    assert "compact-2026-09-04" in played.server.requests[-1].headers["anthropic-beta"]


def test_the_cache_is_read_by_the_request_for_a_summary(own_scene):
    played = own_scene(digging_and_compacting(20), compaction=OWN)
    played.go_on("Dig at Brest.")
    line = next(line for line in played.session.story_lines() if "compacted" in line.meta)
    usage = line.meta["not_kept"]["usage"]
    assert usage["cache_read_input_tokens"] > 5 * (usage["cache_creation_input_tokens"] + usage["input_tokens"])


def test_a_session_with_such_a_block_goes_on_where_the_api_does_not_know_it(own_scene):
    played = own_scene(digging_and_compacting(9), compaction=OWN)
    played.go_on("Dig.")
    assert played.session.encoded[0].startswith(b'{"role":"assistant"')
    sent = list(played.session.encoded)
    played.session.close()
    session = Session.load(played.session.path)
    assert session.encoded == sent
    assert not session.notices
    environ = {**os.environ, "ANTHROPIC_BASE_URL": played.server.url, "ANTHROPIC_API_KEY": played.server.api_key}
    object.__setattr__(played.agent, "provider", connect(environ))
    played.session = session
    played.server.add(say("done"))
    assert played.go_on("And now?").ok
    first = played.bodies[-1]["messages"][0]
    assert first["role"] == "user"
    assert "42 years old" in json.dumps(first)
    # what was thought behind the block is bound to it, so it is left out, as always where the API says so
    assert len(played.server.rejected) == 1


def test_a_block_of_another_account_is_sent_as_text(own_scene):
    played = own_scene(digging_and_compacting(9), compaction=OWN)
    played.go_on("Dig.")
    said = json.loads(played.session.encoded[0])
    said["content"][0]["signature"] = "of another account"
    copy = Session.create(played.session.cwd, None)
    copy.begin(
        model="claude-opus-5-5", system=json.loads(played.session.system), tools=json.loads(played.session.tools)
    )
    copy.append(said)
    copy.append(json.loads(played.session.encoded[1]))
    played.session = copy
    assert played.go_on("And now?").ok
    assert [request.error.split(":")[0] for request in played.server.rejected] == ["messages.0.content.0.compaction"]
    assert "42 years old" in json.dumps(played.bodies[-1]["messages"][0])


def test_a_model_that_has_none_is_asked_with_our_own_words(own_scene):
    left = iter(range(20))

    def answer(body):
        assert not body.get("compaction")
        if "Everything above will be replaced by a summary" in json.dumps(body["messages"][-1]):
            return say("<summary>The gauge.</summary>")
        return use("dig", words=900) if next(left, None) is not None else say("done")

    played = own_scene(answer, compaction=replace(OWN, window=10_000), model="claude-haiku-5-5")
    played.go_on("Dig.")
    assert played.end.ok, played.end.error
    assert next(event.summary for event in played.of(ContextCompacted) if event.state == "done") == "The gauge."


@pytest.fixture
def played(scene):
    """`played(clear)`: a long turn of results of 1,000 tokens, with context editing or without."""

    def play(*, clear):
        steps = [turn(think("Deeper."), use("dig", words=900))] * STEPS
        made = scene([*steps, say("done")], tools=[dig], compaction=replace(WINDOW, clear_tool_results=clear))
        environ = {**os.environ, "ANTHROPIC_BASE_URL": made.server.url, "ANTHROPIC_API_KEY": made.server.api_key}
        object.__setattr__(made.agent, "provider", AnthropicProvider(choose_transport(environ), own_compaction=True))
        made.go_on("Dig.")
        assert made.end.ok, made.end.error
        assert made.server.rejected == []
        return made

    return play


def largest(played):
    return max(end.context_tokens for end in played.of(TurnEnd))


def test_old_results_are_left_out_and_the_history_stays(played):
    cleared = played(clear=True)
    edit = cleared.bodies[-1]["context_management"]["edits"][0]
    assert edit["trigger"] == {"type": "input_tokens", "value": 40_000}
    assert "context-management-2025-06-27" in cleared.server.requests[-1].headers["anthropic-beta"]
    assert largest(cleared) < 41_000 < 70_000 < largest(played(clear=False))
    assert len(cleared.bodies[-1]["messages"]) == 2 * STEPS + 1


def test_with_a_cache_it_costs_more_than_it_saves(played):
    """The reason for which it is off: docs/decisions/compaction.md."""
    with_it, without = played(clear=True).end.cost_usd, played(clear=False).end.cost_usd
    print(f"with it ${with_it:.3f}, without ${without:.3f}")
    assert with_it > 1.2 * without
