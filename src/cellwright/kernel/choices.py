"""The answers that a permission question offers; one key map in the cell, the sidebar, `input()` and the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from cellwright.agent.approval import Allow, Deny
from cellwright.events import AnsweredBy, Suggestion
from cellwright.kernel.comm import Answer, Scope

Json = Mapping[str, object]


class Choice(TypedDict):
    """One answer, as the browser gets it; `rules` are kept when it is taken."""

    key: str
    action: str
    scope: Scope
    label: str
    rules: list[str]


def choices(suggestions: Sequence[Suggestion]) -> list[Choice]:
    """Allow once, for the session and always (where a rule says what that covers), deny."""
    found: list[Choice] = [{"key": "1", "action": "allow", "scope": "once", "label": "Allow once", "rules": []}]
    for key, scope in (("2", "session"), ("3", "always")):
        for suggestion in suggestions:
            if suggestion.scope == scope and suggestion.rules:
                found.append(
                    {
                        "key": key,
                        "action": "allow",
                        "scope": suggestion.scope,
                        "label": suggestion.label,
                        "rules": list(suggestion.rules),
                    }
                )
                break
    return [*found, {"key": "4", "action": "deny", "scope": "once", "label": "Deny", "rules": []}]


def allowed(scope: Scope, suggestions: Sequence[Suggestion], by: AnsweredBy, edited: Json | None = None) -> Allow:
    """The answer "yes", as far as a rule of ours reaches: the scope decides, never a rule that came with the answer.

    An edited input is allowed once: the rules were made for another one.
    """
    found = (tuple(choice["rules"]) for choice in choices(suggestions) if choice["scope"] == scope)
    rules = next(found, ()) if edited is None else ()
    return Allow(edited, scope if rules else "once", rules, by)


def answer_of(answer: Answer, suggestions: Sequence[Suggestion]) -> Allow | Deny:
    """What the user's answer in the browser means."""
    if answer.behavior == "deny":
        return Deny(answer.reason, "widget")
    return allowed(answer.scope, suggestions, "widget", answer.input)
