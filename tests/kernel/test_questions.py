"""Questions reach the user on one way or another, and are answered once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from cellwright.agent.agent_thread import CallerJobs
from cellwright.agent.approval import Allow, Decision, Deny, ToolUse
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Preview, Suggestion
from cellwright.kernel.choices import choices
from cellwright.kernel.comm import Answer
from cellwright.kernel.questions import Questions, question_text

SUGGESTIONS = (
    Suggestion(("Bash(make *)",), "session", "all make commands, this session"),
    Suggestion(("Bash(make test)",), "always", "Always allow"),
)
USE = ToolUse(
    "toolu_1",
    "Bash",
    {"command": "make test"},
    Decision("ask", "Bash asks.", suggestions=SUGGESTIONS),
    Preview("Run make test", "make test\u202e\x1b[1A", "command", warning="writes files"),
    "q1",
)


def questions(*, widget: bool, allows_input: bool = False, saved: list[str] | None = None) -> Questions:
    return Questions(CallerJobs(), allows_input, widget, [].append if saved is None else saved.append)


def answer(behavior: Any, scope: Any = "once", reason: str = "", edited: Any = None, question: str = "q1") -> Answer:
    return Answer(question, behavior, scope, reason, edited)


async def asked(given: Questions, *answers: Answer) -> Allow | Deny:
    given.ready.set()
    asking = asyncio.ensure_future(given.can_use_tool(USE))
    await asyncio.sleep(0)  # the question is open after the first step
    for one in answers:
        given.take(one)
    return await asking


def run(scene: Coroutine[Any, Any, Allow | Deny]) -> Allow | Deny:
    return asyncio.run(scene)


@pytest.mark.parametrize(
    ("given", "means"),
    [
        (answer("allow"), Allow(by="widget")),
        (answer("allow", "session"), Allow(scope="session", rules=("Bash(make *)",), by="widget")),
        (answer("allow", "once", "", {"command": "make"}), Allow({"command": "make"}, by="widget")),
        (answer("allow", "session", "", {"command": "make"}), Allow({"command": "make"}, by="widget")),
        (answer("deny", reason="not now"), Deny("not now", "widget")),
        (answer("deny", "always"), Deny("", "widget")),
    ],
)
def test_an_answer_of_the_widget(given: Answer, means: Allow | Deny):
    assert run(asked(questions(widget=True), given)) == means


def test_the_first_answer_wins_and_others_are_none():
    given = questions(widget=True)
    answers = (answer("allow", question="another"), answer("deny", reason="first"), answer("allow"))
    assert run(asked(given, *answers)) == Deny("first", "widget")
    given.take(answer("allow"))


def test_always_keeps_the_rule():
    saved: list[tuple[str, ...]] = []
    allowed = run(asked(questions(widget=True, saved=saved), answer("allow", "always")))
    assert allowed == Allow(scope="always", rules=("Bash(make test)",), by="widget")
    assert saved == [("Bash(make test)",)]


def test_a_rule_that_cannot_be_kept_holds_for_the_session_and_the_user_is_told():
    def save(rules: Sequence[str]) -> None:
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{rules[0]} is not saved")

    told: list[str] = []
    given = Questions(CallerJobs(), False, True, save, told.append)
    allowed = run(asked(given, answer("allow", "always")))
    assert allowed == Allow(scope="session", rules=("Bash(make test)",), by="widget")
    assert told == ["Bash(make test) is not saved"]


def test_where_no_rule_can_say_it_only_once_is_offered():
    assert [choice["key"] for choice in choices(())] == ["1", "4"]
    assert [choice["key"] for choice in choices(SUGGESTIONS[:1])] == ["1", "2", "4"]


def test_with_nobody_to_ask_the_answer_is_no_with_the_rule_that_would_allow_it():
    denied = run(questions(widget=False).can_use_tool(USE))
    assert isinstance(denied, Deny)
    assert denied.by == "policy"
    assert "Bash(make test)" in denied.reason


def test_a_widget_that_never_gets_ready_is_not_waited_for():
    denied = run(questions(widget=True).can_use_tool(USE))
    assert isinstance(denied, Deny)
    assert denied.by == "policy"


def test_the_question_shows_everything_and_hides_nothing():
    text = question_text(USE, choices(SUGGESTIONS))
    for part in (
        "Run make test",
        "writes files",
        "Bash asks.",
        "make test⟨U+202E⟩⟨U+001B⟩[1A",
        "Bash(make *)",
        "4  Deny",
    ):
        assert part in text
    assert "\x1b" not in text
    assert "\u202e" not in text


TYPED = """
import json, sys
from cellwright.kernel.questions import ask_by_input
from cellwright.agent.approval import Allow, Decision, Deny, ToolUse
from cellwright.events import Preview, Suggestion
rules = (Suggestion(("Bash(make *)",), "session", "session"),) if sys.argv[1] == "rules" else ()
use = ToolUse("t", "Bash", {}, Decision("ask", "why", suggestions=rules), Preview("Run", "make"), "q")
answer = ask_by_input(use)
print(json.dumps([type(answer).__name__, getattr(answer, "scope", ""), getattr(answer, "reason", "")]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("rules", "typed", "means"),
    [
        ("rules", "1\n", ["Allow", "once", ""]),
        ("rules", "maybe\n\n5\n y \n", ["Allow", "once", ""]),
        ("rules", "2\n", ["Allow", "session", ""]),
        ("no", "2\n3\nn\n", ["Deny", "", ""]),
        ("rules", "4 keep the old name\n", ["Deny", "", "keep the old name"]),
        ("rules", "No, not now\n", ["Deny", "", "not now"]),
        ("rules", "", ["Deny", "", "there was no answer"]),
    ],
)
def test_typed_answers_are_taken_and_anything_else_asks_again(rules: str, typed: str, means: list[str]):
    done = subprocess.run(
        [sys.executable, "-c", TYPED, rules], input=typed, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stderr) == means
    assert done.stdout.count("Run? [") == max(1, typed.count("\n"))
