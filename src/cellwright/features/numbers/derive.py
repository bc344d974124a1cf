"""Looks for one operation over seen numbers that gives a stated one: a difference, a share, a change."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from cellwright.features.numbers.match import Hit, interval
from cellwright.features.numbers.sources import Source, words
from cellwright.features.numbers.written import WrittenNumber
from cellwright.text import lazy_pattern

LINE_CHANCE = 0.05
SMALL_CHANCE = 0.05
OUTPUT_CHANCE = 0.02
PASSAGE_CHANCE = 0.15
SMALL_OUTPUT = 8
OUTPUT = 60
MOST_SOURCES = 12
SMALL_OUTPUTS = 4
"""Small outputs whose numbers are tried with one another's."""
UNSURE_CHANCE = 0.01
MOST_IN_LINES = 2_000
MOST_LINES_OF_A_WORD = 20
"""Outputs that are tried, the latest first."""

_TIMES = lazy_pattern(r"\s?(?:times|×|x\b|-?fold|per\b)")
_RATIO_BEFORE = lazy_pattern(r"\b(?:ratio|average|averag\w{1,4}|mean|per|rate|factor)\b")


class Term(Struct, frozen=True):
    """A number that an operation takes: its value and the place it was seen at; `text` if it is the answer's own."""

    value: float
    hit: Hit | None
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"{self.value:,.10g}"


class Derivation(Struct, frozen=True):
    """A way in which a number could have come about: `formula` in signs, `chance` that any number is met this way."""

    formula: str
    terms: tuple[Term, ...]
    chance: float
    sure: bool = True


Ranges = Iterator[tuple[float, float]]
ShortLines = dict[str, list[list[Term]]]


class _Operation(Struct, frozen=True):
    """An operation of two terms: `partners` gives the ranges of the second term that lead into an interval."""

    formula: str
    partners: Callable[[float, float, float], Ranges]


def _of_difference(a: float, low: float, high: float) -> Ranges:
    yield a - high, a - low


def _of_difference_of_shares(a: float, low: float, high: float) -> Ranges:
    if a <= 1:
        yield a - high / 100, a - low / 100


def _of_sum(a: float, low: float, high: float) -> Ranges:
    yield low - a, high - a


def _of_product(a: float, low: float, high: float) -> Ranges:
    yield low / a, high / a


def _of_ratio(a: float, low: float, high: float) -> Ranges:
    yield a / high, a / low


def _of_share(a: float, low: float, high: float) -> Ranges:
    yield max(a, 100 * a / high), 100 * a / low


def _of_share_of_sum(a: float, low: float, high: float) -> Ranges:
    if low < 100:
        yield a * (100 / min(high, 100.0) - 1), a * (100 / low - 1)


def _of_change(a: float, low: float, high: float) -> Ranges:
    yield a / (1 + high / 100), a / (1 + low / 100)
    if low < 100:
        yield a / (1 - low / 100), a / (1 - min(high, 99.99) / 100)


_DIFFERENCE = _Operation("{a} − {b}", _of_difference)
_DIFFERENCE_OF_SHARES = _Operation("{a} − {b}", _of_difference_of_shares)
_SUM = _Operation("{a} + {b}", _of_sum)
_PRODUCT = _Operation("{a} × {b}", _of_product)
_RATIO = _Operation("{a} ÷ {b}", _of_ratio)
_SHARE = _Operation("{a} ÷ {b}", _of_share)
_SHARE_OF_SUM = _Operation("{a} ÷ ({a} + {b})", _of_share_of_sum)
_CHANGE = _Operation("{a} ÷ {b} − 1", _of_change)


def derive(
    number: WrittenNumber,
    before: str,
    after: str,
    passage: Sequence[Term],
    outputs: Sequence[Source],
    lines: Callable[[Source], ShortLines],
) -> Derivation | None:
    """Return the likeliest single operation that gives `number`, if chance alone would seldom find one.

    `before` and `after` are the words around it in its sentence; `passage` are traced numbers near it; `outputs` are
    sources that hold data, the latest first, `lines` their short lines. Only numbers of two digits and more are tried.
    """
    if number.digits < 2:
        return None
    near = words(before + " " + after)
    is_ratio = _TIMES.match(after) is not None or _RATIO_BEFORE.search(before[-60:]) is not None
    for terms, limit, in_passage in _pools(number, passage, outputs[:MOST_SOURCES], near, lines):
        if (found := _from(number, terms, is_ratio, limit, in_passage=in_passage)) is not None:
            return found
    for source in outputs[:MOST_SOURCES]:
        if (found := _whole_sum(number, source)) is not None:
            return found
    return None


def _pools(
    number: WrittenNumber,
    passage: Sequence[Term],
    outputs: Sequence[Source],
    near: frozenset[str],
    lines: Callable[[Source], ShortLines],
) -> Iterator[tuple[Sequence[Term], float, bool]]:
    """Yield the terms that are tried with one another, with the chance that is accepted, the nearest first."""
    yield [term for term in passage if term.text != number.text], PASSAGE_CHANCE, True
    for source in outputs:
        if len(source.values) <= SMALL_OUTPUT:
            yield _terms(source), SMALL_CHANCE, False
        elif len(source.values) <= OUTPUT and number.digits >= 3:
            yield _terms(source), OUTPUT_CHANCE, False
        by_word = lines(source)
        for word in near:
            for terms in by_word.get(word, ()):
                yield terms, LINE_CHANCE, False
    small = [source for source in outputs if 0 < len(source.values) <= SMALL_OUTPUT][:SMALL_OUTPUTS]
    for index, one in enumerate(small):
        for other in small[index + 1 :]:
            yield [*_terms(one), *_terms(other)], OUTPUT_CHANCE, False


def _terms(source: Source) -> list[Term]:
    return [Term(value, Hit(source, index)) for index, value in enumerate(source.values)]


def _from(
    number: WrittenNumber, terms: Sequence[Term], is_ratio: bool, limit: float, *, in_passage: bool
) -> Derivation | None:
    """Return an operation over `terms` that gives the number, unless their results cover too many numbers."""
    usable = [term for term in terms if term.value > 0 and term.value not in (1, 100)]
    usable.sort(key=lambda term: term.value)
    low, high = interval(number)
    if low <= 0 or not usable:
        return None
    if number.form != "plain":
        operations = [_SHARE, _CHANGE, _SHARE_OF_SUM, _DIFFERENCE, _DIFFERENCE_OF_SHARES]
    else:
        operations = [_DIFFERENCE, _SUM, *([_RATIO] if is_ratio else []), *([_PRODUCT] if in_passage else [])]
    one, near_one = _of_one(number, usable, low, high)
    two, near_two = _of_two(number, usable, operations, low, high)
    found = two if one is None or (two is not None and not one.sure) else one
    if found is None:
        return None
    chance = min(1.0, max(0, near_one + near_two) / max(1.0, 1.5 * number.value / number.resolution))
    if chance > (limit if found.sure else min(limit, UNSURE_CHANCE)):
        return None
    return Derivation(found.formula, found.terms, chance, found.sure)


def _of_two(
    number: WrittenNumber, terms: Sequence[Term], operations: Sequence[_Operation], low: float, high: float
) -> tuple[Derivation | None, int]:
    """Return an operation of two terms that gives the number, and how many give another one near it.

    The second term is looked up among the sorted ones, so that all pairs are never formed.
    """
    values = [term.value for term in terms]
    found: Derivation | None = None
    near = 0
    for first, a in enumerate(terms):
        for operation in operations:
            for from_, to in operation.partners(a.value, number.value / 2, number.value * 2):
                near += bisect_right(values, to) - bisect_left(values, from_) - (from_ <= a.value <= to)
            for from_, to in operation.partners(a.value, low, high):
                for second in range(bisect_left(values, from_), bisect_right(values, to)):
                    b = terms[second]
                    if second != first and number.value not in (a.value, b.value):
                        near -= 1
                        found = found or Derivation(operation.formula.format(a=a, b=b), (a, b), 0.0)
    return found, near


def _of_one(number: WrittenNumber, terms: Sequence[Term], low: float, high: float) -> tuple[Derivation | None, int]:
    """Return the operation of one term that gives the number, and how many give one near it."""
    found: Derivation | None = None
    near = 0
    for term in terms:
        for value, formula, sure in _results_of_one(term, number.form != "plain"):
            if low <= value <= high and number.value != term.value:
                if found is None or (sure and not found.sure):
                    found = Derivation(formula, (term,), 0.0, sure)
            elif number.value / 2 <= value <= 2 * number.value:
                near += 1
    return found, near


def _results_of_one(term: Term, percent: bool) -> Iterator[tuple[float, str, bool]]:
    if percent:
        if term.value < 1:
            yield 100 - 100 * term.value, f"100 % − {100 * term.value:.10g} %", True
        elif term.value < 100:
            yield 100 - term.value, f"100 % − {term.value:.10g} %", True
        if 0.1 < term.value < 10:
            yield abs(100 * (term.value - 1)), f"{term} − 1", True
    elif term.value < 50:
        yield math.exp(term.value), f"exp({term})", False
        yield math.exp(-term.value), f"exp(−{term})", False
        yield 1 / term.value, f"1 ÷ {term}", False


def _whole_sum(number: WrittenNumber, source: Source) -> Derivation | None:
    """Return the sum, the mean or a share of the sum of all numbers of a small output."""
    many = len(source.values)
    if not 3 <= many <= SMALL_OUTPUT * 2 or number.digits < 3:
        return None
    total = math.fsum(source.values)
    low, high = interval(number)
    terms = tuple(_terms(source))
    if number.form == "plain":
        if low <= total <= high:
            return Derivation(f"the sum of {many} numbers", terms, 0.0)
        if low <= total / many <= high:
            return Derivation(f"the mean of {many} numbers", terms, 0.0)
    elif total:
        for term in terms:
            if low <= 100 * term.value / total <= high:
                return Derivation(f"{term} of the sum {total:,.10g}", (term,), 0.0)
    return None


def short_lines(source: Source) -> ShortLines:
    """Return the terms of the lines that hold two to four numbers, by the words of these lines."""
    by_word: ShortLines = {}
    if len(source.values) > MOST_IN_LINES:
        return by_word
    lines: dict[int, list[int]] = {}
    for index, start in enumerate(source.starts):
        lines.setdefault(source.text.rfind("\n", 0, start), []).append(index)
    for begin, indexes in lines.items():
        if 2 <= len(indexes) <= 4:
            end = source.text.find("\n", begin + 1)
            terms = [Term(source.values[index], Hit(source, index)) for index in indexes]
            for word in words(source.text[begin + 1 : len(source.text) if end < 0 else end]):
                if len(entry := by_word.setdefault(word, [])) < MOST_LINES_OF_A_WORD:
                    entry.append(terms)
    return by_word
