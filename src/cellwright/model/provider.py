"""A model as the loop needs it: `Provider.stream`. The Anthropic provider stands in `anthropic.py`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cellwright.events import Retrying, TextDelta, ThinkingDelta, ToolInputDelta, TurnEnd

INVALID_JSON = "INVALID_JSON"
"""The key that holds the raw text of an input that was not JSON (the convention of the API's documentation)."""


@dataclass(frozen=True, slots=True)
class MessageStart:
    """An answer begins: from here on it is paid for, whether or not it arrives.

    `usage` is the API's, and grows as the API tells more of it.
    """

    usage: Mapping[str, Any]
    model: str


ProviderEvent = MessageStart | TextDelta | ThinkingDelta | ToolInputDelta | Retrying | TurnEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to the model. What a session has once and what only grows is kept as encoded JSON (UTF-8 bytes).

    `system` and `tools` are JSON arrays as the session's header holds them (`system` ends with the 1 h cache breakpoint);
    `messages` are the session's messages, one JSON object each, never changed once they are there.
    `effort` None leaves the model's default; `output_format` is the API's `output_config.format`. `cache_whole` False keeps
    the cache for what the messages mark themselves: a request whose end nobody asks for again.
    """

    model: str
    system: bytes
    tools: bytes
    messages: Sequence[bytes]
    max_tokens: int
    effort: str | None = None
    output_format: Mapping[str, Any] | None = None
    stop_sequences: tuple[str, ...] = ()
    cache_whole: bool = True


class Provider(Protocol):
    """Anything that turns a request into events.

    `MessageStart` and deltas as they come, `Retrying` when the turn starts over (what streamed before is void), then exactly
    one `TurnEnd`. Where nothing is paid for, there is no `MessageStart`.
    What cannot be retried is raised as `ApiError`. Closing the iterator or cancelling the task closes the connection.
    """

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]: ...
