"""What is tried again, when, and how long: pure functions of a failure, the count of tries and the time that passed."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.model.retry import Failure

FIRST_WAIT = 0.5
LONGEST_WAIT = 32.0
JITTER = 0.25
"""Up to this part of a wait is taken off at random, so that many clients do not come back at once."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, as tests hand them in. `now` is monotonic, `today` is epoch time, both in seconds."""

    now: Callable[[], float] = time.monotonic
    today: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a request is tried again.

    After `total_seconds` from the first try no further one begins. `stall_seconds` is how long an answer may be silent.
    """

    max_retries: int = 8
    stall_seconds: float = 90.0
    total_seconds: float = 600.0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> RetryPolicy:
        """The policy with `CELLWRIGHT_MAX_RETRIES` and `CELLWRIGHT_STALL_SECONDS` where they are set."""
        environ = os.environ if environ is None else environ
        retries = _number(environ, "CELLWRIGHT_MAX_RETRIES", default=8, least=0)
        stall = _number(environ, "CELLWRIGHT_STALL_SECONDS", default=90, least=0.001)
        return cls(max_retries=int(retries), stall_seconds=stall)

    def wait_before(self, retry: int, failure: Failure, elapsed: float, chance: float) -> float | None:
        """Seconds to wait before the `retry`-th retry (the first is 1); None to give up.

        What the server asked for is kept to exactly; else the wait doubles each time. `chance` is in [0, 1).
        """
        if not failure.retryable or retry > self.max_retries:
            return None
        wait = failure.retry_after
        if wait is None:
            wait = min(FIRST_WAIT * 2 ** min(retry - 1, 10), LONGEST_WAIT) * (1 - JITTER * chance)
        return wait if elapsed + wait <= self.total_seconds else None

    def final_error(self, retry: int, failure: Failure, elapsed: float) -> ApiError:
        """The error of a request that is not tried again: what happened, and why it ends here."""
        message = failure.message
        if failure.retryable and retry <= self.max_retries and (failure.retry_after or 0) > LONGEST_WAIT:
            message += f" It asks to wait {_duration(failure.retry_after or 0)}; that is too long. Try again then."
        elif failure.retryable and retry > 1:
            message += f" Gave up after {retry} attempts in {_duration(elapsed)}. Try again later."
        details = {**failure.details, "attempts": retry}
        return ApiError(failure.code, message, details=details, recoverable=failure.retryable)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _number(environ: Mapping[str, str], name: str, *, default: float, least: float) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value < float("inf"):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{name} is {text!r}: it must be a number, at least {least:g}.")
    return value
