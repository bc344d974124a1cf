"""Looks a number up in what was seen: by an interval, at a known rate of chance hits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from cellwright.features.numbers.sources import Source, words_of_place
from cellwright.features.numbers.written import WrittenNumber

CHANCE = 0.05
"""The share of random numbers of the same form that may be accepted."""
ONE_DIGIT_CHANCE = 0.01
ONE_WORD_CHANCE = 0.30
TWO_WORDS_CHANCE = 0.60
FEW_NUMBERS = 1_000
COUNTED_APART = 64
MOST_HITS = 40
MOST_READ = 8
"""Places of a number that are compared by their words."""

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
    rounded = number.zeros > 0 and not any(_is_exact(number, hit) for hit in hits)
    limit = ONE_DIGIT_CHANCE if number.digits < 2 else CHANCE
    shared, hit = 0, hits[0]  # of the latest source
    if near and (chance > limit or len(hits) > 1):
        ranked = [(len(near & words_of_place(each.source, each.start)), each) for each in hits[:MOST_READ]]
        shared, hit = max(ranked, key=lambda entry: entry[0])
    if number.digits < 2 and rounded and hit.source.kind == "code":
        limit = 0.0
    enough = 2 if hit.source.kind == "code" and number.digits < 2 else 1
    by_words = (shared >= enough and chance <= ONE_WORD_CHANCE) or (shared >= 2 and chance <= TWO_WORDS_CHANCE)
    told = chance <= limit or by_words
    return Match(hit, chance, told, len(hits))


def _is_exact(number: WrittenNumber, hit: Hit) -> bool:
    return abs(hit.value - number.value) <= number.resolution / 2


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
        for index in source.within(low, high)[:MOST_HITS]:
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
