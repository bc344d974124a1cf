"""What somebody means who types a few letters of a name: names that hold the letters in order, the likeliest first.

The panel's `fuzzy_match.ts` orders by the same figures, so that a list does not jump when the kernel's answer comes.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

LETTER = 16
"""For each letter that is found."""

BEGINS_WORD = 10
FOLLOWS = 12
"""More for a letter at the beginning of a word, and for one right behind the letter before."""

GAP = 2
"""Less for each letter between the first and the last that is none of the query's."""

BEGINS_TEXT = 20
IN_NAME = 40
"""More where the text itself begins so, and for a path whose last part alone holds the query."""


def score(query: str, text: str) -> float | None:
    """How well `text` fits `query`, more is better; None where it does not. Upper and lower case are one."""
    wanted, letters = query.lower(), _small(text)
    window = _window(wanted, letters)
    if window is None:
        return None
    start, end = window
    points = float(BEGINS_TEXT if start == 0 else 0)
    at, before = 0, -2
    for place in range(start, end):
        if at == len(wanted) or letters[place] != wanted[at]:
            points -= GAP
            continue
        points += LETTER
        points += FOLLOWS if before == place - 1 else BEGINS_WORD if _begins_word(text, place) else 0
        before, at = place, at + 1
    return points - len(text) / 100


def path_score(query: str, path: str) -> float | None:
    """`score` of a path: better where its last part alone fits."""
    name = path.rstrip("/").rpartition("/")[2]
    if "/" not in query and (of_name := score(query, name)) is not None:
        return of_name + IN_NAME - len(path) / 100
    return score(query, path)


def best(
    query: str,
    things: Iterable[T],
    text: Callable[[T], str],
    most: int,
    rate: Callable[[str, str], float | None] = score,
) -> list[T]:
    """At most `most` of `things` that fit `query`, best first; those that fit as well stay in their order."""
    fits = re.compile(".*?".join(map(re.escape, query)), re.IGNORECASE | re.DOTALL).search
    rated = ((thing, rate(query, name)) for thing in things if fits(name := text(thing)))
    found = ((points, thing) for thing, points in rated if points is not None)
    return [thing for _, thing in heapq.nlargest(most, found, key=lambda each: each[0])]


def _window(wanted: str, letters: str) -> tuple[int, int] | None:
    """Where in `letters` those of `wanted` stand in order: all together, or as near as their first end allows."""
    if (whole := letters.find(wanted)) >= 0:
        return _at_word(wanted, letters, whole)
    end = 0
    for letter in wanted:
        end = letters.find(letter, end) + 1
        if end == 0:
            return None
    start = end
    for letter in reversed(wanted):
        start = letters.rfind(letter, 0, start)
    return start, end


def _at_word(wanted: str, letters: str, first: int) -> tuple[int, int]:
    """The place of all of `wanted` that begins a word, else the first one."""
    place = first
    while place >= 0:
        if _begins_word(letters, place):
            return place, place + len(wanted)
        place = letters.find(wanted, place + 1) if wanted else -1
    return first, first + len(wanted)


def _small(text: str) -> str:
    """`text` in lower case, each letter in its place: of "İ" `lower` makes two."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(letter.lower()[0] for letter in text)


def _begins_word(text: str, place: int) -> bool:
    if place == 0 or not text[place - 1].isalnum():
        return True
    return text[place].isupper() and text[place - 1].islower()
