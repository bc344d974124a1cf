"""Errors that a cell's output has told already: the cell fails all the same, so that Run All stops there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

_TOLD = "_cellwright_told"


@contextlib.contextmanager
def telling_once(is_told_by_output: Callable[[], bool]) -> Iterator[None]:
    """Mark what is raised in the block where the output has said it."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        setattr(error, _TOLD, is_told_by_output())
        raise


def is_told(error: BaseException) -> bool:
    """Return whether the cell's output has told of the error."""
    return getattr(error, _TOLD, False) is True
