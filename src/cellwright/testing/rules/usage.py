"""The `usage` of a request: estimated tokens, and what a prompt cache would have saved."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.models import ServedModel
from cellwright.testing.rules.prefix import Breakpoint, Prefix, blocks_of, loaded_tools, time_to_live

LOOKBACK_BLOCKS = 20
MAX_BREAKPOINTS = 4
NEVER_CACHED = ("thinking", "redacted_thinking")


class PromptCache:
    """The prefixes that are cached. Entries are written at breakpoints only and found up to 20 blocks before one."""

    def __init__(self) -> None:
        self._entries: set[tuple[Any, ...]] = set()

    def usage(self, body: Mapping[str, Any], model: ServedModel, prefix: Prefix) -> dict[str, Any]:
        """The input side of `usage`; stores what the request's breakpoints write."""
        usable = [
            entry for entry in effective_breakpoints(body, prefix) if prefix.tokens[entry.block] >= model.cache_minimum
        ]
        read_to = self._longest_hit(body, prefix, [entry.block for entry in usable])
        read = prefix.tokens[read_to] if read_to is not None else 0
        written = {"5m": 0, "1h": 0}
        reached = read
        for entry in usable:
            if prefix.tokens[entry.block] > reached:
                written[entry.ttl] += prefix.tokens[entry.block] - reached
                reached = prefix.tokens[entry.block]
            self._entries.add(_key(body, prefix, entry.block))
        return input_usage(prefix.total_tokens - reached, read=read, written_5m=written["5m"], written_1h=written["1h"])

    def _longest_hit(self, body: Mapping[str, Any], prefix: Prefix, breakpoints: list[int]) -> int | None:
        for breakpoint_block in reversed(breakpoints):
            for block in range(breakpoint_block, max(-1, breakpoint_block - LOOKBACK_BLOCKS), -1):
                if _key(body, prefix, block) in self._entries:
                    return block
        return None


def input_usage(uncached: int, *, read: int = 0, written_5m: int = 0, written_1h: int = 0) -> dict[str, Any]:
    """`usage` as `message_start` has it."""
    return {
        "input_tokens": uncached,
        "cache_creation_input_tokens": written_5m + written_1h,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written_5m, "ephemeral_1h_input_tokens": written_1h},
        "output_tokens": 1,
        "service_tier": "standard",
        "inference_geo": "not_available",
    }


def _last_cacheable(body: Mapping[str, Any], prefix: Prefix) -> int | None:
    """The last block of the request that can be cached: there a top-level `cache_control` puts its breakpoint."""
    contents = [message["content"] for message in reversed(body["messages"])]
    number = len(prefix.states)
    for content in (*contents, body.get("system"), loaded_tools(body)):
        for block in reversed(blocks_of(content)):
            number -= 1
            if block.get("type") not in NEVER_CACHED:
                return number
    return None


def effective_breakpoints(body: Mapping[str, Any], prefix: Prefix) -> list[Breakpoint]:
    """The explicit breakpoints and the automatic one, in the order of the chain."""
    ttl = time_to_live(body)
    block = _last_cacheable(body, prefix) if ttl else None
    automatic = Breakpoint(block, ttl, "") if ttl and block is not None else None
    if automatic is None or any((entry.block, entry.ttl) == (block, ttl) for entry in prefix.breakpoints):
        return prefix.breakpoints
    return sorted([*prefix.breakpoints, automatic], key=lambda entry: entry.block)


def check_breakpoints(body: Mapping[str, Any], prefix: Prefix) -> None:
    """At most four, 1 h before 5 min, and no other TTL on the block that the top-level one falls on."""
    entries = effective_breakpoints(body, prefix)
    if len(entries) > MAX_BREAKPOINTS:
        raise ApiRejection(f"A maximum of 4 blocks with cache_control may be provided. Found {len(entries)}.")
    for earlier, later in pairwise(entries):
        field = f"{later.path}.cache_control.ttl".lstrip(".")
        if earlier.block == later.block and not later.path:
            raise ApiRejection(f"{field}: the last cacheable block has a cache_control with a different ttl already")
        if earlier.ttl == "5m" and later.ttl == "1h":
            raise ApiRejection(
                f"{field}: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note "
                "that blocks are processed in the following order: `tools`, `system`, `messages`."
            )


def _key(body: Mapping[str, Any], prefix: Prefix, block: int) -> tuple[Any, ...]:
    """Tools and system are cached for a model, speed and format of the answer, messages for its thinking and effort too."""
    config = body.get("output_config") or {}
    # the model is told the format of its answer before everything else
    head = (prefix.states[block], body["model"], body.get("speed"), repr(config.get("format")))
    if block < prefix.head_length:
        return head
    return (*head, repr(body.get("thinking")), config.get("effort"))
