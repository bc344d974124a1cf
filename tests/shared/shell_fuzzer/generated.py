"""How many examples a test of generated inputs tries where each of them starts a process."""

from __future__ import annotations

import os

from hypothesis import settings

ALL = "CELLWRIGHT_ALL_EXAMPLES"
"""Set to 1, as `make leg LEG=thorough` does, every test tries all of its examples."""

_PART = 1 if os.environ.get(ALL) == "1" else 4


def generated(examples: int) -> settings:
    """A quarter of so many examples, the same ones each time; with `ALL` all of them."""
    return settings(derandomize=True, max_examples=examples // _PART, deadline=None, database=None)
