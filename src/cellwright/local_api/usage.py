"""The `usage` of a request: estimated tokens, and what a prompt cache would have saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.local_api.models import ServedModel
from cellwright.local_api.prefix import Prefix

LOOKBACK_BLOCKS = 20


class PromptCache:
    """Which prefixes are cached. Entries are written at breakpoints only and found up to 20 blocks before one."""

    def __init__(self) -> None:
        self._entries: set[tuple[Any, ...]] = set()

    def usage(self, body: Mapping[str, Any], model: ServedModel, prefix: Prefix) -> dict[str, Any]:
        """The input side of `usage`; stores what the request's breakpoints write."""
        breakpoints = effective_breakpoints(body, prefix)
        usable = [(block, ttl) for block, ttl in breakpoints if prefix.tokens[block] >= model.cache_minimum]
        read_to = self._longest_hit(body, prefix, [block for block, _ in usable])
        read = prefix.tokens[read_to] if read_to is not None else 0
        written = {"5m": 0, "1h": 0}
        reached = read
        for block, ttl in usable:
            if prefix.tokens[block] > reached:
                written[ttl] += prefix.tokens[block] - reached
                reached = prefix.tokens[block]
            self._entries.add(_key(body, prefix, block))
        return {
            "input_tokens": prefix.total_tokens - reached,
            "cache_creation_input_tokens": written["5m"] + written["1h"],
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
            "output_tokens": 1,
            "service_tier": "standard",
            "inference_geo": "not_available",
        }

    def _longest_hit(self, body: Mapping[str, Any], prefix: Prefix, breakpoints: list[int]) -> int | None:
        for breakpoint_block in reversed(breakpoints):
            for block in range(breakpoint_block, max(-1, breakpoint_block - LOOKBACK_BLOCKS), -1):
                if _key(body, prefix, block) in self._entries:
                    return block
        return None


def effective_breakpoints(body: Mapping[str, Any], prefix: Prefix) -> list[tuple[int, str]]:
    """The explicit breakpoints and, with a top-level `cache_control`, the one on the last block."""
    automatic = body.get("cache_control")
    if not automatic or not prefix.states:
        return prefix.breakpoints
    last = len(prefix.states) - 1
    return [entry for entry in prefix.breakpoints if entry[0] != last] + [(last, automatic.get("ttl") or "5m")]


def _key(body: Mapping[str, Any], prefix: Prefix, block: int) -> tuple[Any, ...]:
    """Tools and system are cached for a model and speed, messages for its thinking and effort too."""
    head = (prefix.states[block], body["model"], body.get("speed"))
    if block < prefix.head_length:
        return head
    effort = (body.get("output_config") or {}).get("effort")
    return (*head, repr(body.get("thinking")), effort)
