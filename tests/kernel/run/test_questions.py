"""Questions reach the user on one way or another, and are answered once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Decision, Deny, ToolUse
from cellwright.agent.thread import AgentThread, CallerJobs
from cellwright.conversation.user_answers import choices
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Preview, Suggestion
from cellwright.kernel.output.protocol import AnswerMessage
from cellwright.kernel.run.interrupts import EndableWait, Interrupts
from cellwright.kernel.run.questions import OpenQuestions, Questions, SubmitAnswer, mirror_everywhere
from row_tables import for_each_row

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


def answer(
    behavior: Any, scope: Any = "once", reason: str = "", edited: Any = None, question: str = "q1"
) -> AnswerMessage:
    return AnswerMessage(question, behavior, scope, reason, edited)


async def asked(given: Questions, *answers: AnswerMessage) -> Allow | Deny:
    given.ready.set()
    asking = asyncio.ensure_future(given.can_use_tool(USE))
    await asyncio.sleep(0)  # the question is open after the first step
    for one in answers:
        given.take(one)
    return await asking


def run(scene: Coroutine[Any, Any, Allow | Deny]) -> Allow | Deny:
    return asyncio.run(scene)


@for_each_row(
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
def test_an_answer_of_the_widget(given: AnswerMessage, means: Allow | Deny):
    assert run(asked(questions(widget=True), given)) == means


def test_an_answer_in_another_place_counts_where_no_widget_came():
    @contextlib.asynccontextmanager
    async def at_the_cell(use: ToolUse, take: SubmitAnswer) -> AsyncIterator[None]:
        take(answer("allow", question=use.question_id), "widget")
        yield

    given = questions(widget=True)
    given.mirror, given.seconds_to_get_ready = at_the_cell, 0.01
    assert run(given.can_use_tool(USE)) == Allow(by="widget")


def test_where_nothing_can_ask_a_panel_that_looks_on_is_waited_for():
    panels, given = OpenQuestions(), questions(widget=False)
    given.mirror, given.is_watched = panels.mirror, lambda: True

    async def scene() -> Allow | Deny:
        asking = asyncio.ensure_future(given.can_use_tool(USE))
        while not panels.ids:
            await asyncio.sleep(0)
        assert panels.ids == [USE.question_id]
        assert not panels.take(answer("allow", question="another"), "sidebar")
        assert panels.take(answer("deny", reason="no", question=USE.question_id), "sidebar")
        panels.take(answer("allow", question=USE.question_id), "sidebar")  # too late
        return await asking

    assert run(scene()) == Deny("no", "sidebar")
    assert not panels.ids


def test_where_nothing_can_ask_and_nobody_looks_on_the_answer_is_no():
    given = questions(widget=False)
    given.mirror = OpenQuestions().mirror
    assert run(given.can_use_tool(USE)).by == "policy"


def test_an_answer_is_taken_in_each_of_several_places():
    first, second, given = OpenQuestions(), OpenQuestions(), questions(widget=True)
    given.mirror = mirror_everywhere(first.mirror, second.mirror)
    given.ready.set()

    async def scene() -> Allow | Deny:
        asking = asyncio.ensure_future(given.can_use_tool(USE))
        while not second.ids:
            await asyncio.sleep(0)
        assert first.ids
        second.take(answer("allow", question=USE.question_id), "sidebar")
        return await asking

    assert run(scene()) == Allow(by="sidebar")
    assert not first.ids


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

    given = Questions(CallerJobs(), False, True, save)
    allowed = run(asked(given, answer("allow", "always")))
    notice = "Bash(make test) is not saved. It holds for this session."
    assert allowed == Allow(scope="session", rules=("Bash(make test)",), by="widget", notice=notice)


def test_where_no_rule_can_say_it_only_once_is_offered():
    assert [choice["key"] for choice in choices("permission", ())] == ["1", "4"]
    assert [choice["key"] for choice in choices("permission", SUGGESTIONS[:1])] == ["1", "2", "4"]


def test_with_nobody_to_ask_the_answer_is_no_with_the_rule_that_would_allow_it():
    denied = run(questions(widget=False).can_use_tool(USE))
    assert isinstance(denied, Deny)
    assert denied.by == "policy"
    assert "Bash(make test)" in denied.reason


def test_a_widget_that_never_gets_ready_is_not_waited_for():
    denied = run(questions(widget=True).can_use_tool(USE))
    assert isinstance(denied, Deny)
    assert denied.by == "policy"


TYPED = """
import json, sys
from msgspec import to_builtins
from cellwright.kernel.run.questions import ask_by_input
from cellwright.agent.calls.approval import Allow, Decision, Deny, ToolUse
from cellwright.events import Preview, Suggestion
given = json.loads(sys.argv[1])
rules = tuple(Suggestion(tuple(rules), scope, label) for rules, scope, label in given["suggestions"])
preview = Preview(given["title"], given["detail"], warning=given["warning"])
use = ToolUse("t", given["name"], given["input"], Decision("ask", "why", suggestions=rules), preview, "q", given["kind"])
answer = ask_by_input(use)
print(json.dumps([type(answer).__name__, to_builtins(answer)]), file=sys.stderr)
"""


def typed(lines: str, **given: Any) -> tuple[str, dict[str, Any], str]:
    """What `lines` typed at `input()` mean for a question, as the answer's type and fields, and what was shown."""
    use = {"suggestions": [], "title": "Run", "detail": "make", "warning": "", "name": "Bash", "input": {}} | given
    argv = [sys.executable, "-c", TYPED, json.dumps({"kind": "permission"} | use)]
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=60, check=True)
    kind, fields = json.loads(done.stderr)
    return kind, fields, done.stdout


RULES = [[["Bash(make *)"], "session", "all make commands, this session"]]


@for_each_row(
    ("rules", "lines", "means"),
    [
        (RULES, "1\n", ["Allow", "once", ""]),
        (RULES, "maybe\n5\n y \n", ["Allow", "once", ""]),
        (RULES, "maybe\n\n", ["Deny", "", "the question was not answered"]),
        (RULES, "2\n", ["Allow", "session", ""]),
        ([], "2\n3\nn\n", ["Deny", "", ""]),
        (RULES, "4 keep the old name\n", ["Deny", "", "keep the old name"]),
        (RULES, "No, not now\n", ["Deny", "", "not now"]),
        (RULES, "", ["Deny", "", "the question was not answered"]),
    ],
)
def test_typed_answers_are_taken_and_anything_else_asks_again(rules: list[Any], lines: str, means: list[str]):
    kind, fields, shown = typed(lines, suggestions=rules)
    assert [kind, fields.get("scope", ""), fields.get("reason", "")] == means
    assert shown.count("Run? [") == max(1, lines.count("\n"))


def test_a_typed_question_shows_everything_and_hides_nothing():
    _, _, shown = typed(
        "4\n",
        suggestions=[*RULES, [["Bash(make test)", "Bash(ls *)"], "always", "always allow both"]],
        title="Run make test",
        detail="make test\u202e\x1b[1A",
        warning="writes files",
    )
    for part in (
        "Claude asks: Run make test",
        "Careful: writes files",
        "why",
        "make test⟨U+202E⟩⟨U+001B⟩[1A",
        "2  Allow all make commands, this session (rule Bash(make *))",
        "3  Always allow both (rules Bash(make test), Bash(ls *))",
        "4  Deny",
    ):
        assert part in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


STORE = {
    "question": "Where to keep it?",
    "header": "Storage",
    "options": [{"label": "Parquet", "description": "small"}, {"label": "CSV", "description": "opens anywhere"}],
}
PARTS = {
    "question": "Which columns?",
    "header": "Columns",
    "multiSelect": True,
    "options": [{"label": name, "description": "a column"} for name in ("time", "level", "gauge")],
}


@for_each_row(
    ("questions", "lines", "answers"),
    [
        ([STORE], "2\n", {"Where to keep it?": "CSV"}),
        ([STORE], " 2 \n", {"Where to keep it?": "CSV"}),
        ([STORE], "7\n", {"Where to keep it?": "7"}),
        ([STORE], "1 and 2\n", {"Where to keep it?": "1 and 2"}),
        ([STORE], "a database\n", {"Where to keep it?": "a database"}),
        ([STORE, PARTS], "1\n1, 3\n", {"Where to keep it?": "Parquet", "Which columns?": "time, gauge"}),
        ([STORE, PARTS], "\n3 1 1, and the station\n", {"Which columns?": "gauge, time, and the station"}),
        ([STORE, PARTS], "\n\n", {}),
    ],
)
def test_claudes_own_questions_are_answered_by_number_or_in_words(
    questions: list[Any], lines: str, answers: dict[str, str]
):
    kind, fields, shown = typed(
        lines, kind="question", name="AskUserQuestion", title="Where to keep it?", input={"questions": questions}
    )
    assert kind == "Allow"
    assert fields["updated_input"]["questions"] == questions
    assert fields["updated_input"]["answers"] == answers
    unanswered = {question["question"] for question in questions} - set(answers)
    assert fields["updated_input"]["annotations"] == {name: {"unanswered": "skipped"} for name in unanswered}
    assert "1  Parquet\n     small" in shown


def test_the_end_of_the_input_dismisses_a_question():
    kind, fields, _ = typed("", kind="question", title="Where?", input={"questions": [STORE]})
    assert kind == "Deny"
    assert "was dismissed" in fields["reason"]


PLAN = {
    "kind": "plan",
    "name": "ExitPlanMode",
    "title": "The plan",
    "detail": "1. Do it.",
    "input": {"plan": "1. Do it."},
}


@for_each_row(
    ("lines", "means"),
    [
        ("1\n", ("Allow", {"plan": "1. Do it.", "decision": "approve", "feedback": ""})),
        ("yes\n", ("Allow", {"plan": "1. Do it.", "decision": "approve", "feedback": ""})),
        ("2 but slowly\n", ("Allow", {"plan": "1. Do it.", "decision": "accept_edits", "feedback": "but slowly"})),
        ("what\n4 leave the tests alone\n", ("Deny", "leave the tests alone")),
        ("4\n", ("Deny", "continue planning")),
        ("", ("Deny", "the question was not answered")),
    ],
)
def test_a_plan_is_approved_or_sent_back(lines: str, means: tuple[str, Any]):
    kind, fields, shown = typed(lines, **PLAN)
    assert (kind, fields["updated_input"] if kind == "Allow" else fields["reason"]) == means
    assert "│ 1. Do it." in shown
    assert "2  Approve and accept" in shown


def question_of(kind: Any, tool_input: dict[str, Any]) -> ToolUse:
    return ToolUse("toolu_1", "Some", tool_input, Decision("ask", "why", firm=True), Preview("What?"), "q1", kind)


async def asked_about(use: ToolUse, one: AnswerMessage) -> Allow | Deny:
    given = questions(widget=True)
    given.ready.set()
    asking = asyncio.ensure_future(given.can_use_tool(use))
    await asyncio.sleep(0)  # the question is open after the first step
    given.take(one)
    return await asking


@pytest.mark.parametrize(
    ("use", "given", "means"),
    [
        (
            question_of("question", {"questions": [STORE]}),
            answer("allow", edited={"answers": {"Where to keep it?": "CSV"}, "questions": [], "scope": 3}),
            Allow({"questions": [STORE], "answers": {"Where to keep it?": "CSV"}}, by="widget"),
        ),
        (question_of("question", {"questions": [STORE]}), answer("deny"), Deny("the question was dismissed", "widget")),
        (
            question_of("plan", {"plan": "1."}),
            answer("allow", "session", edited={"decision": "approve", "plan": "2.", "mode": "bypassPermissions"}),
            Allow({"plan": "2.", "decision": "approve"}, by="widget"),
        ),
        (question_of("plan", {"plan": "1."}), answer("deny", reason="shorter"), Deny("shorter", "widget")),
    ],
)
def test_the_widgets_answer_to_a_question_or_a_plan_fills_the_fields_for_it_alone(
    use: ToolUse, given: AnswerMessage, means: Allow | Deny
):
    assert run(asked_about(use, given)) == means


def test_a_question_that_is_not_answered_in_time_lets_claude_go_on_and_a_plan_waits():
    async def scene(use: ToolUse, seconds: float) -> Allow | Deny | None:
        given = questions(widget=True)
        given.answer_seconds = 0.01
        given.ready.set()
        asking = asyncio.ensure_future(given.can_use_tool(use))
        done, _ = await asyncio.wait({asking}, timeout=seconds)
        asking.cancel()
        return asking.result() if done else None

    late = asyncio.run(scene(question_of("question", {"questions": [STORE]}), 60))
    assert isinstance(late, Allow)
    assert late.by == "policy"
    assert late.updated_input is not None
    assert late.updated_input["annotations"] == {"Where to keep it?": {"unanswered": "timed_out"}}
    assert asyncio.run(scene(question_of("plan", {"plan": "1."}), 0.2)) is None


def test_a_wait_that_is_ended_by_an_answer_elsewhere_is_no_interrupt_of_the_users():
    thread, interrupted = AgentThread(), threading.Semaphore(0)
    wait, begun = EndableWait(), threading.Event()

    def end() -> None:
        begun.wait(60)
        wait.end()

    ender = threading.Thread(target=end)
    try:
        with Interrupts(thread.loop, interrupted.release, seconds_for_clean_up=0) as interrupts:
            interrupts.watch()
            ender.start()
            with pytest.raises(KeyboardInterrupt), wait.entered():  # noqa: PT012  what is entered has to be ended there
                begun.set()
                while True:  # as `input()` in a kernel, which looks for its answer again and again
                    threading.Event().wait(0.01)
            with pytest.raises(KeyboardInterrupt), wait.entered():
                pytest.fail("it began again")
            signal.raise_signal(signal.SIGINT)
            assert interrupted.acquire(timeout=60)
            assert not interrupted.acquire(blocking=False)
    finally:
        ender.join()
        thread.stop()
