"""The server's memory of the answers it gave, to tell whether they come back as they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.history.prefix import Prefix, RecentPrefixes, canonical, next_state
from cellwright.testing.rules.history.thinking_signatures import is_thinking, signature_of
from cellwright.testing.rules.history.turn_order import RoleRun
from cellwright.testing.rules.usage import PromptCache


@dataclass(slots=True)
class Memory:
    """Earlier requests (`prefixes`), what they cached (`cache`), and the answers that were sent whole."""

    prefixes: RecentPrefixes = field(default_factory=RecentPrefixes)
    cache: PromptCache = field(default_factory=PromptCache)
    thinking_of: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    paused: set[bytes] = field(default_factory=set)

    def keep_answer(self, prefix: Prefix, content: Sequence[dict[str, Any]], stop_reason: str) -> None:
        signatures = [signature_of(block) for block in content if is_thinking(block)]
        for block in content:
            if block["type"] == "tool_use":
                self.thinking_of[block["id"]] = (prefix.body["model"], signatures)
        if stop_reason == "pause_turn":
            state = prefix.state
            for block in content:
                state = next_state(state, "assistant", canonical(block))
            self.paused.add(state)

    def check_thinking_complete(self, model: str, turns: Sequence[RoleRun]) -> None:
        """While its tool results are sent, the latest assistant turn must hold all the thinking it came with."""
        latest = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
        if latest is None or latest is turns[-1]:
            return
        present = {signature_of(placed.block) for placed in latest.blocks if is_thinking(placed.block)}
        calls = [placed.block["id"] for placed in latest.blocks if placed.type == "tool_use"]
        for thought_by, signatures in (self.thinking_of[call] for call in calls if call in self.thinking_of):
            if thought_by == model and not present.issuperset(signatures):
                raise ApiRejection(
                    f"messages.{latest.message}.content.0: `thinking` or `redacted_thinking` blocks in the latest "
                    "assistant message cannot be modified. These blocks must remain as they were in the original "
                    "response."
                )
