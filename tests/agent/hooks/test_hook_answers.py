"""Answers of hooks that nobody foresaw: none ends a run, and none allows what it does not say."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.agent.calls.tool_results import updated_content
from cellwright.agent.hooks.hook_answers import LONGEST_TEXT, merged, read_answer
from cellwright.agent.hooks.protocol import EVENTS, NO_HOOK_RESULT, HookResult
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
