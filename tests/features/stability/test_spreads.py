"""What a spread says about its number."""

from __future__ import annotations

import pytest

from cellwright.features.stability.spreads import Spread, Stated, judged

NUMBER = Stated("14.8 %", 14.8, 0.1, "Branch, call 1", 14.81)
RESAMPLED = Spread("bootstrap", tuple(14.0 + n / 25 for n in range(50)))
LEFT_OUT = Spread("leave_out", tuple(14.5 + n / 20 for n in range(10)))


def null(middle: float, wide: float, count: int = 50) -> Spread:
    return Spread("permuted", tuple(middle + wide * (n / (count - 1) - 0.5) for n in range(count)))


@pytest.mark.parametrize(
    ("again", "spreads", "verdict", "words"),
    [
        (14.81, (RESAMPLED, LEFT_OUT, null(0, 2)), "signal", "holds (0 of 50)"),
        (14.81, (RESAMPLED, LEFT_OUT, null(14, 8)), "no_signal", "could be chance (40 of 50)"),
        (14.81, (RESAMPLED, null(0, 2, 10)), "spread", "too few to tell"),
        (14.81, (RESAMPLED, Spread("permuted", (14.81,) * 50)), "spread", "the same with a permuted churn"),
        (14.81, (RESAMPLED, LEFT_OUT), "spread", ""),
        (14.81, (Spread("bootstrap", (14.81,) * 50), Spread("leave_out", (14.81,) * 10)), "independent", "df"),
        (14.81, (Spread("bootstrap", (14.81,) * 50), LEFT_OUT), "spread", "set by the number of rows"),
        (19.2, (RESAMPLED, Spread("seed", (19.2,) * 5)), "changed", "gives 19.2"),
        (19.2, (RESAMPLED, Spread("seed", (19.2, 12.1))), "reseeded", "depends on the seed"),
        (None, (), "not_followed", "no such line"),
        (14.81, (Spread("bootstrap", (), 50),), "not_followed", "another shape"),
        (14.81, (Spread("bootstrap", ()),), "not_followed", "in the time"),
    ],
)
def test_the_verdict_and_its_words(again: float | None, spreads: tuple[Spread, ...], verdict: str, words: str) -> None:
    found = judged(NUMBER, again, spreads, "df", "churn")
    assert found.verdict == verdict, found
    assert words in found.words


def test_a_range_holds_95_percent_of_many_runs_and_all_of_few() -> None:
    found = judged(NUMBER, 14.81, (RESAMPLED, LEFT_OUT), "df", "")
    assert (found.range_text("bootstrap"), found.range_text("leave_out")) == ("14.0–15.9", "14.5–14.9")
    assert found.range_text("permuted") == ""
