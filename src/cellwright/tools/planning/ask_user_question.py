"""AskUserQuestion: Claude asks, the user chooses or writes an answer of their own. Fields are Claude Code's.

The question is put by whoever answers for the user (the card, the terminal, a hook, `can_use_tool`): the answer comes
back as the call's input, with `answers` by the questions' texts. The model does not see that field and cannot fill
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import counted

MAX_QUESTIONS = 4
MIN_OPTIONS = 2
MAX_OPTIONS = 4
HEADER_CHARS = 12

DESCRIPTION = f"""\
Ask the user when the answer changes what you do and you cannot find it out yourself: a choice between ways, a \
requirement that is open. 1 to {MAX_QUESTIONS} questions a call, each with {MIN_OPTIONS} to {MAX_OPTIONS} options; the \
user can always write something else, so offer no option like `Other`. Put the option that you recommend first, with \
`(recommended)` in its label. Not for asking whether you may go on, or whether a plan is good: that is ExitPlanMode's."""

EXAMPLE = {
    "questions": [
        {
            "question": "Where should the results be kept?",
            "header": "Storage",
            "multiSelect": False,
            "options": [
                {"label": "Parquet (recommended)", "description": "Small, typed, quick to read again."},
                {"label": "CSV", "description": "Opens everywhere; types are lost."},
            ],
        }
    ]
}


class Option(ToolInput):
    """One answer to choose."""

    label: Annotated[
        str, Meta(min_length=1, max_length=100, description="What the user chooses, in one to five words.")
    ]
    description: Annotated[
        str, Meta(min_length=1, max_length=1_000, description="What it means: effects, costs, what it rules out.")
    ]
    preview: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=5_000,
                description="A sketch to compare by: a mock-up, a piece of code, a configuration.",
            ),
        ]
        | None
    ) = None


class Question(ToolInput):
    """One question with its options."""

    question: Annotated[
        str, Meta(min_length=1, max_length=1_000, description="The whole question, ending with a question mark.")
    ]
    header: Annotated[str, Meta(min_length=1, max_length=HEADER_CHARS, description="One or two words that name it.")]
    options: Annotated[
        tuple[Option, ...],
        Meta(
            min_length=MIN_OPTIONS,
            max_length=MAX_OPTIONS,
            description="Different answers; each rules out the others unless multiSelect.",
        ),
    ]
    multi_select: Annotated[bool, Meta(description="Whether several options may be chosen; default false.")] = field(
        default=False, name="multiSelect"
    )


class AskUserQuestionInput(ToolInput):
    """The input of AskUserQuestion."""

    questions: Annotated[
        tuple[Question, ...], Meta(min_length=1, max_length=MAX_QUESTIONS, description="What is asked.")
    ]


class Annotation(Struct):
    """A remark about an answer; other programs have more of them."""

    preview: str = ""
    notes: str = ""
    unanswered: str = ""


Answers = Mapping[str, str | tuple[str, ...]]


class AnsweredQuestionInput(AskUserQuestionInput):
    """The call with the user's answers, as it runs."""

    answers: Annotated[
        Answers,
        Meta(description="The user's answers by the questions' texts: a label, labels, or a text of their own."),
    ] = field(default_factory=dict)
    annotations: Annotated[
        Mapping[str, Annotation], Meta(description="Remarks about an answer, by the questions' texts.")
    ] = field(default_factory=dict)


class AnswersOutput(ToolOutput):
    """The user's answers, in words, by question."""

    answers: dict[str, str]


def ask_user_question_tool() -> Tool:
    """AskUserQuestion."""

    @tool(
        name="AskUserQuestion",
        other_names=("ask_user",),
        output=AnswersOutput,
        description=DESCRIPTION,
        access=ToolAccess("question"),
        read_only=True,
        category="planning",
        everyday=True,
        examples=[EXAMPLE],
        offered=AskUserQuestionInput,
        asks="question",
        title=_title,
        preview=_preview,
    )
    async def ask_user_question(input: AnsweredQuestionInput) -> ToolResult:
        answers, notes = input.answers, input.annotations
        if not answers and not notes:
            raise ToolError(
                "The user was not asked: no answer came. Choose what is sensible, and say what you assumed."
            )
        told = {asked.question: _in_words(answers, notes, asked.question) for asked in input.questions}
        lines = [f"- {' '.join(question.split())} → {answer}" for question, answer in told.items()]
        # a callback may name a question otherwise: what it says must not be lost
        lines += [f"- {key} → {_joined(value)}" for key, value in answers.items() if key not in told]
        text = "\n".join(["The user answered:", *lines])
        return ToolResult(text, display={"answers": told}, structured=AnswersOutput(answers=told))

    return ask_user_question


def _title(input: AskUserQuestionInput) -> str:
    questions = input.questions
    return questions[0].question if len(questions) == 1 else f"Claude has {counted(len(questions), 'question')}"


async def _preview(input: AskUserQuestionInput) -> Preview:
    """All of it as text, for those who show no form. Raises ToolError where answers could not be told apart."""
    _check_distinct("questions", [asked.question for asked in input.questions])
    for asked in input.questions:
        _check_distinct("options", [option.label for option in asked.options])
    texts = []
    for asked in input.questions:
        options = (f"- {option.label}: {option.description}" for option in asked.options)
        texts.append("\n".join([asked.question, *options]))
    return Preview(_title(input), "\n\n".join(texts))


def _check_distinct(field_name: str, texts: Sequence[str]) -> None:
    for text, times in Counter(text.strip() for text in texts).items():
        if times > 1 or not text:
            raise ToolError(
                f"The user was not asked: {field_name} must have different texts, but {text!r} is there "
                f"{counted(times, 'time')}.",
                code=ErrorCode.INVALID_PARAMETERS,
                details={"field": field_name, "expected": "different texts"},
            )


def _in_words(answers: Answers, notes: Mapping[str, Annotation], question: str) -> str:
    note = notes.get(question, Annotation())
    remark = f" (note: {note.notes})" if note.notes else ""
    if answer := _joined(answers.get(question, "")):
        return f"{answer}{remark}"
    if note.unanswered == "timed_out":
        return f"no answer in time; choose what is sensible{remark}"
    return f"no answer; choose what is sensible{remark}"


def _joined(answer: str | Sequence[str]) -> str:
    return (answer if isinstance(answer, str) else ", ".join(answer)).strip()
