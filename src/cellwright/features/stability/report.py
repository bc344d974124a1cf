"""The report on an answer's numbers: each found again in new output, its spread over resamples, and what that says.

A number is found at its place in the output of the same code that ran again, or computed from its terms. The report is a
table and a sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from cellwright.events import Number
from cellwright.features.numbers.sources import Source
from cellwright.features.numbers.stale import (
    Lines,
    Place,
    find_place,
    is_negative,
    lines_of,
    nearest_rank,
    numbers_in,
    short,
    signed_numbers_in,
    still_says,
    value_at,
)
from cellwright.markdown.escaping import escaped
from cellwright.text import counted, lazy_pattern

Kind = Literal["bootstrap", "leave_out", "permuted", "seed"]
KINDS: tuple[Kind, ...] = ("bootstrap", "permuted", "leave_out", "seed")

Verdict = Literal["no_signal", "signal", "spread", "independent", "reseeded", "changed", "not_followed"]

NO_SIGNAL_SHARE = 0.05
"""A number is no signal if more than this share of permuted labels gives one as far from the usual."""
_SAME = 1e-9

_COLUMNS: tuple[Kind, ...] = ("bootstrap", "permuted", "leave_out", "seed")

_N = r"([\d.,]+(?:e[+-]?\d+)?)"
_SCALES = (1.0, 100.0, 0.01, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)

Texts = Mapping[str, Lines]
"""The outputs of one rerun, by the id of the call or cell."""


class Spread(Struct, frozen=True):
    """The values of one number in the runs of one kind that gave it; `lost` runs gave none.

    `low` to `high` holds 95 % of them; all, if they are fewer than 20.
    """

    kind: Kind
    values: tuple[float, ...]
    lost: int = 0

    @property
    def low(self) -> float:
        return self._quantile(0.025)

    @property
    def high(self) -> float:
        return self._quantile(0.975)

    def _quantile(self, share: float) -> float:
        ordered = sorted(self.values)
        if len(ordered) < 20:
            return ordered[0] if share < 0.5 else ordered[-1]
        at = share * (len(ordered) - 1)
        below = math.floor(at)
        return ordered[below] + (at - below) * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])

    def is_constant(self, value: float) -> bool:
        """Return whether each run gave `value`."""
        return bool(self.values) and all(abs(each - value) <= _SAME * max(1.0, abs(value)) for each in self.values)


class NumberStability(Struct, frozen=True):
    """One number of the answer: `text` as written, `source` in words, and its spreads. `words` say what they mean.

    `again` is the value of a run on unchanged data; None if it could not be followed.
    """

    text: str
    source: str
    verdict: Verdict
    words: str
    again: float | None = None
    resolution: float = 0.0
    spreads: tuple[Spread, ...] = ()

    def spread(self, kind: Kind) -> Spread | None:
        """Return the spread over the runs of one kind, if any of them gave the number."""
        return next((each for each in self.spreads if each.kind == kind and each.values), None)

    @property
    def as_far_permuted(self) -> tuple[int, int]:
        """Return how many of how many permuted labels gave a number as far from the usual."""
        spread = self.spread("permuted")
        return (
            (0, 0) if spread is None or self.again is None else (as_far(self.again, spread.values), len(spread.values))
        )

    def range_text(self, kind: Kind) -> str:
        """Return `13.1–16.4` with the digits that the answer has; "" without a run of the kind."""
        spread = self.spread(kind)
        return "" if spread is None else in_words(spread.low, spread.high, self.resolution)


def in_words(low: float, high: float, resolution: float) -> str:
    """Return a range with as many digits as the number has, one more if both ends were the same.

    >>> in_words(13.08, 16.41, 0.1), in_words(-0.021, 0.3, 0.01), in_words(0.811, 0.814, 0.01), in_words(3, 3, 1)
    ('13.1–16.4', '−0.02 to 0.30', '0.811–0.814', '3')
    """
    decimals = max(0, -math.floor(math.log10(resolution) + 1e-9)) if resolution > 0 else 2
    ends = [f"{low:,.{decimals}f}", f"{high:,.{decimals}f}"]
    if ends[0] == ends[1] and not math.isclose(low, high, rel_tol=_SAME):
        ends = [f"{low:,.{decimals + 1}f}", f"{high:,.{decimals + 1}f}"]
    ends = [end.replace("-", "−") for end in ends]
    if ends[0] == ends[1]:
        return ends[0]
    return f"{ends[0]}{' to ' if low < 0 or high < 0 else '–'}{ends[1]}"


class Stated(Struct, frozen=True):
    """A number as the answer states it. `then`: its value by what was seen."""

    text: str
    value: float
    resolution: float
    source: str
    then: float


def judged(stated: Stated, again: float | None, spreads: Sequence[Spread], frame: str, label: str) -> NumberStability:
    """Say what the spreads mean for a number: first what would make them worthless, then the permuted label."""
    if again is not None and not any(each.values or each.lost for each in spreads):
        return not_followed(
            stated.text, stated.source, "not tested: no run came to its end in the time; seconds=N gives more"
        )
    verdict, words = _verdict(stated, again, {each.kind: each for each in spreads if each.values}, frame, label)
    return NumberStability(stated.text, stated.source, verdict, words, again, stated.resolution, tuple(spreads))


def not_followed(text: str, source: str, why: str) -> NumberStability:
    """Return the entry of a number that was not tested."""
    return NumberStability(text, source, "not_followed", why)


def _verdict(
    stated: Stated, again: float | None, spreads: dict[Kind, Spread], frame: str, label: str
) -> tuple[Verdict, str]:
    if again is None:
        return "not_followed", "cannot be followed: run again, the code prints no such line"
    resampled, left_out = spreads.get("bootstrap"), spreads.get("leave_out")
    permuted, seeds = spreads.get("permuted"), spreads.get("seed")
    if not still_says(abs(stated.value), stated.resolution, abs(stated.then), abs(again)):
        said = short(again)
        if seeds is not None and not seeds.is_constant(again):
            return "reseeded", f"depends on the seed: {said} with another one on the same data"
        return "changed", f"run again on the same data, the code gives {said}"
    if resampled is None and left_out is None:
        return "not_followed", "cannot be followed: on resampled data the output has another shape"
    data = [each for each in (resampled, left_out) if each is not None]
    if all(each.is_constant(again) for each in data):
        return "independent", f"does not depend on {frame}: the code reads its data elsewhere, or states a constant"
    if permuted is not None and not permuted.is_constant(again):
        return _by_permutation(again, permuted)
    lost = [each for each in data if each.lost > len(each.values)]
    if lost:
        return "spread", "seldom followed: on resampled data the output often has another shape"
    if resampled is not None and resampled.is_constant(again):
        return "spread", "set by the number of rows"
    return "spread", f"the same with a permuted {label}" if permuted is not None else ""


def _by_permutation(again: float, permuted: Spread) -> tuple[Verdict, str]:
    count, total = as_far(again, permuted.values), len(permuted.values)
    if count and (count + 1) / (total + 1) > NO_SIGNAL_SHARE:
        return "no_signal", f"could be chance ({count} of {total})"
    if total < 19:  # one that no permuted label reaches could still be chance at 5 %
        return "spread", f"too few to tell (0 of {total})"
    return "signal", f"holds ({count} of {total})"


def as_far(value: float, null: Sequence[float]) -> int:
    """Return how many values of `null` are as far from its middle as `value`, on either side.

    >>> as_far(0.9, [0.5, 0.4, 0.6, 0.1, 0.95]), as_far(0.99, [0.5, 0.4, 0.6])
    (2, 0)
    """
    ordered = sorted(null)
    half = len(ordered) // 2
    middle = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    off = abs(value - middle) * (1 - _SAME)
    return sum(abs(each - middle) >= off for each in null)


class StabilityReport(Struct, frozen=True):
    """The numbers of an answer on perturbed data. `done` and `planned` count runs by kind; `copies` are what they ran in."""

    frame: str
    rows_of_frame: int
    label: str
    by: str
    numbers: tuple[NumberStability, ...]
    done: Mapping[Kind, int]
    planned: Mapping[Kind, int]
    seed: int
    seconds: float
    copies: str
    unit: str = "rows"
    ran: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def no_signal(self) -> tuple[NumberStability, ...]:
        """The numbers that a permuted label gives as well."""
        return tuple(each for each in self.numbers if each.verdict == "no_signal")

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The table: the heads, then a row for each number that was tested."""
        heads = {
            "bootstrap": "resampled",
            "leave_out": "10 % left out",
            "seed": "another seed",
            "permuted": f"{self.label} permuted",
        }
        columns = [
            kind
            for kind in _COLUMNS
            if any(each.spread(kind) for each in self.numbers)
            and not (kind == "seed" and self.seeds_change_nothing)
            and not (kind == "leave_out" and self.no_tenth_matters)
        ]
        rows: list[tuple[str, ...]] = [("number", "verdict", *(heads[kind] for kind in columns))]
        for each in self.numbers:
            if each.verdict != "not_followed":
                mark = " (!)" if each.verdict in ("no_signal", "changed", "reseeded") else ""
                rows.append((each.text, f"{each.words}{mark}", *(each.range_text(kind) for kind in columns)))
        return rows

    @property
    def seeds_change_nothing(self) -> bool:
        """Return whether each number is the same with other seeds."""
        spreads = [(each.again, spread) for each in self.numbers if (spread := each.spread("seed")) is not None]
        return bool(spreads) and all(again is not None and spread.is_constant(again) for again, spread in spreads)

    @property
    def no_tenth_matters(self) -> bool:
        """Return whether each number stays within its resampled range if a tenth of the rows is left out."""
        pairs = [(each.spread("bootstrap"), each.spread("leave_out")) for each in self.numbers]
        both = [(wide, left_out) for wide, left_out in pairs if wide is not None and left_out is not None]
        return bool(both) and all(wide.low <= left_out.low and left_out.high <= wide.high for wide, left_out in both)

    @property
    def headline(self) -> str:
        """The answer to the question whether the numbers hold, in a sentence or two."""
        if len(self.rows) == 1:
            return "None of the numbers could be tested."
        stand = sum(each.verdict == "signal" for each in self.numbers)
        sentences = [
            *self._chance_words,
            f"{counted(stand, 'number')} {'holds' if stand == 1 else 'hold'}." if stand else "",
        ]
        return " ".join(filter(None, sentences)) or "How far each number moves on other rows:"

    @property
    def _chance_words(self) -> list[str]:
        """A sentence for each number that could be chance, one for all if there are several."""
        chance = self.no_signal
        texts = ", ".join(each.text for each in chance)
        if len(chance) != 1:
            return [f"{texts} could be chance: shuffles of {self.label} often gave as much."] if chance else []
        count, total = chance[0].as_far_permuted
        return [f"{texts} could be chance: {count} of {total} shuffles of {self.label} gave as much."]

    @property
    def how(self) -> list[str]:
        """The runs that were done, and how to read the table, a line each."""
        words: dict[Kind, str] = {
            "bootstrap": f"resamples of its {self.unit}",
            "leave_out": "samples without a tenth",
            "seed": "other seeds",
            "permuted": f"permutations of {self.label}",
        }
        short = any(self.done[kind] < self.planned[kind] for kind in self.planned)
        did = [
            f"{self.done[kind]}{f' of {self.planned[kind]}' if self.done[kind] < self.planned[kind] else ''} {what}"
            for kind, what in words.items()
            if self.planned[kind]
        ]
        same = [
            "without any tenth of the rows, the numbers stay within the resampled ranges"
            if self.no_tenth_matters
            else "",
            "another seed changes none of them" if self.seeds_change_nothing else "",
        ]
        tested = sum(each.verdict in ("signal", "no_signal") for each in self.numbers)
        by_chance = f"{tested * NO_SIGNAL_SHARE:.1f} of {tested} numbers would pass by chance"
        stable = "; ".join(filter(None, same))
        lines = [
            f"{self.frame} ({self.rows_of_frame:,} rows): {', '.join(did)}. A range holds 95 % of the runs.",
            "The time ran out: seconds=N gives more runs." if short else "",
            "" if self.label else "No label was permuted: label=COLUMN names one.",
            f"If none had a signal, about {by_chance}." if tested >= 5 else "",  # with few, chance says little
            f"{stable[0].upper()}{stable[1:]}." if stable else "",
            f"Code that ran again: {', '.join(self.ran)}; seed {self.seed}; {self.seconds:g} s in {self.copies}.",
        ]
        return list(filter(None, lines))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data, with the ends of each range, for JSON."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        for number, shown in zip(data["numbers"], self.numbers, strict=True):
            for spread, of_kind in zip(number["spreads"], shown.spreads, strict=True):
                if of_kind.values:
                    spread |= {"low": of_kind.low, "high": of_kind.high}
        return data

    def _repr_markdown_(self) -> str:
        head, *rows = [" | ".join(map(escaped, row)) for row in self.rows]
        rule = " | ".join(["---"] * len(self.rows[0]))
        table = "".join(f"| {row} |\n" for row in (head, rule, *rows)) if rows else ""
        return "\n\n".join(filter(None, [escaped(self.headline), table, *map(escaped, self.how)]))


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
    if abs(math.log(ratio / scale)) > 0.03 and abs(abs(unscaled) * scale - abs(stated)) > number.resolution:
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
        index = (
            place.line - 1 if place.line else next((at for at, line in enumerate(lines.texts) if line.strip()), None)
        )
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
