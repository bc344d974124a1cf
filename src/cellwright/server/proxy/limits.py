"""Limits of the proxy: what the administrator lets through, and a user's requests at once and in a minute."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator

from msgspec import Struct

from cellwright.server.proxy.refusal import BUSY, Refusal

MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""The largest request that the Messages API takes."""


class ProxyLimits(Struct, frozen=True, kw_only=True):
    """None is no limit. `allowed_models` are names, patterns with `*`, or lines of models (`haiku`).

    Budgets are US dollars: a user's for a day (UTC), and one kernel's for its life. `web_tools` and `mcp` are the API's
    own tools that reach the network from Anthropic's side.
    """

    allowed_models: tuple[str, ...] | None = None
    max_tokens: int | None = None
    max_request_bytes: int = MAX_REQUEST_BYTES
    requests_per_minute: int | None = None
    concurrent_requests: int | None = None
    budget_usd_per_day: float | None = None
    budget_usd_per_kernel: float | None = None
    web_tools: bool = True
    mcp: bool = True

    @property
    def has_budget(self) -> bool:
        return self.budget_usd_per_day is not None or self.budget_usd_per_kernel is not None


WINDOW_SECONDS = 60.0


class Traffic:
    """Counts the requests of each user. Used from one event loop; `clock` gives seconds."""

    def __init__(
        self, *, per_minute: int | None, at_once: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._at_once = at_once
        self._clock = clock
        self._begun: dict[str, deque[float]] = {}
        self._open: dict[str, int] = {}

    @contextlib.contextmanager
    def passing(self, user: str) -> Iterator[None]:
        """One request of `user` is on its way. Raises `Refusal` when it is one too many."""
        self._admit(user)
        self._open[user] = self._open.get(user, 0) + 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    def _admit(self, user: str) -> None:
        if self._at_once is not None and self._open.get(user, 0) >= self._at_once:
            message = f"The administrator of this server allows {self._at_once} requests to Claude at the same time."
            raise Refusal(429, message, code=BUSY, retry_after=1)
        if self._per_minute is None:
            return
        now = self._clock()
        begun = self._begun.setdefault(user, deque())
        while begun and begun[0] <= now - WINDOW_SECONDS:
            begun.popleft()
        if len(begun) >= self._per_minute:
            wait = begun[0] + WINDOW_SECONDS - now if begun else WINDOW_SECONDS
            message = f"The administrator of this server allows {self._per_minute} requests to Claude in a minute."
            raise Refusal(429, message, code=BUSY, retry_after=wait)
        begun.append(now)
