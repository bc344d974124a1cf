"""Regular expressions that are compiled when they are first used.

A session meets few of the hundreds that its modules name, and compiling all of them was a sixth of its start.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Generic, cast


class _LazyPattern(Generic[AnyStr]):
    """Stands in for `re.compile(pattern, flags)`. From any thread: compiled twice, it is the same."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)  # the next time it is there, and this not called
        return value

    def __repr__(self) -> str:
        return f"lazy_pattern({self.pattern!r})"


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, for patterns of a module: what is wrong with one is raised when it is first used.

    It has the methods of a pattern, and cannot be given to functions of `re`.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))
