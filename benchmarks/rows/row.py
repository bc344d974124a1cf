"""One row of the benchmark: what is measured, of whom, and what we hold ourselves to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Figures = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Row:
    """`measure(subject)` gives figures by name; the row's own is `name`.

    `max_ratio` bounds Cellwright's figure relative to the floor's of the same run; `max_value` where there is no floor.
    """

    name: str
    what: str
    unit: str
    measure: Callable[[str], Mapping[str, float]]
    subjects: tuple[str, ...] = ("floor", "sdk", "cellwright")
    max_ratio: float | None = None
    max_value: float | None = None

    def ratio(self, figures: Figures, subject: str = "cellwright") -> float | None:
        base, value = figures.get((self.name, "floor")), figures.get((self.name, subject))
        return value / base if base and value is not None else None

    def met(self, figures: Figures) -> bool:
        ratio, value = self.ratio(figures), figures.get((self.name, "cellwright"))
        if self.max_ratio is not None and ratio is not None:
            return ratio <= self.max_ratio
        return self.max_value is None or value is None or value <= self.max_value
