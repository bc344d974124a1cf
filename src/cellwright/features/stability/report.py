"""The report on an answer's numbers, as data, as a table and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from cellwright.features.stability.spreads import NO_SIGNAL_SHARE, Kind, NumberStability
from cellwright.markdown.escaping import escaped
from cellwright.text import counted

_COLUMNS: tuple[Kind, ...] = ("bootstrap", "permuted", "leave_out", "seed")
MANY_NUMBERS = 5
"""From so many tested numbers on, the report says how many would pass by chance."""


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
