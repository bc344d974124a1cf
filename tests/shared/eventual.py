"""Facts outside of the test's own process, which can only be asked for: files, kernels, other processes."""

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
