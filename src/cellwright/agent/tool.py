"""A tool: an async function with a name, a JSON schema and limits. `@tool` makes one from a function.

`@tool`: a tool from a plain function. The schema comes from its type hints, the descriptions from its docstring.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, overload

from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import Event, Preview, QuestionKind

Content = str | list[dict[str, Any]]


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


TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
"""What the Messages API takes as a tool's name."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    read_only: bool = False,
    rule_key: str = "",
    limits: ToolLimits | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    read_only: bool = False,
    rule_key: str = "",
    limits: ToolLimits | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function, sync or async.

    Each parameter needs a type hint that pydantic knows; the docstring's first part describes the tool, its `Args:` the
    parameters (Google, NumPy or reST style). A parameter hinted `ToolContext` gets the call's context and is no input.
    A sync function runs in a worker thread. What it returns goes to Claude: a string, content blocks, a `ToolResult`, or
    anything that JSON can hold. To tell Claude what is wrong, raise `ToolError`.

    `read_only=True` says that the function changes nothing: it may run in parallel and is not asked for.
    `rule_key` names the parameter that permission rules such as `Weather(Oslo)` match.

    >>> @tool(read_only=True)
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: the first
    ...     '''
    ...     return a + b
    >>> add.name, add.description, add.input_schema["required"]
    ('add', 'Add two numbers.', ['a'])
    """

    def make(function: Callable[..., Any]) -> Tool:
        return _from_function(
            function, name or function.__name__, description, read_only, rule_key, limits or ToolLimits()
        )

    return make(function) if function is not None else make


def _from_function(
    function: Callable[..., Any], name: str, description: str, read_only: bool, rule_key: str, limits: ToolLimits
) -> Tool:
    if not TOOL_NAME.match(name):
        raise _unusable(name, "a tool's name has 1 to 64 letters, digits, `_` or `-`; give one with @tool(name=…)")
    doc, parameter_docs = _docstring(function)
    description = description or doc
    if not description:
        raise _unusable(name, "Claude needs a description: give the function a docstring, or @tool(description=…)")
    model, context_name = _input_model(function, name, parameter_docs)
    schema = _tidy(model.model_json_schema())
    if rule_key and rule_key not in schema["properties"]:
        raise _unusable(name, f"rule_key {rule_key!r} is none of its parameters")

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult | Content:
        arguments = _parse(model, tool_input)
        if context_name:
            arguments[context_name] = ctx
        if inspect.iscoroutinefunction(function):
            value = await function(**arguments)
        else:
            value = await asyncio.to_thread(functools.partial(function, **arguments))
        return _content(value)

    return Tool(
        name=name,
        description=description,
        input_schema=schema,
        call=call,
        read_only=read_only,
        rule_key=rule_key,
        limits=limits,
    )


def _unusable(name: str, why: str) -> CellwrightError:
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"the function {name} cannot be a tool: {why}")


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    import docstring_parser  # 30 ms that only users of @tool pay

    parsed = docstring_parser.parse(inspect.getdoc(function) or "")
    text = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
    return text, {p.arg_name: p.description for p in parsed.params if p.description}


def _input_model(function: Callable[..., Any], name: str, docs: Mapping[str, str]) -> tuple[Any, str]:
    """A pydantic model of the parameters, and the name of the one that wants the context ("" if none does)."""
    import pydantic  # 40 ms that only users of @tool pay

    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise _unusable(name, f"parameter {parameter.name} has no name Claude could use")
        if parameter.name not in hints:
            raise _unusable(name, f"parameter {parameter.name} has no type hint")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (
            hints[parameter.name],
            pydantic.Field(default, description=docs.get(parameter.name)),
        )
    try:
        model = pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except (pydantic.errors.PydanticUserError, NameError) as error:
        raise _unusable(name, f"a type hint has no JSON schema ({error})") from error
    return model, context_name


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic makes of the names: they cost tokens and say nothing."""

    def strip(node: Any, *, names: bool = False) -> Any:
        if isinstance(node, dict):
            return {
                key: strip(value, names=key in ("properties", "$defs") and not names)
                for key, value in node.items()
                if names or key != "title"
            }
        return [strip(item) for item in node] if isinstance(node, list) else node

    tidy: dict[str, Any] = strip(schema)
    tidy.setdefault("properties", {})
    return tidy


def _parse(model: Any, tool_input: Mapping[str, Any]) -> dict[str, Any]:
    import pydantic

    try:
        parsed = model.model_validate(dict(tool_input))
    except pydantic.ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'input'}: {item['msg']}" for item in error.errors(include_url=False)
        )
        raise ToolError(f"The input does not fit: {problems}", code=ErrorCode.INVALID_PARAMETERS) from error
    return {field: getattr(parsed, field) for field in type(parsed).model_fields}


_BLOCKS = ("text", "image", "document")


def _is_block(item: Any) -> bool:
    # data can have a "type" too
    return isinstance(item, dict) and item.get("type") in _BLOCKS


def _content(value: Any) -> ToolResult | Content:
    if isinstance(value, ToolResult | str):
        return value
    if isinstance(value, list) and value and all(_is_block(item) for item in value):
        return value
    if value is None:
        return "(no result)"
    return json.dumps(value, ensure_ascii=False, default=str)
