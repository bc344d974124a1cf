"""Where the turns of a conversation begin: a user's prompt and all that came of it, in the API's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.agent.agent import GO_ON


def begins_turn(message: Mapping[str, Any]) -> bool:
    """Whether the message is a prompt: what the user's side says that is no result of a call, and no "go on" of ours."""
    if message["role"] != "user":
        return False
    content = message["content"]
    if isinstance(content, str):
        return True
    if any(block.get("type") == "tool_result" for block in content):
        return False
    return not any(block.get("text") == GO_ON for block in content)


def count_turns(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many prompts there are."""
    return sum(begins_turn(message) for message in messages)
