"""Claude Code's messages, as JSON, as the classes of claude-agent-sdk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from cellwright.claude_agent_sdk.types import (
    AssistantMessage,
    ContentBlock,
    Message,
    ResultMessage,
    ServerToolResultBlock,
    ServerToolUseBlock,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

Json = Mapping[str, Any]

_SYSTEM: dict[str, type[SystemMessage]] = {
    "task_started": TaskStartedMessage,
    "task_notification": TaskNotificationMessage,
}

_REASONS = {"error_max_turns": "max_turns", "error_max_budget_usd": "max_budget", "success": "api_error"}
"""The reason why a run ended that failed, by the subtype of its result."""

_BLOCKS: dict[str, Callable[[Json], ContentBlock]] = {
    "text": lambda block: TextBlock(block["text"]),
    "thinking": lambda block: ThinkingBlock(block["thinking"], block.get("signature", "")),
    "tool_use": lambda block: ToolUseBlock(block["id"], block["name"], dict(block["input"])),
    "tool_result": lambda block: ToolResultBlock(block["tool_use_id"], block.get("content"), block.get("is_error")),
    "server_tool_use": lambda block: ServerToolUseBlock(block["id"], block["name"], dict(block["input"])),
}


def as_message(given: Json) -> Message:
    """The message of the SDK for one of `ClaudeMessages`."""
    match given["type"]:
        case "assistant":
            return _assistant(given)
        case "user":
            return UserMessage(
                _content(given["message"]["content"]),
                uuid=given.get("uuid"),
                parent_tool_use_id=given.get("parent_tool_use_id"),
            )
        case "stream_event":
            return StreamEvent(given["uuid"], given["session_id"], given["event"], given.get("parent_tool_use_id"))
        case "result":
            reason = _REASONS.get(given["subtype"]) if given["is_error"] else "completed"
            known = _named(ResultMessage, given)
            return ResultMessage(**{"terminal_reason": reason, **known, "model_usage": given.get("modelUsage")})
        case _:
            made = _SYSTEM.get(given["subtype"], SystemMessage)
            more = {} if made is SystemMessage else _named(made, given)
            return made(**{**more, "subtype": given["subtype"], "data": dict(given)})


def _named(made: type[Any], given: Json) -> dict[str, Any]:
    """The fields of `made` that `given` has."""
    return {each.name: given[each.name] for each in fields(made) if each.name in given}


def _assistant(given: Json) -> AssistantMessage:
    message = given["message"]
    return AssistantMessage(
        _blocks(message["content"]),
        message["model"],
        parent_tool_use_id=given.get("parent_tool_use_id"),
        error=given.get("error"),
        usage=message.get("usage"),
        message_id=message.get("id"),
        stop_reason=message.get("stop_reason"),
        session_id=given.get("session_id"),
        uuid=given.get("uuid"),
    )


def result_fields(message: ResultMessage) -> dict[str, Any]:
    """The fields of a result, as `ResultError.data` has them."""
    return {each.name: getattr(message, each.name) for each in fields(message)}


def _content(content: str | list[Json]) -> str | list[ContentBlock]:
    return content if isinstance(content, str) else _blocks(content)


def _blocks(content: list[Json]) -> list[ContentBlock]:
    """The blocks that the SDK has classes for."""
    found: list[ContentBlock] = []
    for block in content:
        if (make := _BLOCKS.get(block["type"])) is not None:
            found.append(make(block))
        elif block["type"].endswith("_tool_result"):
            inner = block.get("content")
            found.append(
                ServerToolResultBlock(block["tool_use_id"], inner if isinstance(inner, dict) else {"content": inner})
            )
    return found
