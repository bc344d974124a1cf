"""Time limits of calls, which stand still while a call waits for the user's own cell to end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator

_limits: contextvars.ContextVar[tuple[TimeLimit, ...]] = contextvars.ContextVar("limits", default=())


class TimeLimit:
    """One limit in force, in seconds; None: there is none."""

    def __init__(self, timeout: asyncio.Timeout, seconds: float | None) -> None:
        self._timeout = timeout
        self._seconds = seconds

    @property
    def expired(self) -> bool:
        return self._timeout.expired()

    def stand_still(self) -> None:
        self._reschedule(None)

    def begin_again(self) -> None:
        if self._seconds is not None:
            self._reschedule(asyncio.get_running_loop().time() + self._seconds)

    def _reschedule(self, when: float | None) -> None:
        with contextlib.suppress(RuntimeError):  # it has expired, or what it limited is over
            self._timeout.reschedule(when)


@contextlib.asynccontextmanager
async def time_limit(seconds: float | None) -> AsyncIterator[TimeLimit]:
    """Raises `TimeoutError` when the block takes longer, not counting the time in which it stands still."""
    timeout = asyncio.timeout(seconds)
    limit = TimeLimit(timeout, seconds)
    token = _limits.set((*_limits.get(), limit))
    try:
        async with timeout:
            yield limit
    finally:
        _limits.reset(token)


def limits_here() -> tuple[TimeLimit, ...]:
    """The limits that hold for what calls."""
    return _limits.get()
