"""A report on numbers: its sentence, its table and the runs that were done."""

from __future__ import annotations

import json

from cellwright.features.stability.report import StabilityReport
from cellwright.features.stability.spreads import NumberStability, Spread, Stated, judged, not_followed

RESAMPLED = Spread("bootstrap", tuple(14 + step / 10 for step in range(20)))
TENTHS = Spread("leave_out", (14.5, 15.0))


def number(text: str, value: float, null: tuple[float, ...]) -> NumberStability:
    stated = Stated(text, value, 0.1, "Branch, call 1", value)
    return judged(stated, value, (RESAMPLED, TENTHS, Spread("permuted", null)), "df", "arm")


SIGNAL = number("14.9", 14.9, tuple(step / 10 for step in range(20)))
NOISE = number("0.4", 0.4, tuple(step / 10 for step in range(-10, 10)))


def report(*numbers: NumberStability, done: int = 20) -> StabilityReport:
    planned = {"bootstrap": 20, "permuted": 20, "leave_out": 2, "seed": 0}
    ran = ("Branch, call 1",)
    return StabilityReport(
        "df", 1_300, "arm", "", numbers, planned | {"bootstrap": done}, planned, 1, 3.5, "confined copies", ran=ran
    )


def test_the_sentence_says_first_what_could_be_chance() -> None:
    found = report(SIGNAL, NOISE)
    assert "0.4 could be" in found.headline
    assert "1 number holds." in found.headline
    assert [row[0] for row in found.rows] == ["number", "14.9", "0.4"]
    assert found.rows[0][2:] == ("resampled", "arm permuted")
    assert found.rows[2][1].endswith("(!)")


def test_the_runs_are_said_and_those_that_the_time_did_not_allow() -> None:
    assert "20 resamples" in report(SIGNAL).how[0]
    assert "20 permutations" in report(SIGNAL).how[0]
    short = " ".join(report(SIGNAL, done=7).how)
    assert "7 of 20 resamples" in short
    assert "seconds=N" in short


def test_of_many_numbers_it_is_said_how_many_would_pass_by_chance() -> None:
    words = "If none had a signal, about 0.3 of 6 numbers would pass by chance."
    assert words in report(*[SIGNAL] * 5, NOISE).how
    assert not any("by chance" in line for line in report(SIGNAL, NOISE).how)


def test_where_no_number_was_tested_there_is_no_table() -> None:
    found = report(not_followed("3", "cell [2]", "why"))
    assert len(found.rows) == 1
    assert "None of" in found.headline
    assert "|" not in found._repr_markdown_()


def test_as_data_it_has_the_ends_of_each_range() -> None:
    data = json.loads(json.dumps(report(SIGNAL).as_dict()))
    assert data["numbers"][0]["verdict"] == "signal"
    assert {"low", "high", "values"} <= set(data["numbers"][0]["spreads"][0])
