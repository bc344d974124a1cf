"""Where a text is that was looked for and not found: the place that is most like it, and how it differs."""

from __future__ import annotations

import difflib
import time
from collections import Counter, defaultdict

from cellwright.tools.text_files import numbered

SEARCH_SECONDS = 0.2
"""Comparing is quadratic; a good hint is not worth more than this."""

LINES_SHOWN = 12
LIKE_ENOUGH = 0.6
COMMON_LINE = 50
"""A line that is there so often says nothing about the place."""


def nearest_place(text: str, wanted: str) -> str:
    """A hint that shows the lines of `text` most like `wanted`, numbered; empty if nothing is like it."""
    lines = text.split("\n")
    sought = wanted.strip("\n").split("\n")
    start = _by_equal_lines(lines, sought)
    if start is None:
        start = _by_similar_line(lines, sought)
    if start is None:
        return ""
    found = lines[start : start + len(sought)]
    shown = numbered([line[:300] for line in found[:LINES_SHOWN]], start + 1)
    return f"The nearest place is this:\n{shown}\n{_difference(found, sought, start)}"


def _by_equal_lines(lines: list[str], sought: list[str]) -> int | None:
    """The start on which most lines agree that are equal but for white space around them."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        places[line.strip()].append(number)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(sought):
        where = places.get(line.strip(), []) if line.strip() else []
        if len(where) <= COMMON_LINE:
            votes.update(number - offset for number in where if number >= offset)
    if not votes:
        return None
    best = max(votes.values())
    return min(start for start, count in votes.items() if count == best)


def _by_similar_line(lines: list[str], sought: list[str]) -> int | None:
    """The start that the longest line sought has by similarity, as far as the time allows."""
    offset, longest = max(enumerate(sought), key=lambda pair: len(pair[1].strip()))
    longest = longest.strip()[:300]
    deadline = time.monotonic() + SEARCH_SECONDS
    matcher = difflib.SequenceMatcher(b=longest, autojunk=False)
    best, best_ratio = None, LIKE_ENOUGH
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:300])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = number, ratio
        if time.monotonic() > deadline:
            break
    return None if best is None else max(best - offset, 0)


def _difference(found: list[str], sought: list[str], start: int) -> str:
    if [line.strip() for line in found] == [line.strip() for line in sought]:
        return "It differs only in white space (indentation, tabs or spaces at the end of a line)."
    for number, (there, line) in enumerate(zip(found, sought, strict=False), start + 1):
        if there != line:
            return f"Line {number} is {there[:300]!r}, old_string has {line[:300]!r}."
    return "old_string goes on after the last line of the file."
