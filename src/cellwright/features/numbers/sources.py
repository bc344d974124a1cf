"""Sources: the texts that a conversation has seen, their numbers indexed for being looked up."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from cellwright.events import NumberSource
from cellwright.text import lazy_pattern

SourceKind = Literal["output", "file", "cell", "code", "prompt", "context"]

MOST_NUMBERS = 20_000
"""Of one source: what lies beyond is bulk, and a short number in it means nothing."""
MOST_CHARS = 400_000
LINE_CHARS = 4_000
SHOWN_CHARS = 120

_NUMBER = lazy_pattern(
    r"(?P<grouped>(?<![\d.,])\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?(?!\d|,\d))"
    r"|(?P<comma>(?<![\d.,])\d{1,12},(?:\d{1,2}|\d{4,20})(?!\d|,\d))"
    r"|(?P<plain>(?:\d{1,40}(?:\.\d{0,40})?|(?<!\d)\.\d{1,40})(?:[eE][+-]?\d{1,3})?)(?P<percent>\s?%)?"
)
_PARTS = lazy_pattern(r"\d{1,20}(?:\.\d{1,20})?")
_NO_DATA_LINE = lazy_pattern(
    r"it/s[\],]|s/it[\],]|[█▏▎▍▌▋▊▉]|\d%\|| ━{4}|<Figure size|^Traceback |^  File \"|^\s*\^+\s*$|Warning: |^-{5,}> ?\d"
)
_NO_DATA = lazy_pattern(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|(?<!\d)\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?!\d)|(?<!\d)\d{1,2}/\d{1,2}/\d{2,4}(?!\d)"
    r"|\b0x[0-9a-fA-F]{1,40}\b|\b(?=[0-9a-f]{0,6}[a-f])(?=[a-f]{0,6}\d)[0-9a-f]{8,64}\b|[a-z]{2,6}://[^\s]{1,2000}"
)
_WORD = lazy_pattern(r"[^\W\d_]{3,40}")
_STOP_WORDS = frozenset(
    word
    for line in (
        "the and for with that this from are was were has have had not but its all any can each per out one two than then",
        "they there here been being over under about into more most less very only also when where which while will would",
        "our your you him her his she who how what why nan none true false dtype int float object name length rows columns",
        "count value values total number data",
    )
    for word in line.split()
)


class Source(Struct, frozen=True):
    """A text that Claude has seen, or wrote as code: the result of a call, a cell's output, a file, the user's words.

    `name` says what it is to a reader ("Python, call 3"), `id` the call or the cell it can be gone to by, if any; `turn` is
    the number of the prompt it belongs to. `values` are its numbers without sign, ascending; `starts` their places in
    `text`; `percents`, parallel to them, is 1 if a percent sign stands behind.
    """

    kind: SourceKind
    name: str
    text: str
    turn: int
    values: array[float]
    starts: array[int]
    percents: bytes
    id: str = ""
    path: str = ""
    skipped: int = 0
    """Numbers beyond MOST_NUMBERS, which are not looked up."""

    def within(self, low: float, high: float) -> range:
        """Return the positions in `values` of numbers from `low` to `high`, both included."""
        return range(bisect_left(self.values, low), bisect_right(self.values, high))

    def line(self, start: int) -> tuple[int, str]:
        """Return the number of the line that holds the character `start`, from 1, and its text."""
        begin = self.text.rfind("\n", 0, start) + 1
        end = self.text.find("\n", start)
        return self.text.count("\n", 0, begin) + 1, self.text[begin : len(self.text) if end < 0 else end]


def place(source: Source, start: int) -> NumberSource:
    """Return the place of the number at `start` of the source, for its reader."""
    line, text = source.line(start)
    at = start - source.text.rfind("\n", 0, start) - 1
    first = max(0, at - SHOWN_CHARS // 2) if at > SHOWN_CHARS - 20 else 0  # the number itself must be in it
    words = " ".join(text[first : first + LINE_CHARS].split())[:SHOWN_CHARS]
    has_lines = "\n" in source.text.strip()
    return NumberSource(source.kind, source.name, line if has_lines else 0, words, source.id, source.path)


def source(kind: SourceKind, name: str, text: str, *, turn: int = 0, id: str = "", path: str = "") -> Source:
    """Return the source with its numbers indexed.

    >>> source("output", "Python, call 1", "mean 41.37 max 79.0").values.tolist()
    [41.37, 79.0]
    """
    text = text[:MOST_CHARS]
    entries: list[tuple[float, int, bool]] = []
    skipped = 0
    for value, start, percent in _numbers(text):
        if len(entries) < MOST_NUMBERS:
            entries.append((value, start, percent))
        else:
            skipped += 1
    entries.sort()
    return Source(
        kind=kind,
        name=name,
        text=text,
        turn=turn,
        values=array("d", [value for value, _, _ in entries]),
        starts=array("I", [start for _, start, _ in entries]),
        percents=bytes([percent for _, _, percent in entries]),
        id=id,
        path=path,
        skipped=skipped,
    )


def _numbers(text: str) -> Iterator[tuple[float, int, bool]]:
    at = 0
    for line in text.split("\n"):
        start, at = at, at + len(line) + 1
        line = line[:LINE_CHARS]
        if not any(map(str.isdigit, line)) or _NO_DATA_LINE.search(line):
            continue
        line = _NO_DATA.sub(_blank, line)
        for match in _NUMBER.finditer(line):
            place = start + match.start()
            kind = match.lastgroup
            if grouped := match["grouped"]:
                yield float(grouped.replace(",", "")), place, line[match.end() : match.end() + 2].lstrip()[:1] == "%"
                if "." not in grouped and line.count(",") > grouped.count(","):  # perhaps a line of a CSV file
                    yield from ((float(part[0]), place + part.start(), False) for part in _PARTS.finditer(grouped))
            elif comma := match["comma"]:
                yield float(comma.replace(",", ".")), place, line[match.end() : match.end() + 2].lstrip()[:1] == "%"
                yield from ((float(part[0]), place + part.start(), False) for part in _PARTS.finditer(comma))
            elif kind is not None:
                value = float(match["plain"])
                if value < 1e300:
                    yield value, place, match["percent"] is not None


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def words(text: str) -> frozenset[str]:
    """Return the words of a text that may name a number: small letters, no plural's s, no words that name everything."""
    found = {match[0].lower() for match in _WORD.finditer(text[:LINE_CHARS].replace("_", " "))}
    return frozenset(word.removesuffix("s") for word in found if word not in _STOP_WORDS)


def words_of_place(source: Source, start: int) -> frozenset[str]:
    """Return the words that name the number at `start`: of its line, and of the header of its column."""
    text = source.text
    begin = text.rfind("\n", 0, start) + 1
    end = text.find("\n", start)
    line = text[begin : len(text) if end < 0 else end][:LINE_CHARS]
    return words(line) | words(_header(text, line, begin, start))


def _header(text: str, line: str, begin: int, start: int) -> str:
    """Return the header of the column: of a piped or comma-separated table, or of a frame as it is printed."""
    column_end = start - begin
    while column_end < len(line) and not line[column_end].isspace() and line[column_end] not in "|,":
        column_end += 1
    above = _lines_above(text, begin, 60)
    for mark in ("|", "\t", ","):
        if line.count(mark) >= 2 or (mark != "," and mark in line):
            column = line[: start - begin].count(mark)
            for other in reversed(above):
                if other.count(mark) == line.count(mark) and not any(map(str.isdigit, other)) and other.strip("|-: +="):
                    return other.split(mark)[column]
    for other in reversed(above):
        letters = other[: column_end + 1].rstrip()
        ends_there = len(other) >= column_end == len(letters) and letters[-1:].isalnum()
        if ends_there and not any(map(str.isdigit, other)):
            return letters.split()[-1]
    return ""


def _lines_above(text: str, begin: int, many: int) -> Sequence[str]:
    """Return up to `many` lines above, and not beyond an empty one."""
    first = max(0, begin - many * 200)
    lines = text[first : max(0, begin - 1)].split("\n")[-many:]
    for index in range(len(lines) - 1, -1, -1):
        if not lines[index].strip():
            return lines[index + 1 :]
    return lines
