"""Limits of what clients ask of the server: runs and other requests, at once and in a minute."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator

from msgspec import Struct

from cellwright.server.api_error import RouteError

MINUTE = 60.0
BUSY_SECONDS = 5
"""When a client that met too many runs may ask again: nobody knows when one of them ends."""


class RunLimits(Struct, frozen=True, kw_only=True):
    """As `c.CellwrightApp` says; sizes in bytes, times in seconds."""

    max_runs: int
    max_runs_per_user: int
    runs_per_minute: int
    max_own_kernels: int
    max_request_bytes: int
    max_event_bytes: int
    finished_run_seconds: float
    max_finished_runs: int
    own_kernel_idle_seconds: float
    kernel_connect_seconds: float
    heartbeat_seconds: float


class RunsAtOnce:
    """A count of runs by owner. A place is taken before any kernel is asked, and given back at the run's end."""

    def __init__(self, limits: RunLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._running: dict[str, int] = {}
        self._begun: dict[str, deque[float]] = {}

    @property
    def running(self) -> int:
        return sum(self._running.values())

    def take(self, owner: str) -> None:
        """Take a place for a run of `owner`. Raises ApiError 429."""
        limits = self._limits
        if self.running >= limits.max_runs:
            raise _too_many(
                f"The server runs {limits.max_runs} prompts at once, and as many are running.", BUSY_SECONDS
            )
        if self._running.get(owner, 0) >= limits.max_runs_per_user:
            raise _too_many(f"You may run {limits.max_runs_per_user} prompts at once. Stop one, or wait.", BUSY_SECONDS)
        now = self._clock()
        begun = self._begun.setdefault(owner, deque())
        while begun and now - begun[0] >= MINUTE:
            begun.popleft()
        if len(begun) >= limits.runs_per_minute:
            wait = math.ceil(MINUTE - (now - begun[0]))
            raise _too_many(f"You may begin {limits.runs_per_minute} runs a minute.", wait)
        begun.append(now)
        self._running[owner] = self._running.get(owner, 0) + 1

    def give_back(self, owner: str) -> None:
        """The run of `owner` is over."""
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]


class RequestsAtOnce:
    """A count of requests by owner: so many at once, so many a minute."""

    def __init__(self, most: int, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._per_minute = per_minute
        self._clock = clock
        self._going_on: dict[str, int] = {}
        self._begun: dict[str, deque[float]] = {}

    @contextlib.contextmanager
    def taken(self, owner: str) -> Iterator[None]:
        """A request of `owner` goes on while the block lasts. Raises ApiError 429."""
        if self._going_on.get(owner, 0) >= self._most:
            raise _too_many(f"{self._most} of your requests are running. Wait until one has ended.", BUSY_SECONDS)
        now = self._clock()
        begun = self._begun.setdefault(owner, deque())
        while begun and now - begun[0] >= MINUTE:
            begun.popleft()
        if len(begun) >= self._per_minute:
            wait = math.ceil(MINUTE - (now - begun[0]))
            raise _too_many(f"You may send {self._per_minute} requests a minute.", wait)
        begun.append(now)
        self._going_on[owner] = self._going_on.get(owner, 0) + 1
        try:
            yield
        finally:
            self._going_on[owner] -= 1
            if not self._going_on[owner]:
                del self._going_on[owner]


def _too_many(message: str, wait: int) -> RouteError:
    return RouteError(429, "RATE_LIMIT_EXCEEDED", message, {"retry_after_seconds": wait}, retry_after=wait)
