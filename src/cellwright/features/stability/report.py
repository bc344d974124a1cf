"""The report on an answer's numbers: the spread of each over resamples, what it says, and all as a table and a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from cellwright.features.numbers.places import short, still_says
from cellwright.markdown.escaping import escaped
from cellwright.text import counted

Kind = Literal["bootstrap", "leave_out", "permuted", "seed"]
KINDS: tuple[Kind, ...] = ("bootstrap", "permuted", "leave_out", "seed")

Verdict = Literal["no_signal", "signal", "spread", "independent", "reseeded", "changed", "not_followed"]

NO_SIGNAL_SHARE = 0.05
"""A number is no signal if more than this share of permuted labels gives one as far from the usual."""
FEWEST_PERMUTED = 19
"""With fewer permutations, one that no permuted label reaches could still be chance at 5 %."""
_SAME = 1e-9

_COLUMNS: tuple[Kind, ...] = ("bootstrap", "permuted", "leave_out", "seed")
MANY_NUMBERS = 5
"""From so many tested numbers on, the report says how many would pass by chance."""


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
    if total < FEWEST_PERMUTED:
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
            f"If none had a signal, about {by_chance}." if tested >= MANY_NUMBERS else "",
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
