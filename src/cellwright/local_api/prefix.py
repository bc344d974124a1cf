"""A request's tools, system and messages as one chain of digests: what "the same conversation so far" means.

The API reads a request as tools, then system, then messages. After each block the chain has a state that stands for
everything up to there; thinking blocks are bound to such states, and the prompt cache is keyed by them. Consecutive
messages of one role are one turn, a string is one text block, and `cache_control` is no part of the content.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

REMEMBERED_REQUESTS = 16
TOKENS_OF_MEDIA = 1500
CHARS_PER_TOKEN = 4

Block = Mapping[str, Any]


def blocks_of(content: Any) -> list[Block]:
    """Content as blocks: a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or ())


def canonical(block: Block) -> str:
    """The block without what carries no content: `cache_control`, nulls, `is_error: false`; nested blocks alike."""
    plain = {
        name: block[name]
        for name in sorted(block)
        if name != "cache_control" and block[name] is not None and not (name == "is_error" and block[name] is False)
    }
    if isinstance(plain.get("content"), list):
        plain["content"] = [canonical(inner) if isinstance(inner, dict) else inner for inner in plain["content"]]
    return json.dumps(plain)


def block_tokens(block: Block, encoded: str) -> int:
    """About what the API would count; media are not counted by their base64."""
    media = [inner for inner in (block, *blocks_of(block.get("content"))) if inner.get("type") in ("image", "document")]
    if not media:
        return len(encoded) // CHARS_PER_TOKEN + 1
    bytes_of_media = sum(len(str(item.get("source", {}).get("data", ""))) for item in media)
    return (len(encoded) - bytes_of_media) // CHARS_PER_TOKEN + TOKENS_OF_MEDIA * len(media)


def _ttl(block: Block) -> str | None:
    control = block.get("cache_control")
    return control.get("ttl") or "5m" if isinstance(control, Mapping) else None


@dataclass(slots=True)
class Prefix:
    """The chain of one request. `states[i]` and `tokens[i]` cover everything up to and including block i.

    `ends[m]` is the number of blocks up to the end of message m; `breakpoints` are (block, ttl) with `cache_control`.
    """

    body: Mapping[str, Any]
    tools_digest: str = ""
    system_digest: str = ""
    head_length: int = 0
    states: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    breakpoints: list[tuple[int, str]] = field(default_factory=list)

    @property
    def state(self) -> bytes:
        return self.states[-1] if self.states else b""

    @property
    def total_tokens(self) -> int:
        return self.tokens[-1] if self.tokens else 0

    def start_of(self, message: int) -> int:
        """The number of blocks before the message."""
        return self.ends[message - 1] if message else self.head_length

    def state_before(self, block: int) -> bytes:
        return self.states[block - 1] if block else b""

    def add(self, role: str, block: Block) -> None:
        encoded = canonical(block)
        digest = blake2b(self.state, digest_size=16)
        digest.update(role.encode())
        digest.update(encoded.encode())
        ttl = _ttl(block)
        if ttl is not None:
            self.breakpoints.append((len(self.states), ttl))
        self.states.append(digest.digest())
        self.tokens.append(self.total_tokens + block_tokens(block, encoded))

    def add_messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            for block in blocks_of(message.get("content")):
                self.add(str(message.get("role")), block)
            self.ends.append(len(self.states))


def _digest(blocks: Iterable[Block]) -> str:
    encoded = "\n".join(canonical(block) for block in blocks)
    return blake2b(encoded.encode(), digest_size=8).hexdigest()


def _first_difference(old: list[Any], new: list[Any]) -> int:
    for position, (before, after) in enumerate(zip(old, new, strict=False)):
        if before != after:
            return position
    return min(len(old), len(new))


class RecentPrefixes:
    """The chains of the latest requests, so that a long conversation is hashed once and not with every turn."""

    def __init__(self) -> None:
        self._recent: deque[Prefix] = deque(maxlen=REMEMBERED_REQUESTS)

    def of(self, body: Mapping[str, Any]) -> tuple[Prefix, int]:
        """The request's chain, and how many of its messages are known from an earlier request (same head and model)."""
        messages: list[Any] = body["messages"]
        base, known = self._longest(body, messages)
        prefix = self._start(body) if base is None else self._resume(base, body, known)
        prefix.add_messages(messages[known:])
        return prefix, known

    def remember(self, prefix: Prefix) -> None:
        """Keep the chain of a request that was found valid."""
        self._recent.append(prefix)

    def _longest(self, body: Mapping[str, Any], messages: list[Any]) -> tuple[Prefix | None, int]:
        best: Prefix | None = None
        longest = 0
        for candidate in reversed(self._recent):
            if any(candidate.body.get(name) != body.get(name) for name in ("model", "tools", "system")):
                continue
            common = _first_difference(candidate.body["messages"], messages)
            if best is None or common > longest:
                best, longest = candidate, common
        return best, longest

    @staticmethod
    def _start(body: Mapping[str, Any]) -> Prefix:
        tools = blocks_of(body.get("tools"))
        system = blocks_of(body.get("system"))
        prefix = Prefix(body, _digest(tools), _digest(system))
        for tool in tools:
            prefix.add("tools", tool)
        for block in system:
            prefix.add("system", block)
        prefix.head_length = len(prefix.states)
        return prefix

    @staticmethod
    def _resume(base: Prefix, body: Mapping[str, Any], known: int) -> Prefix:
        length = base.start_of(known)
        return Prefix(
            body,
            base.tools_digest,
            base.system_digest,
            base.head_length,
            base.states[:length],
            base.tokens[:length],
            base.ends[:known],
            [(block, ttl) for block, ttl in base.breakpoints if block < length],
        )
