"""The user's answers to what Claude asks: one key map for the cell, the sidebar, `input()` and the terminal.

A permission is allowed or denied; a question of Claude's is answered with labels or a text; a plan is approved or
sent back. The last two answers travel in the call's input, in fields that the model cannot fill.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.events import AnsweredBy, QuestionKind, Suggestion

Json = Mapping[str, Any]
Scope = Literal["once", "session", "always"]
Action = Literal["allow", "deny"]

ANSWER_FIELDS: Mapping[QuestionKind, tuple[str, ...]] = {
    "question": ("answers", "annotations"),
    "plan": ("decision", "feedback", "plan"),
    "trust": ("choice",),
}
"""The fields that an answer may put into the call's input."""

UNSAID: Mapping[QuestionKind, str] = {
    "permission": "",
    "question": "the question was dismissed",
    "plan": "continue planning",
    "trust": "",
}
"""The reason of a "no" that was given without one."""


class Choice(TypedDict):
    """One answer: the `key` that takes it, the `rules` that are kept then, the fields it puts into the call's `input`."""

    key: str
    action: Action
    scope: Scope
    label: str
    rules: list[str]
    input: Json | None


def choices(kind: QuestionKind, suggestions: Sequence[Suggestion]) -> list[Choice]:
    """The answers that are offered, in the order in which they are shown."""
    match kind:
        case "permission":
            return [_choice("1", "Allow once"), *_kept(suggestions), _choice("4", "Deny", action="deny")]
        case "question":
            # its own options are in the call's input
            return [_choice("Escape", "Dismiss", action="deny")]
        case "plan":
            return [
                _choice("1", "Approve", given={"decision": "approve"}),
                _choice("2", "Approve and accept edits", given={"decision": "accept_edits"}),
                _choice("4", "Keep planning", action="deny"),
            ]
        case "trust":
            yes, *also, no = (offer.label for offer in suggestions)
            more = [_choice(key, label, given={"choice": label}) for key, label in zip("23", also, strict=False)]
            return [_choice("1", yes), *more, _choice("4", no, action="deny")]


def _choice(key: str, label: str, *, action: Action = "allow", given: Json | None = None) -> Choice:
    return {"key": key, "action": action, "scope": "once", "label": label, "rules": [], "input": given}


def _kept(suggestions: Sequence[Suggestion]) -> list[Choice]:
    """For the session and always, where a rule says what that covers."""
    found: list[Choice] = []
    for key, scope in (("2", "session"), ("3", "always")):
        offered = next((offer for offer in suggestions if offer.scope == scope and offer.rules), None)
        if offered is not None:
            found.append({**_choice(key, offered.label), "scope": offered.scope, "rules": list(offered.rules)})
    return found


def allowed(scope: Scope, suggestions: Sequence[Suggestion], by: AnsweredBy, edited: Json | None = None) -> Allow:
    """The answer "yes", as far as a rule of ours reaches: the scope decides, never a rule that came with the answer.

    An edited input is allowed once: the rules were made for another one.
    """
    found = (tuple(choice["rules"]) for choice in _kept(suggestions) if choice["scope"] == scope)
    rules = next(found, ()) if edited is None else ()
    return Allow(edited, scope if rules else "once", rules, by)


def answered(use: ToolUse, given: Json, by: AnsweredBy) -> Allow:
    """The answer to a question or a plan: what was asked, with what is `given` in answer and nothing else."""
    fields = {name: given[name] for name in ANSWER_FIELDS[use.kind] if name in given}
    return Allow({**use.input, **fields}, by=by)


def unanswered_in_time(use: ToolUse) -> Allow:
    """The answer to a question of Claude's that waited long enough: Claude is told so, and goes on."""
    late = {str(question["question"]): {"unanswered": "timed_out"} for question in use.input["questions"]}
    return answered(use, {"answers": {}, "annotations": late}, "policy")


def denied(use: ToolUse, reason: str, by: AnsweredBy) -> Deny:
    """The answer "no"."""
    return Deny(reason.strip() or UNSAID[use.kind], by)


def typed_key(line: str, keys: Sequence[str]) -> tuple[str, str] | None:
    """The key of `keys` that was typed, or y or n for the first and the last digit, and what follows it; else None."""
    found = re.fullmatch(r"\s*(\w+)(?:[\s,:.]+(.*))?\s*", line, re.DOTALL)
    if found is None:
        return None
    digits = [key for key in keys if key.isdigit()]
    words = {"y": digits[0], "yes": digits[0], "n": digits[-1], "no": digits[-1]}
    key = words.get(found[1].lower(), found[1].lower())
    return (key, (found[2] or "").strip()) if key in keys else None


def typed_answer(question: Json, line: str) -> str:
    """Read what was typed as the answer to one of Claude's questions: the numbers' labels, else the text itself."""
    text = " ".join(line.split())
    labels = [str(option["label"]) for option in question["options"]]
    if not question.get("multiSelect"):
        found = _numbered(labels, text)
        return found[0] if len(found) == 1 else text
    chosen: list[str] = []
    for part in re.split(r"[,;]", text):
        chosen += _numbered(labels, part) or [part.strip()]
    return ", ".join(dict.fromkeys(answer for answer in chosen if answer))


def _numbered(labels: Sequence[str], text: str) -> list[str]:
    """The labels that `text` names by their numbers; none when it says something else as well."""
    numbers = text.split()
    if not all(number.isdecimal() and 0 < int(number) <= len(labels) for number in numbers):
        return []
    return [labels[int(number) - 1] for number in numbers]
