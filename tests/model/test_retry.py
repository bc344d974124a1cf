"""When a request is tried again, and how long after."""

import pytest

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.retry import FailedAttempt, RetryPolicy
from row_tables import for_each_row


def failure(*, retryable: bool = True, retry_after: float | None = None) -> FailedAttempt:
    return FailedAttempt(ErrorCode.API_OVERLOADED, "It failed.", retryable, retry_after)


def test_waits_double_up_to_half_a_minute():
    policy = RetryPolicy(max_retries=9)
    waits = [policy.wait_before(retry, failure(), 0, 0.0) for retry in range(1, 11)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 32, 32, None]


def test_chance_takes_off_at_most_a_quarter():
    assert RetryPolicy().wait_before(3, failure(), 0, 1.0) == 1.5


def test_what_the_server_asks_for_is_kept_exactly():
    assert RetryPolicy().wait_before(3, failure(retry_after=0.0), 0, 0.9) == 0.0
    assert RetryPolicy().wait_before(1, failure(retry_after=61.5), 0, 0.9) == 61.5


@pytest.mark.parametrize(
    ("retry", "what", "elapsed"),
    [(1, failure(retryable=False), 0), (9, failure(), 0), (1, failure(retry_after=601), 0), (1, failure(), 600)],
)
def test_it_ends(retry, what, elapsed):
    assert RetryPolicy().wait_before(retry, what, elapsed, 0.0) is None


def test_the_error_says_why_it_ends():
    policy = RetryPolicy(max_retries=2)
    assert policy.final_error(1, failure(retryable=False), 0).message == "It failed."
    assert "after 3 attempts in 7 s" in policy.final_error(3, failure(), 7.2).message
    assert "wait 10 min" in policy.final_error(1, failure(retry_after=601), 0).message
    assert policy.final_error(3, failure(), 7).details == {"attempts": 3}


def test_the_environment_sets_it():
    assert RetryPolicy.from_environment({}) == RetryPolicy(max_retries=8, stall_seconds=90)
    environ = {"CELLWRIGHT_MAX_RETRIES": " 0 ", "CELLWRIGHT_STALL_SECONDS": "2.5"}
    assert RetryPolicy.from_environment(environ) == RetryPolicy(max_retries=0, stall_seconds=2.5)


@for_each_row("name", ["CELLWRIGHT_MAX_RETRIES", "CELLWRIGHT_STALL_SECONDS"])
@for_each_row("value", ["many", "-1", "nan", "inf"])
def test_nonsense_in_the_environment_is_said(name, value):
    with pytest.raises(CellwrightError, match=name) as caught:
        RetryPolicy.from_environment({name: value})
    assert caught.value.code == ErrorCode.CONFIG_INVALID
