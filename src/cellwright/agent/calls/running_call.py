"""A call while it runs: when it began, and what it has shown, so that what is said of it when it is cut off is true."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from cellwright.agent.tool import Tool
from cellwright.events import ToolProgress
from cellwright.text import plain


class RunningCall(Struct):
    """A call of `tool` that has begun."""

    tool: Tool
    input: Mapping[str, Any]
    started: float = field(default_factory=time.perf_counter)
    _shown: str = ""

    def take(self, progress: ToolProgress) -> None:
        """Keep the text of `progress`; of more than the model gets of a result only the end."""
        if progress.place == {"clear": True}:
            self._shown = ""
        self._shown += progress.text
        most = self.tool.limits.result_chars
        if len(self._shown) > 2 * most:
            self._shown = f"[…]\n{self._shown[-most:]}"

    @property
    def shown(self) -> str:
        """The text it has shown, as it stands on a screen."""
        return plain(self._shown).strip()

    @property
    def duration_ms(self) -> float:
        """The time it has run."""
        return (time.perf_counter() - self.started) * 1000
