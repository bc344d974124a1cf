"""The limit on the calls of a tool in a minute: each tool has its own, and a refused call does not count."""

from __future__ import annotations

import pytest

from cellwright.errors import ErrorCode, ToolError
from cellwright.sessions.calls import WINDOW_SECONDS, CallRate


def test_each_tool_has_its_own_limit_and_a_refused_call_does_not_count() -> None:
    rate = CallRate()
    rate.count("Bash", 2)
    rate.count("Bash", 2)
    for _ in range(2):
        with pytest.raises(ToolError) as refused:
            rate.count("Bash", 2)
        assert refused.value.code == ErrorCode.RATE_LIMIT_EXCEEDED
        assert refused.value.details is not None
        assert 0 < refused.value.details["retry_after_seconds"] <= WINDOW_SECONDS
    rate.count("Bash", 3)
    rate.count("Read", 1)
