"""The question whether a call of another program may be made, as its user reads and answers it, wherever they are asked."""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

from msgspec import Struct

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.calls.permission_gate import no_user_text
from cellwright.text import visible

MAX_QUESTION_CHARS = 20_000
"""A question shows the whole of what it asks about: what is longer is not asked."""

ONCE, SESSION, NO = "Allow once", "Allow from now on", "Deny"

CallAnswer = Literal["once", "session", "deny", "later"]
"""`session` adds the question's rules; `later`: the answer comes with another call, so this one is not made."""

_BY_CHOICE: dict[Any, CallAnswer] = {ONCE: "once", SESSION: "session"}


class CallQuestion(Struct, frozen=True):
    """`rules` is what a yes from now on adds, empty where it may not; `unasked` says why there is no call unasked."""

    text: str
    rules: tuple[str, ...]
    unasked: str

    @property
    def choices(self) -> list[str]:
        """The answers to choose from."""
        return [ONCE, *([SESSION] if self.rules else []), NO]

    @property
    def form(self) -> dict[str, Any]:
        """The schema of the form that a client of MCP shows."""
        answer = {"type": "string", "title": "May this be done?", "enum": self.choices}
        return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def question_of(use: ToolUse) -> CallQuestion:
    """The question that `use` comes to."""
    offered = [suggestion.rules for suggestion in use.decision.suggestions if suggestion.rules]
    rules = tuple(offered[-1]) if offered and not use.decision.firm else ()
    later = f"“{SESSION}” adds the rule {', '.join(rules)} until this server ends." if rules else ""
    preview = use.preview
    parts = (preview.title, preview.warning, preview.detail, use.decision.reason, later)
    return CallQuestion("\n\n".join(visible(part) for part in parts if part), rules, no_user_text(use))


def answer_of_choice(choice: object) -> CallAnswer:
    """The answer that the words mean which the user chose; anything else is a no.

    >>> answer_of_choice("Allow once"), answer_of_choice("by all means")
    ('once', 'deny')
    """
    return _BY_CHOICE.get(choice, "deny") if isinstance(choice, str) else "deny"


def read_answer(value: object) -> CallAnswer:
    """An answer as another process sends it; what is none is a no."""
    return cast("CallAnswer", value) if value in get_args(CallAnswer) else "deny"


def decision_of(answer: CallAnswer, question: CallQuestion) -> Allow | Deny:
    """The decision that the answer is. A yes from now on to what no rule can allow is none."""
    if answer == "session" and question.rules:
        return Allow(scope="session", rules=question.rules)
    if answer == "later":
        return Deny("the user has yet to answer", "policy")
    return Allow() if answer == "once" else Deny("the user said no")
