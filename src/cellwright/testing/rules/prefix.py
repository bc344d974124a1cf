"""A request's tools, system and messages as one chain of digests: what "the same conversation so far" means.

The API reads a request as tools, then system, then messages. After each block the chain has a state that stands for
everything up to there; thinking blocks are bound to such states, and the prompt cache is keyed by them. Consecutive
messages of one role are one turn, a string is one text block, and `cache_control` is no part of the content. A tool with
`defer_loading` is no part of the chain: its definition comes with the result that names it in a `tool_reference`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.images import Picture, counted_pages, measured

CHARS_PER_TOKEN = 4

Block = Mapping[str, Any]


def blocks_of(content: Any) -> list[Block]:
    """Content as blocks: a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or ())


def nested(block: Block, path: str) -> Iterator[tuple[Block, str]]:
    """The block and, for a tool result, the blocks inside it, each with its path."""
    yield block, path
    content = block.get("content")
    if block.get("type") == "tool_result" and isinstance(content, list):
        for index, inner in enumerate(content):
            yield inner, f"{path}.tool_result.content.{index}"


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


def time_to_live(block: Block) -> str | None:
    """The TTL of the block's cache breakpoint, None where it has none."""
    control = block.get("cache_control")
    return control.get("ttl") or "5m" if isinstance(control, Mapping) else None


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A `cache_control`: the number of its block in the chain, its TTL, and the path of the field's owner."""

    block: int
    ttl: str
    path: str


@dataclass(slots=True)
class Prefix:
    """The chain of one request. `states[i]` and `tokens[i]` cover everything up to and including block i.

    `ends[m]` is the number of blocks up to the end of message m.
    """

    body: Mapping[str, Any]
    betas: frozenset[str] = frozenset()
    tools_digest: str = ""
    system_digest: str = ""
    head_length: int = 0
    states: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    breakpoints: list[Breakpoint] = field(default_factory=list)
    deferred: dict[str, int] = field(default_factory=dict)
    """The tokens of each deferred tool, by its name."""
    pictures: list[Picture] = field(default_factory=list)
    pictures_of: list[int] = field(default_factory=list)

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

    def add(self, role: str, block: Block, path: str) -> None:
        encoded = canonical(block)
        tokens = len(encoded) // CHARS_PER_TOKEN + 1
        for inner, inner_path in nested(block, path):
            ttl = time_to_live(inner)
            if ttl is not None:
                self.breakpoints.append(Breakpoint(len(self.states), ttl, inner_path))
            if inner.get("type") == "tool_reference":
                tokens += self._loaded_tokens(inner, inner_path)
            if inner.get("type") in ("image", "document") and role != "tools":
                tokens += self._media_tokens(inner, inner_path)
        self.states.append(next_state(self.state, role, encoded))
        self.tokens.append(self.total_tokens + tokens)

    def _loaded_tokens(self, block: Block, path: str) -> int:
        name = block["tool_name"]
        if all(tool.get("name") != name for tool in blocks_of(self.body.get("tools"))):
            raise ApiRejection(f"{path}.tool_reference: Tool reference '{name}' not found in available tools")
        return self.deferred.get(name, 0)

    def _media_tokens(self, block: Block, path: str) -> int:
        """Count the tokens of a picture or document beyond its JSON, whose base64 counts nothing."""
        uncounted = len(str(block["source"].get("data", ""))) // CHARS_PER_TOKEN
        if block["type"] == "document" and block["source"]["type"] != "base64":
            return 0
        picture = counted_pages(block, path) if block["type"] == "document" else measured(block, path)
        self.pictures.append(picture)
        return picture.tokens - uncounted

    def add_head(self) -> None:
        every = blocks_of(self.body.get("tools"))
        self.deferred = {
            tool["name"]: len(canonical(tool)) // CHARS_PER_TOKEN + 1 for tool in every if tool.get("defer_loading")
        }
        tools = loaded_tools(self.body)
        system = blocks_of(self.body.get("system"))
        self.tools_digest = _digest(tools)
        self.system_digest = _digest(system)
        for index, tool in enumerate(tools):
            self.add("tools", tool, f"tools.{index}")
        for index, block in enumerate(system):
            self.add("system", block, f"system.{index}")
        self.head_length = len(self.states)

    def add_messages(self, first: int) -> None:
        messages = self.body["messages"]
        for index in range(first, len(messages)):
            for position, block in enumerate(blocks_of(messages[index]["content"])):
                self.add(messages[index]["role"], block, f"messages.{index}.content.{position}")
            self.ends.append(len(self.states))
            self.pictures_of.append(len(self.pictures))

    def cut(self, body: Mapping[str, Any], messages: int) -> Prefix:
        """The chain of another request that begins with the same head and so many of these messages."""
        length = self.start_of(messages)
        return replace(
            self,
            body=body,
            states=self.states[:length],
            tokens=self.tokens[:length],
            ends=self.ends[:messages],
            breakpoints=[entry for entry in self.breakpoints if entry.block < length],
            pictures=self.pictures[: self.pictures_of[messages - 1]] if messages else [],
            pictures_of=self.pictures_of[:messages],
        )


def loaded_tools(body: Mapping[str, Any]) -> list[Block]:
    """The tools that the model is told of before everything else."""
    return [tool for tool in blocks_of(body.get("tools")) if not tool.get("defer_loading")]


def next_state(state: bytes, role: str, encoded: str) -> bytes:
    digest = blake2b(state, digest_size=16)
    digest.update(role.encode())
    digest.update(encoded.encode())
    return digest.digest()


def _digest(blocks: Iterable[Block]) -> str:
    encoded = "\n".join(canonical(block) for block in blocks)
    return blake2b(encoded.encode(), digest_size=8).hexdigest()


def _first_difference(old: list[Any], new: list[Any]) -> int:
    for position, (before, after) in enumerate(zip(old, new, strict=False)):
        if before != after:
            return position
    return min(len(old), len(new))


class RecentPrefixes:
    """The chains of the latest valid requests: a long conversation is checked and hashed once, not with every turn."""

    def __init__(self) -> None:
        self._recent: deque[Prefix] = deque(maxlen=16)

    def recall(self, body: Mapping[str, Any], betas: frozenset[str]) -> tuple[Prefix | None, int]:
        """The valid request that shares most with this one (model, betas and head in full), and how many messages."""
        best: Prefix | None = None
        longest = 0
        for candidate in reversed(self._recent):
            same_head = all(candidate.body.get(name) == body.get(name) for name in ("model", "tools", "system"))
            if not same_head or candidate.betas != betas:
                continue
            common = _first_difference(candidate.body["messages"], body["messages"])
            if best is None or common > longest:
                best, longest = candidate, common
            if common == len(candidate.body["messages"]):
                break  # the conversation only grew: no other can share much more
        return best, longest

    def remember(self, prefix: Prefix) -> None:
        self._recent.append(prefix)


def chain(body: Mapping[str, Any], betas: frozenset[str], base: Prefix | None, known: int) -> Prefix:
    """The request's chain, of which `known` messages are taken over from `base`."""
    if base is None:
        prefix = Prefix(body, betas)
        prefix.add_head()
    else:
        prefix = base.cut(body, known)
    prefix.add_messages(known)
    return prefix
