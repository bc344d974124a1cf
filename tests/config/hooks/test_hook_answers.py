"""Every event with every odd form in which programs answer: a no is heard in each, and none gives what it does not say."""

from __future__ import annotations

import json

import pytest
from hook_scenes import command, fire, fire_command, group, hooks_of, saying

from cellwright.agent.hooks.hook_answers import GUARDED, REFUSABLE, read_answer
from cellwright.agent.hooks.protocol import EVENTS
from cellwright.config.hooks.command import PLAIN_CONTEXT, HookExit, read_end
from cellwright.config.hooks.entries import CommandHook
from row_tables import for_each_row

HOOK = CommandHook(identity="", source="settings.json", command="./guard")
JUDGED = ("PreToolUse", "PreModelSwitch")


def no_of(event):
    """An event's no as its documentation spells it."""
    if event in JUDGED:
        given = {"permissionDecision": "deny", "permissionDecisionReason": "WHY-NOT"}
        return {"hookSpecificOutput": {"hookEventName": event, **given}}
    if event == "PermissionRequest":
        decision = {"behavior": "deny", "message": "WHY-NOT"}
        return {"hookSpecificOutput": {"hookEventName": event, "decision": decision}}
    return {"decision": "block", "reason": "WHY-NOT"}


def yes_of(event):
    if event == "PreToolUse":
        given = {"permissionDecision": "allow", "updatedInput": {"command": "x"}, "additionalContext": "CONTEXT"}
        return {"hookSpecificOutput": {"hookEventName": event, **given}}
    if event == "PermissionRequest":
        return {"hookSpecificOutput": {"hookEventName": event, "decision": {"behavior": "allow"}}}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "CONTEXT"}}


def ended(event, output, *, code=0, errors="", cut=False):
    return read_end(HOOK, event, HookExit(code, output, errors, cut))


def refuses(said):
    return said.behavior == "deny" or said.block or said.stop is not None


READABLE = {
    "alone": "{}",
    "a profile's echo": "Shell ready\n{}",
    "text behind": "{}\nbye",
    "text in the same line": "answer: {} (end)",
    "a mark of byte order": "\ufeff{}",
    "CRLF": "hello\r\n{}\r\n",
    "colours": "\x1b[32m{}\x1b[0m",
    "a title": "\x1b]0;title\x07{}",
    "a fence": "```json\n{}\n```",
    "a list": "[{}]",
    "logs in braces": "{'level': 'info'}\n{{nothing}}\n{}",
    "an object of its own before": '{"level": "info"}\n{}',
    "an empty answer before": "{{}}\n{}".replace("{{}}", "{ }"),
    "after a stack trace": "Traceback (most recent call last):\n  File x\n{}",
}

BROKEN = {
    "cut": lambda no: no[:-2],
    "a trailing comma": lambda no: no[:-1] + ",}",
    "a repr": lambda no: no.replace('"', "'"),
    "no quotes": lambda no: no.replace('"', ""),
    "a comment": lambda no: "{ // no\n" + no[1:],
    "after text": lambda no: "Shell ready\n" + no[:-1],
    "colours within": lambda no: "\x1b[1m" + no[:-1] + "\x1b[0m",
    "escaped once more": lambda no: json.dumps(no),
    "twice with two values": lambda no: no[:-1] + ', "decision": "approve", "decision": "block"}',
    "a word": lambda no: "deny",
    "a word in quotes": lambda no: '"Blocked."\n',
}


@for_each_row("event", EVENTS)
@for_each_row("form", READABLE)
@for_each_row("code", [0, 1])
def test_an_answer_is_found_between_other_text(event, form, code):
    no, yes = json.dumps(no_of(event)), json.dumps(yes_of(event))
    said = ended(event, READABLE[form].replace("{}", no), code=code, errors="oops")
    assert refuses(said) is (event in REFUSABLE)
    if event in REFUSABLE:
        assert said.reason == "WHY-NOT"
    given = ended(event, READABLE[form].replace("{}", yes), code=code, errors="oops")
    assert not refuses(given)
    if event in ("PreToolUse", "SessionStart"):
        assert "CONTEXT" in given.context


@for_each_row("event", EVENTS)
@for_each_row("form", BROKEN)
@for_each_row("code", [0, 1])
def test_a_no_that_cannot_be_read_is_a_no_of_a_guard_and_the_user_sees_it(event, form, code):
    said = ended(event, BROKEN[form](json.dumps(no_of(event))), code=code)
    assert refuses(said) is (event in GUARDED)
    if event in GUARDED:
        assert said.problems
        assert "./guard" in said.problems[0]
        assert "./guard" in said.reason


@for_each_row("event", EVENTS)
@for_each_row("output", ["all is well", "checked 3 files {a, b}", "x" * 50_000, "\0\0", "[1, 2]", "7"])
def test_plain_text_decides_nothing_and_a_guard_that_prints_it_is_named(event, output):
    said = ended(event, output, cut=len(output) > 1_000)
    assert not refuses(said)
    assert said.behavior == ""
    if event in PLAIN_CONTEXT:
        assert len(said.context) == 1
    else:
        assert bool(said.problems) is (event in GUARDED)


@for_each_row("event", EVENTS)
@for_each_row("output", ["{ [Error: ENOENT]\n  code: 'ENOENT' }", "Checking\n{'files': 3}", ""])
@for_each_row("code", [1, 127, -9])
def test_a_crash_is_a_failure_and_no_no(event, output, code):
    said = ended(event, output, code=code, errors="oops")
    assert not refuses(said)
    assert "oops" in said.problems[0]


@for_each_row("event", EVENTS)
@for_each_row("output", ["", "\n", "{}", "null", "[]", "true"])
def test_nothing_said_is_nothing(event, output):
    said = ended(event, output)
    assert (said.behavior, said.block, said.stop, said.problems) == ("", False, None, ())


@for_each_row("event", ["UserPromptSubmit", "SessionStart", "UserPromptExpansion"])
@for_each_row(
    "text",
    ['def f(): return {"a": 1}', '$ cat package.json\n{\n "name": "x"\n}', "diff\n{ -1 }", "{}", "match x { _ => {} }"],
)
def test_context_with_braces_stays_context(event, text):
    said = ended(event, text)
    assert not refuses(said)
    assert said.context == (() if text == "{}" else (text,))


VALUES = [
    "Deny",
    "BLOCK",
    "blocked",
    "reject",
    "no",
    "false",
    True,
    False,
    0,
    7,
    ["deny"],
    "perhaps",
    "denied by policy",
]


@for_each_row("event", sorted(GUARDED))
@for_each_row("value", VALUES)
@for_each_row("place", ["decision", "permissionDecision", "specific", "behavior", "Decision", "permission_decision"])
def test_an_unknown_decision_at_any_place_is_a_no(event, value, place):
    answer = {place: value, "reason": "WHY-NOT"}
    if place == "specific":
        answer = {"hookSpecificOutput": {"hookEventName": event, "permissionDecision": value}}
    if place == "behavior":
        answer = {"hookSpecificOutput": {"hookEventName": event, "decision": {"behavior": value}}}
    said = read_answer(event, answer, "The hook")
    assert refuses(said)
    assert said.problems


OTHER_WORDS = [
    *({"ok": False}, {"allow": False}, {"approved": False}, {"block": True}, {"denied": True}, {"Continue": False}),
    *({"hookSpecificOutput": "deny"}, {"hookSpecificOutput": []}, {"hook_specific_output": {"behavior": "deny"}}),
    *({"continue": "false"}, {"continue": 0}, {"continue": "stop"}),
    {"hookSpecificOutput": {"hookEventName": "Other", "permissionDecision": "deny"}},
    {"hookSpecificOutput": {"hookEventName": "Other", "decision": {"behavior": "deny"}}},
]


@for_each_row("event", sorted(GUARDED))
@for_each_row("answer", OTHER_WORDS, ids=[json.dumps(each) for each in OTHER_WORDS])
def test_a_no_in_other_words_is_a_no(event, answer):
    said = read_answer(event, answer, "The hook")
    assert refuses(said)
    assert said.problems


@for_each_row("event", sorted(GUARDED))
@for_each_row("no", ["block", "deny", "Deny", False])
def test_of_two_contradicting_decisions_the_no_counts(event, no):
    yes = yes_of(event)
    given = {"permissionDecision": "allow", "decision": {"behavior": "allow"}} | yes["hookSpecificOutput"]
    assert refuses(read_answer(event, {"decision": no, "hookSpecificOutput": given}, "The hook"))
    one, other = json.dumps({"decision": no}), json.dumps(yes)
    assert refuses(ended(event, f"{one}\n{other}"))
    assert refuses(ended(event, f"{other}\n{one}"))


@for_each_row("event", sorted(GUARDED))
@for_each_row("value", ["allow", "approve", "Allow", " ok ", "yes", None])
def test_a_yes_in_other_words_is_no_no_and_no_yes(event, value):
    said = read_answer(event, {"decision": value}, "The hook")
    assert not refuses(said)
    assert said.behavior in (("allow", "ask", "") if event in JUDGED else ("",))
    assert said.behavior != "allow" or value in ("allow", "approve")


@for_each_row("event", sorted(GUARDED - PLAIN_CONTEXT))
def test_an_answer_on_stderr_only_refuses(event):
    assert refuses(ended(event, "", errors=f"log\n{json.dumps(no_of(event))}"))
    said = ended(event, "", errors=json.dumps(yes_of(event)))
    assert (said.behavior, said.updated_input, said.context) == ("", None, ())


def test_a_real_program_in_utf_16_is_heard(tmp_path):
    text = json.dumps({"decision": "block", "reason": "WHY-NOT"})
    said = fire_command(tmp_path, "PreToolUse", f"{saying(text)[:7]}{json.dumps(text)} | iconv -t UTF-16")
    assert said.behavior == "deny"


@pytest.mark.parametrize("event", ["Stop", "SubagentStop"])
def test_an_answer_that_cannot_be_read_keeps_a_run_from_ending_once(tmp_path, event):
    hooks = hooks_of(tmp_path, {event: [group(command("echo '{broken'"))]})
    assert fire(hooks, tmp_path, event, stop_hook_active=False).block
    assert not fire(hooks, tmp_path, event, stop_hook_active=True).block
