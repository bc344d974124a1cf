"""A request's tools, system and messages as one chain of digests: what "the same conversation so far" means.

The API reads a request as tools, then system, then messages. After each block the chain has a state that stands for
everything up to there; thinking blocks are bound to such states, and the prompt cache is keyed by them. Consecutive
messages of one role are one turn, a string is one text block, and `cache_control` is no part of the content. A tool with
`defer_loading` is no part of the chain: its definition comes with the result that names it in a `tool_reference`.

The `usage` of a request comes out of the same chain: estimated tokens, and what a prompt cache would have saved.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.images import Picture, counted_pages, measured
from cellwright.testing.rules.models import ServedModel

CHARS_PER_TOKEN = 4

Block = Mapping[str, Any]

LOOKBACK_BLOCKS = 20
NEVER_CACHED = ("thinking", "redacted_thinking")


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
                name = inner["tool_name"]
                if all(tool.get("name") != name for tool in blocks_of(self.body.get("tools"))):
                    problem = f"Tool reference '{name}' not found in available tools"
                    raise ApiRejection(f"{inner_path}.tool_reference: {problem}")
                tokens += self.deferred.get(name, 0)
            if inner.get("type") in ("image", "document") and role != "tools":
                tokens += self._media_tokens(inner, inner_path)
        self.states.append(next_state(self.state, role, encoded))
        self.tokens.append(self.total_tokens + tokens)

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
            known, new = candidate.body["messages"], body["messages"]
            differ = (at for at, (before, after) in enumerate(zip(known, new, strict=False)) if before != after)
            common = next(differ, min(len(known), len(new)))
            if best is None or common > longest:
                best, longest = candidate, common
            if common == len(known):
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
    if len(entries) > 4:
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
