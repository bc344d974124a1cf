"""Hooks of several origins, told at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.agent.hooks.protocol import NOTHING_SAID, HookResult, HookRun, Hooks
from cellwright.agent.hooks.results import all_told, merged


@dataclass(frozen=True, slots=True)
class HooksTogether:
    """Hooks of several origins, told at the same time."""

    parts: tuple[Hooks, ...]

    def listens_to(self, event: str) -> bool:
        return any(part.listens_to(event) for part in self.parts)

    async def fire(self, event: str, fields: Mapping[str, Any], run: HookRun | None) -> HookResult:
        listening = [part.fire(event, fields, run) for part in self.parts if part.listens_to(event)]
        return await all_told(listening) if listening else NOTHING_SAID

    def arrived(self) -> HookResult:
        return merged([part.arrived() for part in self.parts])

    def waking(self) -> bool:
        return any(part.waking() for part in self.parts)

    async def keep(self, rules: Sequence[str]) -> str:
        return " ".join([problem for part in self.parts if (problem := await part.keep(rules))])
