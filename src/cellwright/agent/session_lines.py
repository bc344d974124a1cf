"""The lines of a session in memory: which of its messages are in effect, what they take of the context, what they cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cellwright.model.pricing import Total
from cellwright.sessions import transcript
from cellwright.sessions.transcript import Line

_NOTHING = Total({}, 0.0)


class SessionLines:
    """`all` are the lines as they were written; `encoded` the messages of those that count.

    `context_tokens` is the API's last count, `uncounted_bytes` what came since. `not_kept` was paid for and is no message.
    """

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.all: list[Line] = []
        self.encoded: list[bytes] = []
        self.context_tokens = 0
        self.uncounted_bytes = 0
        self.not_kept = _NOTHING
        self._decoded: list[dict[str, Any]] = []
        self._kept, self._summed = _NOTHING, 0
        for line in lines:
            self.add(line)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, decoded as they are asked for."""
        self._decoded += [json.loads(data) for data in self.encoded[len(self._decoded) :]]
        return self._decoded

    def in_effect(self) -> list[Line]:
        """The lines of `encoded`."""
        return transcript.in_effect(self.all)

    def add(self, line: Line) -> None:
        """Take in the next line: a message, or that others were taken back."""
        self.all.append(line)
        if line.message == transcript.TAKEN_BACK:
            self._take_back()
            return
        self.encoded.append(line.message)
        self._count(line)

    def _take_back(self) -> None:
        kept = self.in_effect()
        same = next((at for at, line in enumerate(kept) if self.encoded[at : at + 1] != [line.message]), len(kept))
        del self._decoded[same:]
        self.encoded = [line.message for line in kept]
        self.context_tokens = self.uncounted_bytes = 0
        for line in kept:
            self._count(line)

    def _count(self, line: Line) -> None:
        self.context_tokens = line.meta.get("context_tokens", self.context_tokens)
        self.uncounted_bytes = 0 if "context_tokens" in line.meta else self.uncounted_bytes + len(line.message)

    def spend(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that was paid for and is no message."""
        self.not_kept = self.not_kept.plus(usage, cost_usd)

    def not_kept_json(self) -> dict[str, Any]:
        """What the next line says of `not_kept`; empty where there is nothing."""
        return {"usage": self.not_kept.usage, "cost_usd": self.not_kept.cost_usd} if self.not_kept.usage else {}

    def wrote_not_kept(self) -> None:
        """It is among the lines now."""
        self.not_kept = _NOTHING

    def spent(self) -> Total:
        """What all answers took, those that are no message included."""
        # on demand: a resume need not wait for it
        for line in self.all[self._summed :]:
            for paid in (line.meta, line.meta.get("not_kept", {})):
                if block := paid.get("usage"):
                    self._kept = self._kept.plus(block, paid.get("cost_usd"))
        self._summed = len(self.all)
        return self._kept.plus(self.not_kept.usage, self.not_kept.cost_usd)
