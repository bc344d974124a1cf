"""A model as the loop needs it: `Provider.stream`. The Anthropic provider stands in `anthropic.py`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self

from msgspec import Struct, structs

from cellwright.errors import ApiError, ErrorCode
from cellwright.events import Retrying, TextDelta, ThinkingDelta, ToolInputDelta, TurnEnd
from cellwright.model.models import Thinking, accepted_effort, limits, thinking_field

CacheTtl = Literal["5m", "1h"]
"""The time that the API's prompt cache keeps what was written to it or read again."""

INVALID_JSON = "INVALID_JSON"
"""The key that holds the raw text of an input that was not JSON (the convention of the API's documentation)."""


request_sent: ContextVar[Callable[[], None]] = ContextVar("request_sent", default=lambda: None)
"""Called in the task that streams, when its request is on its way and this thread has nothing to do but to wait.

A provider that does not know when that is need not call it.
"""


class MessageStart(Struct, frozen=True):
    """An answer begins: from here on it is paid for, whether or not it arrives.

    `usage` is the API's, and grows as the API tells more of it.
    """

    usage: Mapping[str, Any]
    model: str


class BlockEnd(Struct, frozen=True):
    """The content block `index` of the answer is whole; `block` is what goes back to the API of it."""

    index: int
    block: Mapping[str, Any]


ProviderEvent = MessageStart | BlockEnd | TextDelta | ThinkingDelta | ToolInputDelta | Retrying | TurnEnd


class ModelChoice(Struct, frozen=True, kw_only=True):
    """The model that works, by its name or a short one, and how hard it thinks. None leaves that to others."""

    model: str | None = None
    effort: str | None = None

    def completed_by(self, other: ModelChoice) -> Self:
        """Return this choice, with what `other` sets where this sets nothing."""
        return structs.replace(self, model=self.model or other.model, effort=self.effort or other.effort)

    def said(self) -> dict[str, Any]:
        """The fields that it sets, by their names."""
        return {name: value for name in ModelChoice.__struct_fields__ if (value := getattr(self, name))}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)  # each method is compiled at import
class RequestOptions:
    """The part of the options and settings that every request has; it goes whole from there to the request's body.

    `effort` None leaves the model's default; `thinking_budget` (tokens) is for models that think only with one; None:
    they do not. `cache_ttl` is how long what is cached lives; None: an hour for system and tools, five minutes for the
    messages.
    """

    effort: str | None = None
    thinking: Thinking = "summarized"
    thinking_budget: int | None = None
    cache_ttl: CacheTtl | None = None

    @property
    def chosen(self) -> dict[str, str | None]:
        """The options that the user chooses, by their names in the table of options."""
        return {"effort": self.effort}

    def accepted_by(self, model: str, *, is_own: bool = True) -> Self:
        """The same as `model` takes it: with the next lower effort that it has, or none.

        A model that is not the agent's own gets no budget: in mid-turn it continues only with thinking of its own.
        """
        budget = self.thinking_budget if is_own else None
        return replace(self, effort=accepted_effort(model, self.effort), thinking_budget=budget)

    def lacking(self, model: str) -> str:
        """Say what of it `model` does not have, and what holds instead; "" where it has all."""
        effort = accepted_effort(model, self.effort)
        if effort == self.effort:
            return ""
        instead = f"it thinks with {effort}" if effort else "it thinks as it usually does"
        return f"{model} does not have the effort {self.effort}; {instead}."

    def with_choice(self, choice: ModelChoice | None) -> Self:
        """The same with the effort of `choice`, if that says one; None: as the model usually thinks."""
        return replace(self, effort=None if choice is None else choice.effort or self.effort)


USUAL_REQUEST_OPTIONS = RequestOptions()
LEAST_THOUGHT = RequestOptions(effort="low")
"""For answers that somebody waits for as they type."""


class Request(Struct, frozen=True, kw_only=True):
    """One request to the model. What a session has once and what only grows is kept as encoded JSON (UTF-8 bytes).

    `system` and `tools` are JSON arrays as the session's header holds them (`system` ends with the 1 h cache breakpoint);
    `messages` are the session's messages, one JSON object each, never changed once they are there.
    `output_format` is the API's `output_config.format`. `cache_whole` False keeps the cache for what the messages mark
    themselves: a request whose end nobody asks for again. `compaction` asks for the API's own summary of the messages and
    nothing else, by these instructions or, if they are "", by the API's; raises ApiError API_REQUEST_INVALID where there is
    none. `summary_as_text`: such a summary is sent as text, because the API does not take it back as it is.
    `clear_tool_results_at`: from so many tokens on the API is to leave old results out.
    """

    model: str
    system: bytes
    tools: bytes
    messages: Sequence[bytes]
    max_tokens: int
    options: RequestOptions = USUAL_REQUEST_OPTIONS
    output_format: Mapping[str, Any] | None = None
    stop_sequences: tuple[str, ...] = ()
    cache_whole: bool = True
    compaction: str | None = None
    summary_as_text: bool = False
    clear_tool_results_at: int | None = None

    @property
    def thinking(self) -> dict[str, Any] | None:
        """The field `thinking` of its body, None for none."""
        budget = min(self.options.thinking_budget or 0, self.max_tokens - 1)
        return thinking_field(self.model, self.options.thinking, self.options.effort, budget)

    @property
    def output_config(self) -> dict[str, Any]:
        """The field of its body, empty for none. Raises ApiError API_REQUEST_INVALID for what the model does not take."""
        config: dict[str, Any] = {}
        if (effort := self.options.effort) is not None:
            if effort not in (efforts := limits(self.model).efforts):
                there_are = f"Its efforts are {', '.join(efforts)}." if efforts else "It takes none."
                message = f"{self.model} does not take the effort {effort}. {there_are}"
                raise ApiError(ErrorCode.API_REQUEST_INVALID, message)
            config["effort"] = effort
        if self.output_format is not None:
            config["format"] = dict(self.output_format)
        return config


class Provider(Protocol):
    """Anything that turns a request into events.

    `MessageStart`, deltas as they come and a `BlockEnd` behind each block's, `Retrying` when the turn starts over (what
    streamed before is void), then exactly one `TurnEnd`. Where nothing is paid for, there is no `MessageStart`; what does
    not stream may leave `BlockEnd` out.
    What cannot be retried is raised as `ApiError`. Closing the iterator or cancelling the task closes the connection.
    """

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]: ...
