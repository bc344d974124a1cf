"""Places of seen numbers, found again after their text has changed: a cell that ran again, a file that was written."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

from msgspec import Struct

from cellwright.events import Number
from cellwright.text import lazy_pattern

_TOKEN = lazy_pattern(
    r"\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?(?![\d,])|(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?"
)
_RULE = lazy_pattern(r"([-=─━+|])\1+")
_LINE_NUMBER = lazy_pattern(r"^\s*\d+[→\t]")
"""Stands before the lines of a file that was read with line numbers."""
LINE_CHARS = 4_000
MOST_CHARS = 400_000
_FACTORS = (1.0, 0.01, 100.0, 1e-3, 1e3, 1e-6, 1e6, 1e-9, 1e9)
"""Of a stated number over the seen one: percentages, thousands, millions."""


class Place(Struct, frozen=True, kw_only=True):
    """The place of a seen number, without its text: `value` stood as number `rank` of its line, both from 0.

    `line` is a hash of the line without its numbers; the line was the one of index `nth` of `many` such lines.
    """

    line: str
    nth: int
    many: int
    rank: int
    value: float


class Lines(Struct, frozen=True):
    """The lines of a text, in order, each as the hash of what it says besides its numbers."""

    texts: Sequence[str]
    hashes: Sequence[str]


def lines_of(text: str) -> Lines:
    """Return the lines of `text`, up to 400,000 characters of it."""
    texts = [line[:LINE_CHARS] for line in text[:MOST_CHARS].split("\n")]
    return Lines(texts, [_hash(line) for line in texts])


def _hash(line: str) -> str:
    bare = _TOKEN.sub("#", _LINE_NUMBER.sub("", line)).replace("-#", "#")
    bare = " ".join(_RULE.sub(r"\1", bare).split())
    return hashlib.sha256(bare.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def numbers_in(line: str) -> list[float]:
    """Return the numbers of a line without signs, as `rank` counts them.

    >>> numbers_in("mean  41.37  -1,204 3e-5")
    [41.37, 1204.0, 3e-05]
    """
    return [abs(number) for number in signed_numbers_in(line)]


def signed_numbers_in(line: str) -> list[float]:
    """Return the numbers of a line as `numbers_in`, with their signs; a hyphen between two numbers is none.

    >>> signed_numbers_in("b  -0.31  2024-25")
    [-0.31, 2024.0, 25.0]
    """
    start = match.end() if (match := _LINE_NUMBER.match(line)) else 0
    line = line[:LINE_CHARS]
    return [
        float(token[0].replace(",", "")) * (-1 if is_negative(line, token.start()) else 1)
        for token in _TOKEN.finditer(line, start)
    ]


def is_negative(line: str, at: int) -> bool:
    """Return whether a minus sign stands before the number at `at`; a hyphen between two words or numbers is none."""
    before = line[max(0, at - 2) : at]
    return before[-1:] in ("-", "−") and not (len(before) == 2 and (before[0].isalnum() or before[0] in "_.)]"))


def find_place(lines: Lines, index: int, rank: int) -> Place:
    """Return the place of number `rank` of line `index`."""
    same = [at for at, found in enumerate(lines.hashes) if found == lines.hashes[index]]
    value = numbers_in(lines.texts[index])[rank]
    return Place(line=lines.hashes[index], nth=same.index(index), many=len(same), rank=rank, value=value)


def value_at(place: Place, lines: Lines) -> float | None:
    """Return the number that stands at the place now; None if it cannot be told, as its line is gone or not the only one.

    >>> was, now = lines_of("count 812\\nmean 2.4"), lines_of("count 790\\nmean 2.6")
    >>> value_at(find_place(was, 1, 0), now)
    2.6
    """
    same = [at for at, found in enumerate(lines.hashes) if found == place.line]
    if len(same) != place.many and len(same) != 1:
        return None
    if len(same) == 1 and place.many > 1:
        return None
    found = numbers_in(lines.texts[same[place.nth if len(same) == place.many else 0]])
    return found[place.rank] if place.rank < len(found) else None


def nearest_rank(line: str, value: float) -> int | None:
    """Return which number of a line is the likeliest source of `value`, as it is or as a percentage or in thousands."""
    best: tuple[float, int] | None = None
    for rank, seen in enumerate(numbers_in(line)):
        if seen > 0 and value > 0:
            apart = min(abs(math.log(seen * factor / value)) for factor in _FACTORS)
            best = min(best or (apart, rank), (apart, rank))
        elif seen == value:
            return rank
    return best[1] if best else None


def still_says(stated: float, resolution: float, then: float, now: float) -> bool:
    """Return whether a number stated of the seen value `then` is right of `now` as well, rounded as it is.

    `resolution` is one step of the stated number's last digit.

    >>> still_says(14.8, 0.1, 0.1481, 0.1483), still_says(14.8, 0.1, 0.1481, 0.1525)
    (True, False)
    """
    if then == now:
        return True
    if then <= 0 or stated <= 0:
        return abs(now - stated) <= resolution
    factor = min(_FACTORS, key=lambda factor: abs(math.log(then * factor / stated)))
    if abs(then * factor - stated) > resolution and abs(math.log(then * factor / stated)) > 0.02:
        factor = stated / then  # by another unit, as seconds are minutes
    # rounded, cut off, or as far from it as the first value was: "about 40,000" of 40,112 holds for 40,090
    off = then * factor - stated
    low, high = max(resolution / 2, -off), max(resolution * (1 - 1e-9), off)
    return stated - low - 1e-9 * stated <= now * factor <= stated + high + 1e-9 * stated


def short(value: float) -> str:
    """Return a seen value in words: at most six significant digits, whole numbers with commas.

    >>> short(2.4000000001), short(68846.0), short(0.0043)
    ('2.4', '68,846', '0.0043')
    """
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return (
        re.sub(r"\.?0+$", "", f"{value:.6g}") if "e" not in f"{value:.6g}" and "." in f"{value:.6g}" else f"{value:.6g}"
    )


def rank_in_line(number: Number, line: str) -> int | None:
    """Return which number of the line is the source of `number`, or the first term of its formula; None if unknown."""
    if number.verdict == "derived":
        shown = {f"{value:,.10g}": rank for rank, value in reversed(list(enumerate(numbers_in(line))))}
        terms = re.findall(r"[\d,.]+(?:e[+-]?\d+)?", number.formula)
        return next((shown[term] for term in terms if term in shown), None)
    return nearest_rank(line, number.value)


def changed_words(name: str, then: float, now: float | None, *, derived: bool = False) -> str:
    """Return what became of a number's source.

    >>> changed_words("cell [3]", 2.4, 2.6), changed_words("cell [3]", 2.4, None)
    ('cell [3] gave 2.4 then, 2.6 now', 'cell [3] gave 2.4 then, and has no such line now')
    """
    what = f"it was computed from {short(then)} of {name}" if derived else f"{name} gave {short(then)} then"
    if now is None:
        return f"{what}, {'which' if derived else 'and'} has no such line now"
    return f"{what}, {'which is ' if derived else ''}{short(now)} now"
