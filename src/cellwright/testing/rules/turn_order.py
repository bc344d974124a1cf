"""The order of a conversation: who speaks when, and that every tool call is answered exactly once, at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.models import ServedModel
from cellwright.testing.rules.prefix import Block, blocks_of, nested
from cellwright.testing.rules.request_fields import ONLY_ASSISTANT, ONLY_USER, SERVER_TOOL_RESULTS

ID_PATTERN = "^[a-zA-Z0-9_-]+$"
MAX_MESSAGES = 100_000

Message = Mapping[str, Any]


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
class RoleRun:
    """Consecutive messages of one role: the API reads them as one turn."""

    role: str
    message: int
    blocks: list[Placed]


def exchanges(messages: Sequence[Message], first: int = 0) -> list[RoleRun]:
    """The turns from message `first` on."""
    merged: list[RoleRun] = []
    for index in range(first, len(messages)):
        message = messages[index]
        placed = [Placed(block, index, at) for at, block in enumerate(blocks_of(message["content"]))]
        if merged and merged[-1].role == message["role"] != "system":
            merged[-1].blocks.extend(placed)
        else:
            merged.append(RoleRun(message["role"], index, placed))
    return merged


def tail_start(messages: Sequence[Message], known: int) -> int:
    """Find where to look from when the first `known` messages were right: at their last turns, for context."""
    start = known
    for _ in range(3):
        role = messages[start - 1]["role"] if start else ""
        while start and messages[start - 1]["role"] == role:
            start -= 1
    return start


def check_content(messages: Sequence[Message], first: int) -> None:
    """From message `first` on: nothing is empty, and every block stands in a message of a role that may hold it."""
    for index in range(first, len(messages)):
        message = messages[index]
        optional = index == len(messages) - 1 and message["role"] == "assistant"
        optional |= message["role"] == "system" and bool(message.get("output_config"))
        if not message["content"] and not optional:
            raise ApiRejection(
                f"messages.{index}.content: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        for position, block in enumerate(blocks_of(message["content"])):
            _check_block(block, f"messages.{index}.content.{position}", message["role"])


def check_system_text(system: Any) -> None:
    if isinstance(system, list):
        for index, block in enumerate(system):
            check_text(block, f"system.{index}")


def _check_block(block: Block, path: str, role: str) -> None:
    kind = block["type"]
    if kind in ONLY_USER and role != "user":
        raise ApiRejection(f"{path}: `{kind}` blocks can only be in `user` messages")
    if kind in ONLY_ASSISTANT and role != "assistant":
        raise ApiRejection(f"{path}: `{kind}` blocks can only be in `assistant` messages")
    if kind == "text" and role == "user" and block.get("citations"):
        raise ApiRejection(f"{path}.text.citations: citations are not permitted in `user` messages")
    if kind == "tool_result" and block.get("is_error") and not block.get("content"):
        raise ApiRejection(f"{path}.tool_result: content cannot be empty if `is_error` is true")
    for inner, inner_path in nested(block, path):
        if inner["type"] == "text":
            check_text(inner, inner_path)


def check_text(block: Block, path: str) -> None:
    text = block["text"]
    if not text and block.get("cache_control"):
        raise ApiRejection(f"{path}.text: cache_control cannot be set for empty text blocks")
    if not text:
        raise ApiRejection(f"{path}.text: text content blocks must be non-empty")
    if not text.strip():
        raise ApiRejection(f"{path}.text: text content blocks must contain non-whitespace text")


def check_conversation(messages: Sequence[Message], turns: Sequence[RoleRun], model: ServedModel) -> None:
    """Check who begins, where system messages may stand, and the pairing of tool calls and results.

    `turns` may be the tail of the conversation; then the first of them is there for the second only.
    """
    if len(messages) > MAX_MESSAGES:
        raise ApiRejection(f"messages: List should have at most {MAX_MESSAGES} items after validation")
    start = turns[0].message
    begins_compacted = bool(turns[0].blocks) and turns[0].blocks[0].type == "compaction"
    if start == 0 and turns[0].role != "user" and not begins_compacted:
        raise ApiRejection('messages.0.role: first message must use the "user" role')
    _check_tool_use_ids(messages[:start], turns)
    for index, turn in enumerate(turns):
        if index == 0 and start:
            continue
        previous = turns[index - 1] if index else None
        following = turns[index + 1] if index + 1 < len(turns) else None
        if turn.role == "assistant":
            _check_calls_answered(turn, following)
            _check_server_calls(turn, following)
        elif turn.role == "user":
            _check_results(turn, previous)
        else:
            _check_system_place(turn, previous, following, model)


def _check_system_place(turn: RoleRun, previous: RoleRun | None, following: RoleRun | None, model: ServedModel) -> None:
    path = f"messages.{turn.message}"
    if not model.system_messages:
        raise ApiRejection(f"{path}.role: role 'system' is not supported on this model")
    after_server_tool = previous is not None and bool(previous.blocks) and previous.blocks[-1].type == "server_tool_use"
    if previous is None or (previous.role != "user" and not after_server_tool):
        raise ApiRejection(f"{path}: role 'system' must follow a 'user' message")
    if following is not None and following.role != "assistant":
        raise ApiRejection(f"{path}: role 'system' must precede an 'assistant' message or end the array")


def _check_tool_use_ids(earlier: Sequence[Message], turns: Sequence[RoleRun]) -> None:
    seen = {
        block["id"]
        for message in earlier
        if message["role"] == "assistant"
        for block in blocks_of(message["content"])
        if block["type"] == "tool_use"
    }
    for turn in turns:
        if turn.role != "assistant":
            continue
        for placed in turn.blocks:
            if placed.type == "tool_use":
                _check_tool_use_id(placed, seen)


def _check_tool_use_id(placed: Placed, seen: set[str]) -> None:
    identifier = placed.block["id"]
    if not re.fullmatch(ID_PATTERN, identifier):
        raise ApiRejection(f"{placed.path}.tool_use.id: String should match pattern '{ID_PATTERN}'")
    if identifier in seen:
        raise ApiRejection(f"{placed.path}.tool_use.id: `tool_use` ids must be unique")
    seen.add(identifier)


def _check_calls_answered(turn: RoleRun, following: RoleRun | None) -> None:
    calls = [placed.block["id"] for placed in turn.blocks if placed.type == "tool_use"]
    if not calls:
        return
    answers = following.blocks if following is not None and following.role == "user" else []
    answered = {placed.block["tool_use_id"] for placed in _leading_results(answers)}
    missing = [identifier for identifier in calls if identifier not in answered]
    if missing:
        raise ApiRejection(
            f"messages.{turn.blocks[-1].message}: `tool_use` ids were found without `tool_result` blocks immediately "
            f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
            "next message."
        )


def _check_server_calls(turn: RoleRun, following: RoleRun | None) -> None:
    """A call of the API's own tools has its result in the same turn, unless the API is to run it now.

    That is so at the end of the request, and where nothing but results of the client's tools follows.
    """
    open_calls: dict[str, Placed] = {}
    for placed in turn.blocks:
        if placed.type == "server_tool_use":
            open_calls[placed.block["id"]] = placed
        elif placed.type in SERVER_TOOL_RESULTS and open_calls.pop(placed.block["tool_use_id"], None) is None:
            raise ApiRejection(
                f"{placed.path}: unexpected `tool_use_id` found in `{placed.type}` blocks: "
                f"{placed.block['tool_use_id']}. Each `{placed.type}` block must have a corresponding `server_tool_use` "
                "block before it."
            )
    if not open_calls or following is None or all(placed.type == "tool_result" for placed in following.blocks):
        return
    placed = next(iter(open_calls.values()))
    name = placed.block["name"]
    raise ApiRejection(
        f"messages.{placed.message}: `{name}` tool use with id `{placed.block['id']}` was found without a corresponding "
        f"`{name}_tool_result` block"
    )


def _leading_results(blocks: Sequence[Placed]) -> list[Placed]:
    """The tool results that stand before anything else."""
    leading = []
    for placed in blocks:
        if placed.type != "tool_result":
            break
        leading.append(placed)
    return leading


def _check_results(turn: RoleRun, previous: RoleRun | None) -> None:
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
                f"{placed.path}: unexpected `tool_use_id` found in `tool_result` blocks: {identifier}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if identifier in answered:
            raise ApiRejection(
                f"{placed.path}: each tool_use must have a single result. Found multiple `tool_result` blocks with "
                f"id: {identifier}"
            )
        answered.add(identifier)


def check_last(turns: Sequence[RoleRun], model: ServedModel, *, paused: bool) -> None:
    """A final assistant turn is a prefill, which newer models refuse; `paused`: it is a turn that was paused."""
    last = turns[-1]
    if last.role != "assistant" or paused or (last.blocks and last.blocks[-1].type == "server_tool_use"):
        return
    path = f"messages.{last.blocks[-1].message if last.blocks else last.message}"
    if not model.prefill:
        raise ApiRejection(
            f"{path}: This model does not support assistant message prefill. The conversation must end with a user "
            "message."
        )
    text = last.blocks[-1].block.get("text", "") if last.blocks else ""
    if text != text.rstrip():
        raise ApiRejection(f"{path}.content: final assistant content cannot end with trailing whitespace")
