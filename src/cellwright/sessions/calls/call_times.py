"""The times that calls of each tool took in this session, from which the next one's is estimated."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

KEPT = 20
"""The number of latest calls of a tool that count."""


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
