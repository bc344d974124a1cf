"""The place most like a text that was looked for and not found, and the difference between them, in words."""

from __future__ import annotations

import re
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable
from difflib import SequenceMatcher

from cellwright.text import LOOK_ALIKES, look_alike_words
from cellwright.tools.files.formats.text import numbered

SEARCH_SECONDS = 0.2
"""Comparing goes line by line; a good hint is not worth more than this."""

LINE_CHARS = 300
LIKE_ENOUGH = 0.6
"""The part of a line that must be alike."""
PLACES_WEIGHED = 5
LINES_COMPARED = 10
"""So many lines of each such place are weighed."""
COMMON_LINE = 50
"""A line that is there so often says nothing about the place."""


def look_alikes(text: str, target: str) -> str:
    """A hint if `target` is in `text` but for characters that look alike: which they are, and how to write them."""
    if text.isascii() and target.isascii() and "\0" not in text:
        return ""
    at = text.translate(LOOK_ALIKES).find(target.translate(LOOK_ALIKES))
    if at < 0:
        return ""
    line = text.count("\n", 0, at) + 1
    named = look_alike_words(text[at : at + len(target)], target, "old_string")
    return f"It is at line {line} with {named}. Write old_string with the file's characters."


def nearest_place(text: str, target: str, name: str = "old_string") -> str:
    """A hint that shows the lines of `text` most like `target` (called `name`), numbered; empty if nothing is like it."""
    lines = text.split("\n")
    sought = target.strip("\n").split("\n")
    start = _by_equal_lines(lines, sought)
    if start is None:
        start = _by_similar_line(lines, sought)
    if start is None:
        return ""
    found = lines[start : start + len(sought)]
    shown = numbered([line[:LINE_CHARS] for line in found[:12]], start + 1)
    return f"The nearest place is this:\n{shown}\n{_difference(found, sought, start, name)}"


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
    matcher = SequenceMatcher(None, "", longest.strip()[:LINE_CHARS], autojunk=False)
    deadline = time.monotonic() + SEARCH_SECONDS
    near: list[tuple[float, int]] = []
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:LINE_CHARS])
        # the first two are quick, and never below the third
        if matcher.real_quick_ratio() >= LIKE_ENOUGH and matcher.quick_ratio() >= LIKE_ENOUGH:
            near.append((matcher.ratio(), max(number - offset, 0)))
        if time.monotonic() > deadline:
            break
    near = sorted((each for each in near if each[0] >= LIKE_ENOUGH), key=lambda pair: (-pair[0], pair[1]))
    if not near:
        return None

    def likeness(start: int) -> float:
        there = lines[start : start + LINES_COMPARED]
        return sum(_likeness(line, other) for line, other in zip(there, sought, strict=False))

    # of the lines that are alike, the one whose neighbours are alike too
    return max((start for _, start in near[:PLACES_WEIGHED]), key=likeness)


def _likeness(line: str, other: str) -> float:
    return SequenceMatcher(None, line.strip()[:LINE_CHARS], other.strip()[:LINE_CHARS], autojunk=False).ratio()


def _unquoted(text: str) -> str:
    return re.sub(r"[\"'`\u00b4\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2032\u2033]", "'", text)


def _plain(text: str) -> str:
    """Characters that look alike, as one: dashes, blanks, ligatures; without those that cannot be seen."""
    text = re.sub(r"[\u2010-\u2015\u2212]", "-", unicodedata.normalize("NFKC", text))
    return "".join(character for character in text if unicodedata.category(character) != "Cf")


def _unescaped(text: str) -> str:
    known = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'", "\\\\": "\\"}
    import html  # only for what was not found as it stands

    return html.unescape(re.sub(r"\\[nt\"'\\]", lambda found: known[found[0]], text))


def _by_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


_DIFFERENCES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ('escapes (`\\n`, `\\"` or `&lt;` written out)', _unescaped),
    ("line ends", lambda text: text.replace("\r", "")),
    ("characters that look alike (dashes, blanks that are no blanks, …)", _plain),
    ("quotes", _unquoted),
    ("indentation (white space at the start of a line)", _by_line(lambda line: line.lstrip(" \t"))),
    ("white space at the end of a line", _by_line(lambda line: line.rstrip(" \t"))),
    ("white space within a line", _by_line(lambda line: re.sub(r"(?<=[^ \t])[ \t]+", " ", line))),
    ("upper and lower case", str.casefold),
)


def differences(one: str, other: str) -> list[str]:
    """Describe what two texts differ in, if that is all they differ in."""

    def alike(left_out: int) -> bool:
        left, right = one, other
        for number, (_, change) in enumerate(_DIFFERENCES):
            if number != left_out:
                left, right = change(left), change(right)
        return left == right

    if not alike(left_out=-1):
        return []
    return [words for number, (words, _) in enumerate(_DIFFERENCES) if not alike(left_out=number)]


def _difference(found: list[str], sought: list[str], start: int, name: str) -> str:
    there, target = "\n".join(found), "\n".join(sought)
    named = differences(there, target)
    only = f"It differs only in {' and '.join(named)}. " if named else ""
    for number, (line, line_sought) in enumerate(zip(found, sought, strict=False), start + 1):
        if line != line_sought:
            return f"{only}Line {number} is {line[:LINE_CHARS]!r}, {name} has {line_sought[:LINE_CHARS]!r}."
    if len(found) == len(sought):
        return "It differs only in empty lines before or after it."
    return f"{name} goes on after the last line of the file."
