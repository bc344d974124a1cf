"""The limit on the calls of a tool in a minute: `ToolLimits.calls_per_minute`."""

from __future__ import annotations

import math
import time
from collections import deque

from msgspec import Struct, field

from cellwright.errors import ErrorCode, ToolError

WINDOW_SECONDS = 60.0


class CallRate(Struct):
    """The calls of the last minute, by tool; a call that would be one too many is refused."""

    _times: dict[str, deque[float]] = field(default_factory=dict)

    def count(self, tool_name: str, calls_per_minute: int) -> None:
        """Count a call that is about to run. Raises ToolError RATE_LIMIT_EXCEEDED, and then does not count it."""
        now = time.monotonic()
        times = self._times.setdefault(tool_name, deque())
        while times and now - times[0] >= WINDOW_SECONDS:
            times.popleft()
        if len(times) >= calls_per_minute:
            wait = math.ceil(WINDOW_SECONDS - (now - times[0]))
            raise ToolError(
                f"{tool_name} may be called {calls_per_minute} times a minute; nothing was run. "
                f"Do something else, and call it again in {wait} s.",
                code=ErrorCode.RATE_LIMIT_EXCEEDED,
                details={"calls_per_minute": calls_per_minute, "retry_after_seconds": wait},
            )
        times.append(now)
