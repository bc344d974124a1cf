"""A report on numbers: its sentence, its table and the runs that were done."""

from __future__ import annotations

import json

import pytest

from cellwright.features.numbers.sources import source
from cellwright.features.numbers.stale import lines_of
from cellwright.features.numbers.trace import trace
from cellwright.features.stability.report import (
    NumberStability,
    Spread,
    StabilityReport,
    Stated,
    follow,
    judged,
    not_followed,
)

RESAMPLED = Spread("bootstrap", tuple(14 + step / 10 for step in range(20)))
TENTHS = Spread("leave_out", (14.5, 15.0))

NUMBER = Stated("14.8 %", 14.8, 0.1, "Branch, call 1", 14.81)
RESAMPLED_VALUES = Spread("bootstrap", tuple(14.0 + n / 25 for n in range(50)))
LEFT_OUT = Spread("leave_out", tuple(14.5 + n / 20 for n in range(10)))


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


def null(middle: float, wide: float, count: int = 50) -> Spread:
    return Spread("permuted", tuple(middle + wide * (n / (count - 1) - 0.5) for n in range(count)))


@pytest.mark.parametrize(
    ("again", "spreads", "verdict", "words"),
    [
        (14.81, (RESAMPLED_VALUES, LEFT_OUT, null(0, 2)), "signal", "holds (0 of 50)"),
        (14.81, (RESAMPLED_VALUES, LEFT_OUT, null(14, 8)), "no_signal", "could be chance (40 of 50)"),
        (14.81, (RESAMPLED_VALUES, null(0, 2, 10)), "spread", "too few to tell"),
        (14.81, (RESAMPLED_VALUES, Spread("permuted", (14.81,) * 50)), "spread", "the same with a permuted churn"),
        (14.81, (RESAMPLED_VALUES, LEFT_OUT), "spread", ""),
        (14.81, (Spread("bootstrap", (14.81,) * 50), Spread("leave_out", (14.81,) * 10)), "independent", "df"),
        (14.81, (Spread("bootstrap", (14.81,) * 50), LEFT_OUT), "spread", "set by the number of rows"),
        (19.2, (RESAMPLED_VALUES, Spread("seed", (19.2,) * 5)), "changed", "gives 19.2"),
        (19.2, (RESAMPLED_VALUES, Spread("seed", (19.2, 12.1))), "reseeded", "depends on the seed"),
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
    found = judged(NUMBER, 14.81, (RESAMPLED_VALUES, LEFT_OUT), "df", "")
    assert (found.range_text("bootstrap"), found.range_text("leave_out")) == ("14.0–15.9", "14.5–14.9")
    assert found.range_text("permuted") == ""


def again(answer: str, was: str, now: str, text: str) -> float | None:
    """Return the number `text` of the answer by another output of the call; fails if it cannot be followed at all."""
    seen = [source("output", "Branch, call 1", was, id="call")]
    numbers = trace(answer, seen)
    number = next(each for each in numbers if each.text == text)
    found = follow(number, answer, numbers, seen)
    assert found is not None, number
    value = found.value({"call": lines_of(now)})
    return None if value is None else round(value, 6)


def test_a_seen_number_is_read_at_its_place_in_the_unit_of_the_answer() -> None:
    assert again("Churn is 26.5 %.", "rows 7043\nchurn 0.26536", "rows 7043\nchurn 0.301", "26.5 %") == 30.1
    assert again("It fell by 12.25.", "gap -12.25", "gap 3.5", "12.25") == -3.5
    assert again("The slope is -0.3125.", "slope -0.3125", "slope 0.02", "0.3125") == 0.02


def test_rows_without_words_are_told_apart_by_their_first_number() -> None:
    was, now = "0  812\n1  779\n2  31.75", "2  30.5\n0  790\n1  801"
    assert again("The third has 31.75.", was, now, "31.75") == 30.5
    assert again("The third has 31.75.", was, "0  790\n1  801", "31.75") is None


def test_a_line_that_is_gone_gives_nothing() -> None:
    assert again("The mean is 41.37.", "mean 41.37\nmax 79", "median 40.2\nmax 79", "41.37") is None


@pytest.mark.parametrize(
    ("answer", "was", "now", "text", "expected"),
    [
        ("It grew 14.8 % from 2,012 to 2,310.", "y2023 2012\ny2024 2310", "y2023 2000\ny2024 2500", "14.8 %", 25.0),
        ("It fell 12.9 % from 2,310 to 2,012.", "y2023 2310\ny2024 2012", "y2023 2000\ny2024 1500", "12.9 %", 25.0),
        ("The gap is 298: 2,310 and 2,012.", "a 2310\nb 2012", "a 2000\nb 2500", "298", -500.0),
        ("36.4 % of the 640 left: 233.", "all 640\nleft 233", "all 600\nleft 150", "36.4 %", 25.0),
    ],
)
def test_a_derived_number_is_computed_from_its_terms(
    answer: str, was: str, now: str, text: str, expected: float
) -> None:
    assert again(answer, was, now, text) == expected


SALES = "north 812.5\nsouth 640.25\nwest 377.75"
LESS = "north 700\nsouth 600\nwest 200"


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("In all, sales were 1,830.5.", "1,830.5", 1500.0),
        ("The mean of the regions is 610.17.", "610.17", 500.0),
        ("The north has 44.39 % of it.", "44.39 %", 46.666667),
    ],
)
def test_a_sum_a_mean_and_a_share_of_a_whole_output_are_computed_from_all_its_numbers(
    answer: str, text: str, expected: float
) -> None:
    assert again(answer, SALES, LESS, text) == expected
    assert again(answer, SALES, "north 700\nsouth 600", text) is None


def test_numbers_that_no_code_gave_are_not_followed() -> None:
    seen = [source("prompt", "your prompt", "We have 7043 customers."), source("code", "the code", "n = 812.5", id="1")]
    answer = "Of 7,043 customers, 812.5 on average."
    numbers = trace(answer, seen)
    assert [follow(number, answer, numbers, seen) for number in numbers] == [None, None]
