"""Facts that depend on the machine: those outside of the test's own process, and how long something computes.

Files, kernels and other processes can only be asked for, until it is so. A time is compared within one run: with that of a
smaller input, or of a fixed piece of Python beside it, so that a busy or a slow machine is no failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

SECONDS = 60
"""What every wait is given: a machine that does much besides is no failure."""


def eventually(look: Callable[[], Seen], is_it: Callable[[Seen], object] = bool, seconds: float = SECONDS) -> Seen:
    """The first value of `look()` for which `is_it` holds; AssertionError with the last one after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_it(seen := look()):
        assert time.monotonic() < deadline, f"after {seconds} s it is {seen!r}"
        time.sleep(0.02)  # something outside: there is nothing to wait on
    return seen


def seconds_of(work: Callable[[], object]) -> float:
    """The time of the processor that `work` takes in this process."""
    started = time.process_time()
    work()
    return max(time.process_time() - started, 1e-6)


def paces(work: Callable[[], object], most: float, tries: int = 5) -> float:
    """How many times as long `work` computes as counting the digits of 100,000 numbers beside it.

    The least of several tries, the first that is below `most`: what else the machine does makes some of them slow.
    """
    found: list[float] = []
    while len(found) < tries and not (found and found[-1] < most):
        before = seconds_of(_count_digits)
        spent = seconds_of(work)
        found.append(spent / max(before, seconds_of(_count_digits)))
    return min(found)


def growth(work: Callable[[int], object], size: int, most: float, times: int = 4, tries: int = 5) -> float:
    """How many times as long `work` computes for an input `times` as large as `size`; the least of several tries."""
    found: list[float] = []
    while len(found) < tries and not (found and found[-1] < most):
        small = min(seconds_of(lambda: work(size)) for _ in range(3))
        found.append(seconds_of(lambda: work(times * size)) / small)
    return min(found)


def _count_digits() -> int:
    return sum(len(str(number)) for number in range(100_000))
