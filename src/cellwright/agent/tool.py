"""A tool: an async function with a name, a JSON schema and limits. `@tool` makes one from a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from cellwright.errors import ErrorCode
from cellwright.events import Event, Preview, QuestionKind

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


class CannotBeDone(Exception):
    """Raised by a tool's `preview` for a call that would only fail with `error`: nobody is asked to allow that.

    `error` may quote `files`. Where Claude may not read them, the user is asked all the same, with the error in `preview`.
    """

    def __init__(self, error: ToolError, preview: Preview, files: Iterable[Path] = ()) -> None:
        super().__init__(error.message)
        warning = f"{preview.warning} This cannot be done as it stands. {error.message}".strip()
        self.error = error
        self.preview = replace(preview, warning=warning)
        self.files = tuple(files)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gives back: `content` for the model, `display` for the views (a diff, an exit code), never the reverse.

    `content` is a string or a list of `text`/`image`/`document` blocks. `is_error` marks a result that is a failure
    although the tool worked (a command that exited with 1).
    """

    content: Content
    display: Mapping[str, Any] | None = None
    is_error: bool = False


Category = Literal[
    "files", "notebooks", "search", "code", "shell", "git", "web", "planning", "agents", "kernel", "other"
]
"""What a tool is about; lists of tools are shown by it."""


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """What bounds a call. None: no bound of this kind, or the tool keeps it itself.

    `seconds` (30 unless a tool says otherwise); `result_chars`: what the model gets (100,000 are about 25,000 tokens), the
    rest is in a file that Read pages; `results`: how many finds; `file_bytes`: the largest file; `calls_per_minute`;
    `child_memory_mb`: what a child process may take, in MiB.
    """

    seconds: float | None = 30.0
    result_chars: int = 100_000
    results: int | None = None
    file_bytes: int | None = None
    calls_per_minute: int | None = None
    child_memory_mb: int | None = None


def _unheard(_event: Event) -> None:
    """Where nobody listens."""


def _no_history() -> Sequence[Mapping[str, Any]]:
    return ()


def _unpaid(_usage: Mapping[str, Any], _cost_usd: float | None) -> None:
    """Where nobody counts."""


async def _no_objection(_event: str, _fields: Mapping[str, Any]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may know of the run it is part of, and what it may tell it. From its own thread only, but `progress`."""

    tool_use_id: str
    progress: Callable[..., None]
    """`progress(text="", message="", fraction=None, output=None)`; fields as in `events.ToolProgress`. From any thread."""
    session_id: str = ""
    emit: Callable[[Event], None] = _unheard
    """Adds an event to the run's log: for what is no progress of this call, such as `TodosChanged`."""
    history: Callable[[], Sequence[Mapping[str, Any]]] = _no_history
    """The session's messages so far, as the API has them."""
    spend: Callable[[Mapping[str, Any], float | None], None] = _unpaid
    """Counts what a request of the tool's own has cost (`usage`, US dollars) with the run's."""
    set_mode: Callable[[str], str] = str
    """Puts the session into a permission mode for the calls that follow; gives the one it is in then."""
    mode: str = "default"
    """The permission mode that the call was decided in."""
    ask_hooks: Callable[[str, Mapping[str, Any]], Awaitable[str]] = _no_objection
    """Tells hooks of an event that is the call's own doing (`TaskCreated`); gives why it must not be, or ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. `call(input, ctx)` gets input that was validated against `input_schema`.

    `read_only` calls of a turn run in parallel. `rule_key` names the input field that permission rules match.
    `title(input)` is the line on the tool's card; `preview(input)`, which may raise CannotBeDone, is what a question shows.
    `limits.seconds` bounds a call from outside. `input_examples` fit `input_schema` and go to the model with it.
    `asks` is what the user is asked where the policy says "ask": whether the call may run, or, where the call is itself a
    question to the user, that question; the answer then comes back as the call's input, which must fit `answered_schema`:
    the model, which sees `input_schema` alone, cannot answer in the user's place. `facts(input)` is what the policy
    must know besides the input, under names that the schema does not have: the folder a shell is in. `prepare(input)` is
    waited for before: it finds out what `facts` tells then. It may raise ToolError for what cannot be done anyway.
    `asks_together`: the user is asked about neighbouring calls of one message at once, and may answer in any order; each
    runs when it was allowed, one at a time.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    call: Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult | Content]]
    read_only: bool = False
    rule_key: str = ""
    limits: ToolLimits = field(default_factory=ToolLimits)
    category: Category = "other"
    input_examples: Sequence[Mapping[str, Any]] = ()
    asks: QuestionKind = "permission"
    answered_schema: Mapping[str, Any] | None = None
    prepare: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    asks_together: bool = False
    title: Callable[[Mapping[str, Any]], str] | None = None
    preview: Callable[[Mapping[str, Any]], Awaitable[Preview]] | None = None

    def to_param(self) -> dict[str, Any]:
        """The tool as the Messages API wants it."""
        param: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "input_schema": dict(self.input_schema),
        }
        if self.input_examples:
            param["input_examples"] = [dict(example) for example in self.input_examples]
        return param
