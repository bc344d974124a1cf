"""The answers in what a hook printed: JSON objects alone or between other text, and attempts that cannot be read.

A profile's greeting, a byte order mark, colours and log lines must not hide a no. What is whole is read; what begins like
an answer and is none is reported as an attempt, so that a guard's no that nobody understands is not taken for a yes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from cellwright.text import lazy_pattern

MOST_TRIES = 500
"""Places where an object may begin that turn out to hold none: a text with more of them is no answer between words."""

_NOISE = lazy_pattern(
    "[\0\ufeff]"  # zeros are the other half of UTF-16
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|\x9b[0-?]*[ -/]*[@-~]"
)
_KEYS = frozenset(
    {
        *("decision", "permissiondecision", "hookspecificoutput", "continue", "stopreason", "systemmessage"),
        *("suppressoutput", "additionalcontext"),
    }
)
_ATTEMPT = lazy_pattern(
    r"(?is)\{[^{}]{0,400}?(?:decision|hook_?specific_?output|\bcontinue|stop_?reason|\bbehavior)[\"'\\]*\s*[:=]"
)
_NO_IN_A_WORD = frozenset(
    {"deny", "denied", "block", "blocked", "reject", "rejected", "refuse", "refused", "forbid", "forbidden"}
)

Attempt = Literal["", "line", "whole", "answer"]
"""The likeness to an answer of text that is no JSON: a line or all of it begins like one, or it has an answer's keys."""


class Printed(Struct, frozen=True):
    """A hook's output: its `answers`, the text around them, and whether it has an `attempt` that cannot be read."""

    answers: tuple[Mapping[str, Any], ...] = ()
    rest: str = ""
    attempt: Attempt = ""


class _Contradiction(ValueError):
    """An object says two things under one name."""


def as_name(key: object) -> str:
    """A key in the one spelling in which keys are compared when they are misspelled."""
    return str(key).casefold().replace("_", "").replace("-", "").replace(" ", "")


def read_printed(text: str) -> Printed:
    """Find the answers in `text`."""
    text = _NOISE.sub("", text).lstrip("\ufffd").strip()  # of a UTF-16 mark, read as UTF-8
    if not text:
        return Printed()
    answers: list[Mapping[str, Any]] = []
    rest: list[str] = []
    attempt: Attempt = "answer" if text.strip("\"'`.! \t").casefold() in _NO_IN_A_WORD else ""
    at = 0
    for begin, end, value in _objects(text):
        if value is None:
            attempt = max(attempt, _looks(text, begin), key=_MORE.index)
        elif begin == 0 and end == len(text):
            return Printed((value,))
        elif any(as_name(key) in _KEYS for key in value):
            answers.append(value)
            rest.append(text[at:begin])
            at = end
    if not answers:
        return Printed(rest=text, attempt=attempt)
    around = " ".join(part.strip(" \t\r\n,[]") for part in (*rest, text[at:])).strip()
    return Printed(tuple(answers), around, attempt)


def objects_in(text: str) -> Iterator[Mapping[str, Any]]:
    """Every JSON object in `text` that is in no other one."""
    return (value for _, _, value in _objects(_NOISE.sub("", text)) if value is not None)


_MORE: Sequence[Attempt] = ("", "line", "whole", "answer")


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Each object with its begin and end; None for a `{` where none can be read."""
    at = tries = 0
    # control characters in a text are no JSON, and a reason with a line break is a reason
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_without_contradiction)
    while tries < MOST_TRIES and (begin := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, begin)
            yield begin, at, value
        except (ValueError, RecursionError):
            yield begin, begin, None
            at, tries = begin + 1, tries + 1


def _without_contradiction(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs) and any(found[name] != value for name, value in pairs):
        raise _Contradiction
    return found


def _looks(text: str, begin: int) -> Attempt:
    if _ATTEMPT.match(text, begin):
        return "answer"
    if begin == 0:
        return "whole"
    return "line" if not text[text.rfind("\n", 0, begin) + 1 : begin].strip() else ""
