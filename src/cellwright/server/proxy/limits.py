"""Limits of the proxy, and its refusals in the form of the Messages API's errors.

The limits are what the administrator lets through, and a user's requests at once and in a minute. A refusal is
`{"type": "error", "error": {"type", "message", "details": {"error_code"}}}`
(https://platform.claude.com/docs/en/api/errors). The codes say which of the proxy's own rules it was, for programs.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

BUDGET = "cellwright_budget_exceeded"
POLICY = "cellwright_forbidden"
BUSY = "cellwright_too_many_requests"

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    502: "api_error",
    504: "timeout_error",
}

MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""The largest request that the Messages API takes."""


class Refusal(Exception):
    """The request goes no further; `message` is for the user. `retry_after` is in seconds, None: it would not help."""

    def __init__(self, status: int, message: str, *, code: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.retry_after = retry_after

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that tell clients whether to try again."""
        if self.retry_after is None:
            return {"x-should-retry": "false"}
        return {"retry-after": str(max(1, math.ceil(self.retry_after))), "x-should-retry": "true"}

    def body(self) -> bytes:
        error = {"type": _TYPES[self.status], "message": self.message}
        if self.code:
            return json.dumps({"type": "error", "error": {**error, "details": {"error_code": self.code}}}).encode()
        return json.dumps({"type": "error", "error": error}).encode()


def forbidden(message: str) -> Refusal:
    """Build the refusal of what the administrator does not allow."""
    return Refusal(403, message, code=POLICY)


def over_budget(message: str) -> Refusal:
    return Refusal(402, message, code=BUDGET)


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
