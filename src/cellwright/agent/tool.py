"""A tool: an async function with a name, a JSON schema and limits. `@tool` makes one from a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cellwright.errors import ErrorCode
from cellwright.events import Preview

Content = str | list[dict[str, Any]]


class ToolError(Exception):
    """Claude reads it and can react: say what is wrong and how to go on."""

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode = ErrorCode.EXECUTION_ERROR,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.details = dict(details or {})


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gives back: `content` for the model, `display` for the views (a diff, an exit code), never the reverse.

    `content` is a string or a list of `text`/`image`/`document` blocks. `is_error` marks a result that is a failure
    although the tool worked (a command that exited with 1).
    """

    content: Content
    display: Mapping[str, Any] | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """`seconds`: how long a call may take, None where the tool keeps its own time. `result_chars`: what the model gets."""

    seconds: float | None = 30.0
    result_chars: int = 100_000


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may know of the run it is part of: its id, and how to tell the views how it goes."""

    tool_use_id: str
    progress: Callable[..., None]
    """`progress(text="", message="", fraction=None, output=None)`; fields as in `events.ToolProgress`. From any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. `call(input, ctx)` gets input that was validated against `input_schema`.

    `read_only` calls of a turn run in parallel. `rule_key` names the input field that permission rules match.
    `title(input)` is the line on the tool's card; `preview(input)` is what a permission question shows.
    `limits.seconds` bounds a call from outside.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    call: Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult | Content]]
    read_only: bool = False
    rule_key: str = ""
    limits: ToolLimits = field(default_factory=ToolLimits)
    title: Callable[[Mapping[str, Any]], str] | None = None
    preview: Callable[[Mapping[str, Any]], Awaitable[Preview]] | None = None

    def to_param(self) -> dict[str, Any]:
        """The tool as the Messages API wants it."""
        return {"name": self.name, "description": self.description, "input_schema": dict(self.input_schema)}
