"""The order of a conversation: who speaks when, and that every tool call is answered exactly once, at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.local_api.api_error import ApiRejection
from cellwright.local_api.prefix import Block, blocks_of

ID_PATTERN = "^[a-zA-Z0-9_-]+$"
MAX_MESSAGES = 100_000


@dataclass(frozen=True, slots=True)
class Placed:
    """A block and where it stands: message and content index."""

    block: Block
    message: int
    position: int

    @property
    def path(self) -> str:
        return f"messages.{self.message}.content.{self.position}"

    @property
    def type(self) -> str:
        return str(self.block.get("type"))


@dataclass(frozen=True, slots=True)
class Exchange:
    """Consecutive messages of one role: the API reads them as one turn."""

    role: str
    message: int
    blocks: list[Placed]


def exchanges(messages: Sequence[Mapping[str, Any]]) -> list[Exchange]:
    merged: list[Exchange] = []
    for index, message in enumerate(messages):
        placed = [Placed(block, index, at) for at, block in enumerate(blocks_of(message["content"]))]
        if merged and merged[-1].role == message["role"]:
            merged[-1].blocks.extend(placed)
        else:
            merged.append(Exchange(message["role"], index, placed))
    return merged


def check_conversation(messages: Sequence[Mapping[str, Any]]) -> None:
    if not messages:
        raise ApiRejection("messages: at least one message is required")
    if len(messages) > MAX_MESSAGES:
        raise ApiRejection(f"messages: List should have at most {MAX_MESSAGES} items after validation")
    if messages[0]["role"] != "user":
        raise ApiRejection('messages.0.role: first message must use the "user" role')
    _check_content(messages)
    turns = exchanges(messages)
    _check_tool_use_ids(turns)
    for index, turn in enumerate(turns):
        previous = turns[index - 1] if index else None
        following = turns[index + 1] if index + 1 < len(turns) else None
        if turn.role == "assistant":
            _check_calls_answered(turn, following)
        else:
            _check_results(turn, previous)


def _check_content(messages: Sequence[Mapping[str, Any]]) -> None:
    for index, message in enumerate(messages):
        blocks = blocks_of(message["content"])
        optional = index == len(messages) - 1 and message["role"] == "assistant"
        if (not blocks or message["content"] == "") and not optional:
            raise ApiRejection(
                f"messages.{index}: all messages must have non-empty content except for the optional final assistant message"
            )
        for position, block in enumerate(blocks):
            if block.get("type") == "text":
                _check_text(f"messages.{index}.content.{position}.text", block)


def _check_text(path: str, block: Block) -> None:
    text = block["text"]
    if not text and block.get("cache_control"):
        raise ApiRejection(f"{path}: cache_control cannot be set for empty text blocks")
    if not text:
        raise ApiRejection(f"{path}: text content blocks must be non-empty")
    if not text.strip():
        raise ApiRejection(f"{path}: text content blocks must contain non-whitespace text")


def _check_tool_use_ids(turns: Sequence[Exchange]) -> None:
    seen: set[str] = set()
    for turn in turns:
        for placed in turn.blocks:
            if placed.type != "tool_use":
                continue
            identifier = placed.block["id"]
            if not re.fullmatch(ID_PATTERN, identifier):
                raise ApiRejection(f"{placed.path}.tool_use.id: String should match pattern '{ID_PATTERN}'")
            if identifier in seen:
                raise ApiRejection(f"{placed.path}.tool_use.id: `tool_use` ids must be unique")
            seen.add(identifier)


def _check_calls_answered(turn: Exchange, following: Exchange | None) -> None:
    calls = [placed for placed in turn.blocks if placed.type == "tool_use"]
    if not calls:
        return
    answers = following.blocks if following is not None and following.role == "user" else []
    answered = {placed.block["tool_use_id"] for placed in _leading_results(answers)}
    missing = [placed.block["id"] for placed in calls if placed.block["id"] not in answered]
    if missing:
        raise ApiRejection(
            f"messages.{turn.blocks[-1].message}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )


def _leading_results(blocks: Sequence[Placed]) -> list[Placed]:
    """The tool results that stand before anything else."""
    leading = []
    for placed in blocks:
        if placed.type != "tool_result":
            break
        leading.append(placed)
    return leading


def _check_results(turn: Exchange, previous: Exchange | None) -> None:
    called = set()
    if previous is not None and previous.role == "assistant":
        called = {placed.block["id"] for placed in previous.blocks if placed.type == "tool_use"}
    answered: set[str] = set()
    for placed in turn.blocks:
        if placed.type != "tool_result":
            continue
        identifier = placed.block["tool_use_id"]
        if identifier not in called:
            raise ApiRejection(
                f"{placed.path}: unexpected `tool_use_id` found in `tool_result` blocks: {identifier}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message."
            )
        if identifier in answered:
            raise ApiRejection(
                f"{placed.path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                f"{identifier}"
            )
        answered.add(identifier)
