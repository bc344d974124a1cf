"""The source of one number: looked up in what was seen, or derived from seen numbers by one operation.

A number is matched by an interval, at a known rate of chance hits. Operations are a difference, a share, a change.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from cellwright.features.numbers.sources import Source, words, words_of_place
from cellwright.features.numbers.written import WrittenNumber
from cellwright.text import lazy_pattern

CHANCE = 0.05
"""The share of random numbers of the same form that may be accepted."""
ONE_WORD_CHANCE = 0.30
TWO_WORDS_CHANCE = 0.60
FEW_NUMBERS = 1_000
COUNTED_APART = 64

_UNIT_WORDS: dict[str, tuple[float, ...]] = {
    **{"minutes": (60.0,), "minute": (60.0,), "min": (60.0,), "mins": (60.0,)},
    **{"hours": (3600.0, 60.0), "hour": (3600.0, 60.0), "hrs": (3600.0, 60.0), "h": (3600.0, 60.0)},
    **{"days": (86400.0, 24.0), "ms": (1e-3,), "milliseconds": (1e-3,), "seconds": (1e-3, 60.0), "s": (1e-3,)},
    **{
        "kb": (1e3, 1024.0),
        "mb": (1e6, 1024.0**2, 1e3),
        "gb": (1e9, 1024.0**3, 1e3, 1024.0),
        "tb": (1e12, 1024.0**4, 1e3),
    },
    **{"kib": (1024.0,), "mib": (1024.0**2, 1024.0), "gib": (1024.0**3, 1024.0**2, 1024.0), "tib": (1024.0**4,)},
    **{
        "km": (1e3,),
        "kg": (1e3,),
        "m": (1e-2, 1e-3),
        "cm": (1e-2, 10.0),
        "mm": (1e-3,),
        "tonnes": (1e3,),
        "kwh": (1e3,),
    },
}

LINE_CHANCE = 0.05
SMALL_CHANCE = 0.05
OUTPUT_CHANCE = 0.02
PASSAGE_CHANCE = 0.15
SMALL_OUTPUT = 8
OUTPUT = 60
MOST_SOURCES = 12
"""Outputs that are tried, the latest first."""
UNSURE_CHANCE = 0.01

_TIMES = lazy_pattern(r"\s?(?:times|×|x\b|-?fold|per\b)")
_RATIO_BEFORE = lazy_pattern(r"\b(?:ratio|average|averag\w{1,4}|mean|per|rate|factor)\b")


class Hit(Struct, frozen=True):
    """A number that was seen: `index` is its position in the source's values."""

    source: Source
    index: int

    @property
    def value(self) -> float:
        return self.source.values[self.index]

    @property
    def start(self) -> int:
        return self.source.starts[self.index]


class Match(Struct, frozen=True):
    """The likeliest place of a number, the chance that a random number would have matched, and whether that is told apart.

    `converted`: by a unit word, as seconds are minutes. `hits` is how many places matched.
    """

    hit: Hit
    chance: float
    told: bool
    hits: int
    converted: bool = False


class _Scale(Struct, frozen=True):
    """A number as the seen one may be written: the seen number times `factor` is the stated one."""

    factor: float
    percents_only: bool = False
    no_plain_wholes: bool = False


def look_up(
    number: WrittenNumber, tiers: Sequence[Sequence[Source]], near: frozenset[str], unit_word: str
) -> Match | None:
    """Return the match of `number` in the first of the tiers that tells it from chance, else the best.

    `near` are the words of the number's sentence, `unit_word` the word behind it.
    """
    best: Match | None = None
    for sources in tiers:
        if not sources:
            continue
        match = _look_up(number, sources, near)
        if match is not None and match.told:
            return match
        if match is not None and (best is None or match.chance < best.chance):
            best = match
    factors = _UNIT_WORDS.get(unit_word.lower(), ())
    if factors and number.digits >= 2:
        for sources in tiers:
            if sources and (converted := _by_unit(number, sources, factors)) is not None:
                return converted
    return best


def _look_up(number: WrittenNumber, sources: Sequence[Source], near: frozenset[str]) -> Match | None:
    hits, chance = _hits_and_chance(number, sources, _scales(number), near)
    if not hits:
        return None
    rounded = number.zeros > 0 and not any(abs(hit.value - number.value) <= number.resolution / 2 for hit in hits)
    limit = 0.01 if number.digits < 2 else CHANCE
    shared, hit = 0, hits[0]  # of the latest source
    if near and (chance > limit or len(hits) > 1):
        ranked = [(len(near & words_of_place(each.source, each.start)), each) for each in hits[:8]]
        shared, hit = max(ranked, key=lambda entry: entry[0])
    if number.digits < 2 and rounded and hit.source.kind == "code":
        limit = 0.0
    enough = 2 if hit.source.kind == "code" and number.digits < 2 else 1
    by_words = (shared >= enough and chance <= ONE_WORD_CHANCE) or (shared >= 2 and chance <= TWO_WORDS_CHANCE)
    told = chance <= limit or by_words
    return Match(hit, chance, told, len(hits))


def _scales(number: WrittenNumber) -> tuple[_Scale, ...]:
    if number.form == "percent":
        return _Scale(1.0, no_plain_wholes=True), _Scale(100.0)
    if number.form == "points":
        return _Scale(1.0), _Scale(100.0)
    if number.unit > 1:
        return _Scale(1.0), _Scale(number.unit)
    if 0 < number.value <= 1:
        return _Scale(1.0), _Scale(0.01, percents_only=True)
    return (_Scale(1.0),)


def _resolutions(number: WrittenNumber) -> tuple[float, ...]:
    """Return the steps that the number may be rounded to: its last digit's, and its last that is not zero."""
    if number.zeros and (number.digits >= 2 or number.hedged):
        return number.resolution, number.resolution * 10.0**number.zeros
    return (number.resolution,)


def interval(number: WrittenNumber) -> tuple[float, float]:
    """Return the numbers that `number` may stand for, rounded or cut off."""
    low, high = math.inf, -math.inf
    for step in _resolutions(number):
        low, high = min(low, number.value - step / 2), max(high, number.value + step / 2)
    slack = 1e-9 * max(abs(low), abs(high))
    cut_off = number.value + number.resolution * (1 - 1e-9)
    return low - slack, max(high + slack, cut_off)


def _hits_and_chance(
    number: WrittenNumber, sources: Sequence[Source], scales: Sequence[_Scale], near: frozenset[str]
) -> tuple[list[Hit], float]:
    low, high = interval(number)
    hits: list[Hit] = []
    chance = 0.0
    for scale in scales:
        found = _within(sources, low / scale.factor, high / scale.factor)
        hits += [hit for hit in found if _counts(scale, hit, number, near)]
        chance += chance_of(number, sources, scale.factor, scale.percents_only)
    return hits, min(1.0, chance)


def _within(sources: Sequence[Source], low: float, high: float) -> Iterator[Hit]:
    for source in sources:
        for index in source.within(low, high)[:40]:
            yield Hit(source, index)


def _counts(scale: _Scale, hit: Hit, number: WrittenNumber, near: frozenset[str]) -> bool:
    percent = bool(hit.source.percents[hit.index])
    if scale.percents_only:
        return percent
    if scale.no_plain_wholes and not percent and hit.value == int(hit.value) and number.resolution >= 1:
        return bool(near & words_of_place(hit.source, hit.start))
    return True


def chance_of(
    number: WrittenNumber, sources: Sequence[Source], factor: float = 1.0, percents_only: bool = False
) -> float:
    """Return the share of numbers of the same form between half and twice `number` that the sources would match.

    That is the share of intervals of one resolution that hold a seen number; of many numbers, as if they lay at random.
    """
    if number.value <= 0:
        return 1.0
    low, high = number.value / 2 / factor, number.value * 2 / factor
    step = max(_resolutions(number)) / factor
    cells = max(1.0, 1.5 * number.value / factor / step)
    many = 0
    apart: set[int] = set()
    for source in sources:
        positions = source.within(low, high)
        if percents_only:
            positions_of_percents = [index for index in positions[: 4 * COUNTED_APART] if source.percents[index]]
            many += len(positions_of_percents)
            apart.update(int(source.values[index] / step) for index in positions_of_percents[:COUNTED_APART])
            continue
        many += len(positions)
        if many <= COUNTED_APART:
            apart.update(int(source.values[index] / step) for index in positions)
    if many <= COUNTED_APART:
        return min(1.0, len(apart) / cells)
    return 1.0 - math.exp(-many / cells)


def _by_unit(number: WrittenNumber, sources: Sequence[Source], factors: Sequence[float]) -> Match | None:
    low, high = interval(number)
    for factor in factors:
        hits = list(_within(sources, low * factor, high * factor))
        chance = chance_of(number, sources, 1.0 / factor)
        if hits and chance <= CHANCE:
            return Match(hits[0], chance, True, len(hits), converted=True)
    return None


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


Ranges = Iterable[tuple[float, float]]
ShortLines = dict[str, list[list[Term]]]


class _Operation(Struct, frozen=True):
    """An operation of two terms: `partners` gives the ranges of the second term that lead into an interval."""

    formula: str
    partners: Callable[[float, float, float], Ranges]


def _of_change(a: float, low: float, high: float) -> Ranges:
    yield a / (1 + high / 100), a / (1 + low / 100)
    if low < 100:
        yield a / (1 - low / 100), a / (1 - min(high, 99.99) / 100)


_DIFFERENCE = _Operation("{a} − {b}", lambda a, low, high: [(a - high, a - low)])
_DIFFERENCE_OF_SHARES = _Operation(
    "{a} − {b}", lambda a, low, high: [(a - high / 100, a - low / 100)] if a <= 1 else []
)
_SUM = _Operation("{a} + {b}", lambda a, low, high: [(low - a, high - a)])
_PRODUCT = _Operation("{a} × {b}", lambda a, low, high: [(low / a, high / a)])
_RATIO = _Operation("{a} ÷ {b}", lambda a, low, high: [(a / high, a / low)])
_SHARE = _Operation("{a} ÷ {b}", lambda a, low, high: [(max(a, 100 * a / high), 100 * a / low)])
_SHARE_OF_SUM = _Operation(
    "{a} ÷ ({a} + {b})",
    lambda a, low, high: [(a * (100 / min(high, 100.0) - 1), a * (100 / low - 1))] if low < 100 else [],
)
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
    small = [source for source in outputs if 0 < len(source.values) <= SMALL_OUTPUT][:4]
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
    if len(source.values) > 2_000:
        return by_word
    lines: dict[int, list[int]] = {}
    for index, start in enumerate(source.starts):
        lines.setdefault(source.text.rfind("\n", 0, start), []).append(index)
    for begin, indexes in lines.items():
        if 2 <= len(indexes) <= 4:
            end = source.text.find("\n", begin + 1)
            terms = [Term(source.values[index], Hit(source, index)) for index in indexes]
            for word in words(source.text[begin + 1 : len(source.text) if end < 0 else end]):
                if len(entry := by_word.setdefault(word, [])) < 20:
                    entry.append(terms)
    return by_word
