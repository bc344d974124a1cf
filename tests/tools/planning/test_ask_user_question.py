"""AskUserQuestion: what may be asked, and what Claude reads of the answers, whoever gave them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.tools.planning.ask_user_question import ask_user_question_tool
from row_tables import for_each_row

TOOL = ask_user_question_tool()
CONTEXT = ToolContext("toolu_test", lambda **_: None)


def option(label: str, **more: str) -> dict[str, str]:
    return {"label": label, "description": f"what {label} means", **more}


def question(text: str = "Where to?", *labels: str, **more: Any) -> dict[str, Any]:
    options = [option(label) for label in labels or ("left", "right")]
    return {"question": text, "header": "Way", "options": options, **more}


def told(**tool_input: Any) -> ToolResult:
    check_input(TOOL, tool_input, answered=True)
    result = asyncio.run(TOOL.call(tool_input, CONTEXT))  # type: ignore[arg-type]
    assert isinstance(result, ToolResult)
    return result


def preview_of(*questions: dict[str, Any]) -> Any:
    assert TOOL.preview is not None
    return asyncio.run(TOOL.preview({"questions": list(questions)}))  # type: ignore[arg-type]


@for_each_row(
    "questions",
    [
        [],
        [question(str(number)) for number in range(5)],
        [question("Where?", "one")],
        [question("Where?", *"abcde")],
        [question("Where?") | {"header": "far too long a header"}],
        [{"question": "Where?", "options": [option("a"), option("b")]}],
        [question("Where?", multiSelect="yes")],
    ],
)
def test_what_does_not_fit_is_not_asked(questions):
    with pytest.raises(ToolError) as caught:
        check_input(TOOL, {"questions": questions})
    assert "questions" in str(caught.value.details["field"])


def test_the_model_cannot_answer_in_the_users_place():
    tool_input = {"questions": [question()], "answers": {"Where to?": "left"}}
    with pytest.raises(ToolError):
        check_input(TOOL, tool_input)
    check_input(TOOL, tool_input, answered=True)
    assert set(TOOL.to_param()["input_schema"]["properties"]) == {"questions"}


@pytest.mark.parametrize(
    "questions", [(question("Same?"), question("Same? ")), (question("Where?", "left", "left"),), (question(" "),)]
)
def test_questions_whose_answers_could_not_be_told_apart_are_not_asked(questions):
    with pytest.raises(ToolError) as caught:
        preview_of(*questions)
    assert "was not asked" in caught.value.message


def test_the_preview_says_it_all_as_text():
    assert preview_of(question()).title == "Where to?"
    both = preview_of(question(), question("How?"))
    assert both.title == "Claude has 2 questions"
    assert both.detail == (
        "Where to?\n- left: what left means\n- right: what right means\n\n"
        "How?\n- left: what left means\n- right: what right means"
    )


def test_claude_reads_each_answer_and_what_was_left_open():
    result = told(
        questions=[question(), question("Which?", multiSelect=True), question("Why?"), question("When?")],
        answers={"Where to?": "left", "Which?": ["left", "right"], "Other": "kept"},
        annotations={"Where to?": {"notes": "slowly"}, "When?": {"unanswered": "timed_out"}},
    )
    assert result.content == (
        "The user answered:\n"
        "- Where to? → left (note: slowly)\n"
        "- Which? → left, right\n"
        "- Why? → no answer; choose what is sensible\n"
        "- When? → no answer in time; choose what is sensible\n"
        "- Other → kept"
    )
    assert result.display is not None
    assert result.display["answers"]["Which?"] == "left, right"


@pytest.mark.parametrize("given", [{}, {"answers": {}}])
def test_an_allowed_call_without_answers_tells_that_nobody_was_asked(given):
    with pytest.raises(ToolError) as caught:
        told(questions=[question()], **given)
    assert "was not asked" in caught.value.message
