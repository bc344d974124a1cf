"""A number found again in the output of the same code: by its line, its label, its terms; or not at all."""

from __future__ import annotations

import pytest

from cellwright.features.numbers.places import lines_of
from cellwright.features.numbers.sources import source
from cellwright.features.numbers.trace import trace
from cellwright.features.stability.follow import follow


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
