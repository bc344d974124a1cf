"""AskUserQuestion: Claude asks, the user chooses or writes an answer of their own. Fields are Claude Code's.

The question is put by whoever answers for the user (the card, the terminal, a hook, `can_use_tool`): the answer comes back
as the call's input, with `answers` by the questions' texts. The model does not see that field and cannot fill it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolLimits, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.tools.schema import counted, object_schema

Json = Mapping[str, Any]

MAX_QUESTIONS = 4
MAX_OPTIONS = 4
HEADER_CHARS = 12

DESCRIPTION = """\
Ask the user when the answer changes what you do and you cannot find it out yourself: a choice between ways, a \
requirement that is open. One to four questions a call, each with two to four options; the user can always write \
something else, so offer no option like `Other`. Put the option that you recommend first, with `(recommended)` in its \
label. Not for asking whether you may go on, or whether a plan is good: that is ExitPlanMode's."""


def ask_user_tool() -> Tool:
    """The tool that puts questions to the user."""
    return Tool(
        name="AskUserQuestion",
        description=DESCRIPTION,
        input_schema=object_schema({"questions": _QUESTIONS}, ["questions"]),
        answered_schema=object_schema(
            {"questions": _QUESTIONS, "answers": _ANSWERS, "annotations": _ANNOTATIONS}, ["questions"]
        ),
        call=_told,
        read_only=True,
        limits=ToolLimits(seconds=10),
        category="planning",
        input_examples=[
            {
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
        ],
        asks="question",
        title=_title,
        preview=_preview,
    )


def _title(tool_input: Json) -> str:
    questions = tool_input["questions"]
    return str(questions[0]["question"]) if len(questions) == 1 else f"{counted(len(questions), 'question')}"


async def _preview(tool_input: Json) -> Preview:
    """All of it as text, for those who show no form. Raises ToolError where answers could not be told apart."""
    questions: Sequence[Json] = tool_input["questions"]
    _check_distinct("questions", [question["question"] for question in questions])
    for question in questions:
        _check_distinct("options", [option["label"] for option in question["options"]])
    detail = "\n\n".join(_as_text(question) for question in questions)
    return Preview(_title(tool_input), detail)


def _check_distinct(field: str, texts: Sequence[str]) -> None:
    for text, times in Counter(text.strip() for text in texts).items():
        if times > 1 or not text:
            raise ToolError(
                f"Invalid input for AskUserQuestion: {field} must have different texts, but {text!r} is there "
                f"{counted(times, 'time')}. The user was not asked.",
                code=ErrorCode.INVALID_PARAMETERS,
                details={"field": field, "expected": "different texts"},
            )


def _as_text(question: Json) -> str:
    options = [f"- {option['label']}: {option['description']}" for option in question["options"]]
    return "\n".join([str(question["question"]), *options])


async def _told(tool_input: dict[str, Any], _ctx: ToolContext) -> ToolResult:
    """What Claude reads of the answers."""
    questions: Sequence[Json] = tool_input["questions"]
    answers: Json = tool_input.get("answers", {})
    notes: Json = tool_input.get("annotations", {})
    if not answers and not notes:
        raise ToolError("The user was not asked: no answer came. Choose what is sensible, and say what you assumed.")
    told = {str(question["question"]): _in_words(answers, notes, question["question"]) for question in questions}
    lines = [f"- {' '.join(question.split())} → {answer}" for question, answer in told.items()]
    # a callback may name a question otherwise: what it says must not be lost
    lines += [f"- {key} → {_joined(value)}" for key, value in answers.items() if key not in told]
    return ToolResult("\n".join(["The user answered:", *lines]), display={"answers": told})


def _in_words(answers: Json, notes: Json, question: str) -> str:
    note: Json = notes.get(question, {})
    remark = f" (note: {note['notes']})" if note.get("notes") else ""
    if answer := _joined(answers.get(question, "")):
        return f"{answer}{remark}"
    if note.get("unanswered") == "timed_out":
        return f"no answer in time; choose what is sensible{remark}"
    return f"no answer; choose what is sensible{remark}"


def _joined(answer: str | Sequence[str]) -> str:
    return (answer if isinstance(answer, str) else ", ".join(answer)).strip()


def _text(description: str, most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": description}


_OPTION = object_schema(
    {
        "label": _text("What the user chooses, in one to five words.", 100),
        "description": _text("What it means: effects, costs, what it rules out.", 1_000),
        "preview": _text("A sketch to compare by: a mock-up, a piece of code, a configuration.", 5_000),
    },
    ["label", "description"],
)

_QUESTIONS: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_QUESTIONS,
    "description": "What is asked.",
    "items": object_schema(
        {
            "question": _text("The whole question, ending with a question mark.", 1_000),
            "header": _text("One or two words that name it.", HEADER_CHARS),
            "options": {
                "type": "array",
                "minItems": 2,
                "maxItems": MAX_OPTIONS,
                "items": _OPTION,
                "description": "Different answers; each rules out the others unless multiSelect.",
            },
            "multiSelect": {"type": "boolean", "description": "Whether several options may be chosen; default false."},
        },
        ["question", "header", "options"],
    ),
}

_ANSWERS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "description": "The user's answers by the questions' texts: a label, labels, or a text of their own.",
}

_ANNOTATIONS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {
            "preview": {"type": "string"},
            "notes": {"type": "string"},
            "unanswered": {"type": "string"},
        },
    },
    "description": "Remarks about an answer, by the questions' texts.",
}
