"""The calls of a session: the time those of each tool took, and the limit on how many may run in a minute."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence

from msgspec import Struct, field

from cellwright.errors import ErrorCode, ToolError

KEPT = 20
"""The number of latest calls of a tool that count."""

WINDOW_SECONDS = 60.0


class CallTimes:
    """The times of the calls that succeeded, in seconds, by tool."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def add(self, tool_name: str, seconds: float) -> None:
        """Take note of a call that has ended."""
        self._times.setdefault(tool_name, deque(maxlen=KEPT)).append(seconds)

    def estimate(self, tool_names: Sequence[str], side_by_side: int = 1) -> float | None:
        """The time that calls of these tools take, at most `side_by_side` at once; None if one was never called.

        >>> times = CallTimes()
        >>> times.add("Bash", 2.0), times.add("Bash", 4.0)
        (None, None)
        >>> times.estimate(["Bash"]), times.estimate(["Bash", "Bash"]), times.estimate(["Bash", "Bash"], 2)
        (3.0, 6.0, 3.0)
        >>> times.estimate(["Bash", "Read"]) is None
        True
        """
        if not tool_names or any(name not in self._times for name in tool_names):
            return None
        import statistics  # brings fractions and decimal along; most runs estimate nothing

        medians = [statistics.median(self._times[name]) for name in tool_names]
        return max(max(medians), sum(medians) / side_by_side)


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
