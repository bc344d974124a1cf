"""Finds a number of an answer in the output of the same code that ran again: at its place, or computed from its terms."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from cellwright.events import Number
from cellwright.features.numbers.places import (
    Lines,
    Place,
    find_place,
    is_negative,
    lines_of,
    nearest_rank,
    numbers_in,
    signed_numbers_in,
    value_at,
)
from cellwright.features.numbers.sources import Source
from cellwright.text import lazy_pattern

_N = r"([\d.,]+(?:e[+-]?\d+)?)"
_SCALES = (1.0, 100.0, 0.01, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)
_CLOSE = 0.03

Texts = Mapping[str, Lines]
"""The outputs of one rerun, by the id of the call or cell."""


def _formula(pattern: str) -> re.Pattern[str]:
    return lazy_pattern(pattern.replace("N", _N))


_FORMULAS: Sequence[tuple[re.Pattern[str], Callable[..., float]]] = (
    (_formula(r"N ÷ \(N \+ N\)"), lambda a, _, b: a / (a + b)),
    (_formula("N ÷ N − 1"), lambda a, b: a / b - 1),
    (_formula("N − N"), lambda a, b: a - b),
    (_formula(r"N \+ N"), lambda a, b: a + b),
    (_formula("N × N"), lambda a, b: a * b),
    (_formula("N ÷ N"), lambda a, b: a / b),
    (_formula("100 % − N %"), lambda a: 100 - a),
    (_formula(r"exp\(N\)"), math.exp),
    (_formula(r"exp\(−N\)"), lambda a: math.exp(-a)),
    (_formula("N in another unit"), lambda a: a),
)
"""The operations as `numbers/match.py` writes them. Longer ones come first."""
_OF_ALL = lazy_pattern(r"the (?P<what>sum|mean) of \d+ numbers|(?P<term>[\d.,]+(?:e[+-]?\d+)?) of the sum .+")
"""Formulas over all numbers of one output."""
_SIMPLE_ONE: Sequence[tuple[re.Pattern[str], Callable[[float], float]]] = (
    (_formula("N − 1"), lambda a: a - 1),
    (_formula("1 ÷ N"), lambda a: 1 / a),
)


class Term(Struct, frozen=True):
    """The place of a seen number: the call or cell `step`, and where in its output. `scale` times the number is the term.

    `label`: the number that its line begins with, if that tells it from other lines.
    """

    step: str
    place: Place
    label: float | None
    scale: float = 1.0

    def value(self, texts: Texts) -> float | None:
        """Return the number that stands there, with its sign; None if it cannot be told which it is."""
        lines = texts.get(self.step)
        if lines is None:
            return None
        same = [at for at, found in enumerate(lines.hashes) if found == self.place.line]
        if self.label is not None:  # rows that say the same but for their numbers are told apart by the first of these
            same = [at for at in same if numbers_in(lines.texts[at])[:1] == [self.label]]
            if len(same) != 1:
                return None
        elif value_at(self.place, lines) is None:
            return None
        found = signed_numbers_in(lines.texts[same[self.place.nth if len(same) == self.place.many else 0]])
        return found[self.place.rank] * self.scale if self.place.rank < len(found) else None


class Followed(Struct, frozen=True):
    """A number that can be read again. `then` is its value by the texts it came from, in the unit of the answer."""

    terms: tuple[Term, ...]
    operation: Callable[..., float]
    scale: float
    then: float

    def value(self, texts: Texts) -> float | None:
        """Return the number by the outputs of a rerun; None if a term is not there, or there is no such number."""
        found = [term.value(texts) for term in self.terms]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            return None
        try:
            result = self.operation(*values) * self.scale
        except (ArithmeticError, ValueError):
            return None
        return result if math.isfinite(result) else None


def follow(number: Number, answer: str, numbers: Sequence[Number], sources: Sequence[Source]) -> Followed | None:
    """Return how to find `number` of `answer`, which states `numbers`, again; None if it was not seen in an output.

    `sources` are what the conversation has seen, the latest last.
    """
    if number.source is None or number.source.kind not in ("output", "cell"):
        return None
    stated = -number.value if is_negative(answer, number.start) else number.value
    if number.verdict == "seen":
        term = _term_of_seen(number, sources)
        return None if term is None else _followed((term,), lambda a: a, number, stated, sources)
    if number.verdict != "derived":
        return None
    if match := _OF_ALL.fullmatch(number.formula):
        return _follow_all(match, number, stated, sources)
    for pattern, operation in (*_SIMPLE_ONE, *_FORMULAS):
        if match := pattern.fullmatch(number.formula):
            terms = [_term(text, number, numbers, sources) for text in match.groups()]
            if any(term is None for term in terms):
                return None
            return _followed(tuple(term for term in terms if term is not None), operation, number, stated, sources)
    return None


def _follow_all(match: re.Match[str], number: Number, stated: float, sources: Sequence[Source]) -> Followed | None:
    """Return how to find the sum or the mean of an output's numbers again, or the share of one of them in the sum."""
    operation = _mean if match["what"] == "mean" else _share if match["term"] else _sum
    place = number.source
    assert place is not None
    for source in reversed(sources):
        if (source.kind, source.name, source.id) != (place.kind, place.name, place.id):
            continue
        terms = _all_terms(source)
        if terms is not None and match["term"]:
            first = [at for at, value in enumerate(source.values) if f"{value:,.10g}" == match["term"]]
            terms = [terms[first[0]], *terms] if first else None
        if terms is not None:
            found = _followed(tuple(terms), operation, number, stated, sources)
            if found is not None and abs(found.then - stated) <= number.resolution:
                return found
    return None


def _sum(*values: float) -> float:
    return math.fsum(values)


def _mean(*values: float) -> float:
    return math.fsum(values) / len(values)


def _share(part: float, *values: float) -> float:
    return part / math.fsum(values)


def _all_terms(source: Source) -> list[Term] | None:
    """Return the place of each number of the source, in the order of its values; None if one is not found again."""
    lines = lines_of(source.text)
    terms: list[Term] = []
    taken: set[tuple[int, int]] = set()
    for value, start in zip(source.values, source.starts, strict=True):
        line, words = source.line(start)
        ranks = [rank for rank, seen in enumerate(numbers_in(words)) if seen == value and (line, rank) not in taken]
        if not ranks or line > len(lines.texts):
            return None
        taken.add((line, ranks[0]))
        terms.append(_term_at(source, lines, line - 1, ranks[0]))
    return terms


def _followed(
    terms: tuple[Term, ...], operation: Callable[..., float], number: Number, stated: float, sources: Sequence[Source]
) -> Followed | None:
    texts = {term.step: lines_of(_of_step(term.step, term, sources).text) for term in terms}
    unscaled = Followed(terms, operation, 1.0, 0.0).value(texts)
    if unscaled is None:
        return None
    if unscaled == 0 or stated == 0:
        return Followed(terms, operation, 1.0, unscaled)
    ratio = abs(stated / unscaled)
    scale = min(_SCALES, key=lambda each: abs(math.log(ratio / each)))
    if abs(math.log(ratio / scale)) > _CLOSE and abs(abs(unscaled) * scale - abs(stated)) > number.resolution:
        scale = ratio  # by another unit, as seconds are minutes
    # "fell by 12 %" of −0.12
    scale = math.copysign(scale, stated * unscaled)
    return Followed(terms, operation, scale, unscaled * scale)


def _of_step(step: str, term: Term, sources: Sequence[Source]) -> Source:
    """Return the source of the step that has the term's line."""
    found = [source for source in sources if source.id == step and source.kind in ("output", "cell")]
    return next((each for each in reversed(found) if term.place.line in lines_of(each.text).hashes), found[-1])


def _term_of_seen(number: Number, sources: Sequence[Source]) -> Term | None:
    place = number.source
    assert place is not None
    for source in reversed(sources):
        if (source.kind, source.name, source.id) != (place.kind, place.name, place.id):
            continue
        lines = lines_of(source.text)
        index = place.line - 1 if place.line else _only_line(lines)
        if index is None or index >= len(lines.texts):
            continue
        rank = nearest_rank(lines.texts[index], number.value)
        if rank is not None:
            return _term_at(source, lines, index, rank)
    return None


def _term(text: str, number: Number, numbers: Sequence[Number], sources: Sequence[Source]) -> Term | None:
    """Return the place of a term of the formula of `number`: one of the answer's own numbers, or one in an output."""
    for other in numbers:
        if other.text == text and other is not number and other.verdict == "seen" and other.source is not None:
            found = _term_of_seen(other, sources)
            if found is not None and other.source.kind in ("output", "cell"):
                return found
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    assert number.source is not None
    first = [each for each in sources if (each.name, each.id) == (number.source.name, number.source.id)]
    for source in (*reversed(first), *reversed(sources)):
        if source.kind not in ("output", "cell"):
            continue
        lines = lines_of(source.text)
        for scale in (1.0, 100.0):
            slack = 1e-9 * value
            for at in source.within(value / scale - slack, value / scale + slack):
                line, words = source.line(source.starts[at])
                ranks = [rank for rank, seen in enumerate(numbers_in(words)) if abs(seen - value / scale) <= slack]
                if ranks and line <= len(lines.texts):
                    return _term_at(source, lines, line - 1, ranks[0], scale)
    return None


def _term_at(source: Source, lines: Lines, index: int, rank: int, scale: float = 1.0) -> Term:
    place = find_place(lines, index, rank)
    label = None
    if place.many > 1 and place.rank > 0:
        firsts = [
            (numbers_in(line) or [math.nan])[0]
            for line, found in zip(lines.texts, lines.hashes, strict=True)
            if found == place.line
        ]
        if len(set(firsts)) == len(firsts) and all(first == int(first) for first in firsts if first == first):
            label = firsts[place.nth]
    return Term(source.id, place, label, scale)


def _only_line(lines: Lines) -> int | None:
    return next((at for at, line in enumerate(lines.texts) if line.strip()), None)
