"""A tool: an async function with a name, a JSON schema, limits, and what it does to the user's things.

`@tool` makes one from a function: from one whose input is a `ToolInput`, as all built-in tools are, or from a plain one,
whose schema comes from its type hints and whose descriptions come from its docstring.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.input_schema import offered_examples, offered_schema, problem_at
from cellwright.agent.calls.tool_input import ToolInput, json_schema
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, HookResult
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import Event, Preview, QuestionKind
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Confinement
    from cellwright.agent.calls.tool_results import ToolOutput
    from cellwright.agent.subagent import Nesting

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


class ToolResult(Struct, frozen=True):
    """The result of a call: `content` for the model, `display` for views (a diff, an exit code), never the reverse.

    `content` is a string or a list of `text`/`image`/`document` blocks. `is_error` marks a result that is a failure
    although the tool worked (a command that exited with 1). `refused`: what a call that was tried in bounds needed and was
    refused (`ToolContext.trial`); nothing of it has an effect. `structured` is for programs: the tool's `ToolOutput`, or
    anything else that JSON can hold; the model does not see it.

    >>> ToolResult("2 rows", structured={"rows": 2}).structured
    {'rows': 2}
    """

    content: Content
    display: Mapping[str, Any] | None = None
    is_error: bool = False
    structured: Any = None
    refused: tuple[str, ...] = ()


Category = Literal[
    "files", "notebooks", "search", "code", "shell", "git", "web", "planning", "agents", "kernel", "other"
]
"""The subject of a tool, by which lists of tools are shown."""


AccessKind = Literal[
    "read", "list", "index", "find", "search", "edit", "patch", "shell", "python", "branch", "cells", "fresh_kernel",
    "variables", "repository", "lint", "tests", "fetch", "web_search", "agent", "skill", "question", "plan", "todos",
    "notes", "unknown",
]  # fmt: skip
"""The things a tool can do with what its input names.

`read` a file, `list` a folder, look things up in the `index` of its code, `find` files by a pattern, `search` their text;
`edit` a file, `patch` several; run a `shell` command, `python` in the kernel, code in a `branch` of it, notebook `cells`
there or in a `fresh_kernel`, a project's `lint` or `tests`; look at `variables` or at a Git `repository`; `fetch` a page,
`web_search`; start an `agent`, load a `skill`; put a `question` or a `plan` to the user; keep the list of `todos`, or
`notes` of its own. `unknown`: anything; only what it says of itself
(`read_only`) is known.
"""


READING_KINDS: frozenset[AccessKind] = frozenset({"read", "list", "index", "find", "search"})
"""Kinds that read files or names of files, and do nothing else."""

_OTHER_READING_KINDS: frozenset[AccessKind] = frozenset({"repository", "variables"})

EDITING_KINDS: frozenset[AccessKind] = frozenset({"edit", "patch"})
"""Kinds that change files that the input names."""


class ToolAccess(Struct, frozen=True):
    """The things a tool touches: the permission policy judges its calls by this, and by no list of names.

    `kind` is one of `AccessKind`; `field` is the field of the input, or of the tool's `facts`, with the path, the command,
    the code or the address.

    >>> ToolAccess("read", "path").reads_files
    True
    """

    kind: AccessKind = "unknown"
    field: str = ""

    @property
    def reads_files(self) -> bool:
        """True when it reads files or names of files, and does nothing else."""
        return self.kind in READING_KINDS

    @property
    def edits_files(self) -> bool:
        """True when it changes files that its input names."""
        return self.kind in EDITING_KINDS


class ToolLimits(Struct, frozen=True):
    """The bounds of a call, which the model is told. None: no bound of this kind, or the tool keeps it itself.

    `seconds` (30 unless a tool says otherwise); `result_chars`: what the model gets (100,000 are about 25,000 tokens), the
    rest is in a file that Read pages; `result_tokens`: what the tool itself puts into one result, `results` how many finds;
    `file_bytes`: the largest file, as it is and as it will be; `calls_per_minute`; `child_memory_mb`: what a child process
    may take, in MiB.

    >>> ToolLimits(seconds=5).result_chars
    100000
    """

    seconds: float | None = 30.0
    result_chars: int = 100_000
    results: int | None = None
    file_bytes: int | None = None
    calls_per_minute: int | None = None
    child_memory_mb: int | None = None
    result_tokens: int | None = None

    def in_words(self, *, timed_by_input: bool = False) -> str:
        """Say what differs from the limits that every tool has; empty where nothing does.

        `timed_by_input`: the input says how long the call may take, and its schema how long at most.

        >>> ToolLimits(seconds=60, file_bytes=10 * 2**20).in_words()
        'Limits: 60 s, files of 10 MB.'
        """
        usual = type(self)()
        result_chars = None if self.result_chars == usual.result_chars or self.result_tokens else self.result_chars
        seconds = None if self.seconds == usual.seconds or timed_by_input else self.seconds
        words = (
            (seconds, "{:g} s"),
            (self.result_tokens, "{:,} tokens a result"),
            (result_chars, "{:,} characters a result"),
            (self.results, "{:,} entries"),
            (None if self.file_bytes is None else self.file_bytes / 2**20, "files of {:,.3g} MB"),
            (self.calls_per_minute, "{:,} calls a minute"),
            (None if self.child_memory_mb is None else self.child_memory_mb / 2**10, "{:,.3g} GB of memory"),
        )
        told = ", ".join(form.format(bound) for bound, form in words if bound is not None)
        return f"Limits: {told}." if told else ""


def _no_history() -> Sequence[Mapping[str, Any]]:
    return ()


async def _unreachable(_host: str, _port: int) -> bool:
    return False


async def _no_hooks(_event: str, _fields: Mapping[str, Any]) -> HookResult:
    return NO_HOOK_RESULT


async def _no_objection(_event: str, _fields: Mapping[str, Any]) -> str:
    return ""


async def _nobody(_tool: Tool, _tool_input: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return None


Progress = Callable[..., None]
"""Shows how far a call is: `ToolContext.progress`."""


class ToolContext(Struct, frozen=True):
    """A call's link to the run it is part of: what it may know and tell. From its own thread only, but `progress`.

    >>> @tool(read_only=True)
    ... async def count(lines: int, ctx: ToolContext) -> str:
    ...     \"\"\"Count lines.\"\"\"
    ...     ctx.progress(message="counting", fraction=0.5)
    ...     return str(lines)
    >>> list(count.input_schema["properties"])
    ['lines']
    """

    tool_use_id: str
    progress: Progress
    """`progress(text="", message="", fraction=None, output=None, place=None)`; fields as in `events.ToolProgress`. From any
    thread."""
    session_id: str = ""
    emit: Callable[[Event], None] = field(default=lambda _event: None)
    """Adds an event to the run's log: for what is no progress of this call, such as `TodosChanged`."""
    history: Callable[[], Sequence[Mapping[str, Any]]] = _no_history
    """The session's messages so far, as the API has them."""
    spend: Callable[[Mapping[str, Any], float | None], None] = field(default=lambda _usage, _cost: None)
    """Counts what a request of the tool's own has cost (`usage`, US dollars) with the run's."""
    declared_tools: Callable[[], Sequence[Mapping[str, Any]]] = _no_history
    """The definitions of the session's tools, as the API has them."""
    set_mode: Callable[[str], str] = str
    """Puts the session into a permission mode for the calls that follow; gives the one it is in then."""
    mode: str = "default"
    """The permission mode that the call was decided in."""
    grant: Callable[[Sequence[str]], None] = field(default=lambda _rules: None)
    """Has these allow rules hold until the run ends: what the user lets a skill do while it is at work."""
    fire_hooks: Callable[[str, Mapping[str, Any]], Awaitable[HookResult]] = _no_hooks
    """Tells hooks of an event that is the call's own doing (`Elicitation`); gives all that they say."""
    ask_hooks: Callable[[str, Mapping[str, Any]], Awaitable[str]] = _no_objection
    """Tells hooks of an event that is the call's own doing (`TaskCreated`); gives why it must not be, or ""."""
    confinement: Confinement | None = None
    """The bounds of the processes that the call starts; None for no bounds."""
    facts: Mapping[str, Any] = {}
    """The facts that the call was judged by besides its input (`Tool.facts`): the tool does what was judged, or nothing."""
    trial: bool = False
    """True if the user is asked about the call when these bounds refuse it something: its result says what (`refused`)."""
    may_read: Callable[[str], bool] = field(default=lambda _path: True)
    """Says whether the file at an absolute path may be read unasked: for tools that find files themselves. In any thread."""
    may_reach: Callable[[str, int], Awaitable[bool]] = _unreachable
    """Asks whether these processes may connect to a host at a port that the confinement does not name."""
    ask_user: Callable[[Tool, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]] = _nobody
    """Puts a question that is the call's own doing to the user, as a call of the tool given: the answered input, or None."""
    nesting: Nesting | None = None
    """The way to have other agents work within the run; None where there is no run."""


class Tool(Struct, frozen=True, kw_only=True, dict=True):  # a dict for what is worked out once
    """A tool that Claude can call.

    The function `tool` makes one of a typed function; a program that has a JSON schema makes it so:

    >>> async def look_up(given: dict, ctx: ToolContext) -> str:
    ...     return f"customer {given['id']}"
    >>> schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    >>> Tool(name="look_up", description="Find a customer.", input_schema=schema, call=look_up, read_only=True).name
    'look_up'
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    call: Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult | Content]]
    """Does the work of one call. Its input was validated against `input_schema`."""
    access: ToolAccess = ToolAccess()
    """The things that calls touch, which the permission policy judges them by."""
    read_only: bool = False
    """Calls change nothing; those of one turn run in parallel."""
    limits: ToolLimits = field(default_factory=ToolLimits)
    """Enforced from outside the call, and stated in the description."""
    category: Category = "other"
    best_for: str = ""
    """In a few words, when to choose this tool; the system prompt lists it under its category."""
    input_examples: Sequence[Mapping[str, Any]] = ()
    """Inputs that fit `input_schema`, sent to the model with it."""
    defer_loading: bool = False
    """The model learns of the tool from ToolSearch, not before its first word."""
    asks: QuestionKind = "permission"
    """The question put to the user where the policy says "ask": may the call run, or the question that the call itself is.
    Its answer then comes back as the call's input."""
    answered_schema: Mapping[str, Any] | None = None
    """The schema of the answered input. The model sees `input_schema` alone, so it cannot answer in the user's place."""
    prepare: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None
    """Awaited before `facts`, to find out what those state. May raise ToolError for a call that cannot succeed."""
    check: Callable[[Mapping[str, Any]], None] | None = None
    """Validates inputs in place of the compiled `input_schema`, for schemas of strangers. Raises ToolError."""
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """The facts that the policy needs besides the input, such as the shell's folder, under names that the schema lacks."""
    asks_together: bool = False
    """Neighbouring calls of one message ask at the same time and may be answered in any order; each runs once allowed, one
    at a time."""
    everyday: bool = False
    """A built-in tool that even a model with a small window is offered."""
    rarely_used: bool = False
    """Most sessions never call it, or have a simpler tool; its loading is deferred where the API can do that."""
    has_effects: bool | Callable[[], bool | None] | None = None
    """True if calls have effects that nothing can undo, beyond changed files and cells; None: as its category's."""
    other_names: Sequence[str] = ()
    """Names that a call may use instead, the likeliest first."""
    title: Callable[[Mapping[str, Any]], str] | None = None
    """The line on the call's card."""
    preview: Callable[[Mapping[str, Any]], Awaitable[Preview]] | None = None
    """The part of a question that shows what the call would do. May raise CannotBeDone."""
    input_type: type[ToolInput] | None = None
    output_type: type[ToolOutput] | None = None

    @property
    def starts_agents(self) -> bool:
        """True when its calls have other agents work."""
        return self.access.kind == "agent"

    @property
    def works_beside(self) -> bool:
        """True when its calls change nothing themselves: they may run at the same time as others, and hold up nobody."""
        return self.read_only or self.has_agents_work

    @property
    def has_agents_work(self) -> bool:
        """True when another agent may be at work for a call: what it does is bounded, recorded and kept apart itself."""
        return self.access.kind in ("agent", "skill")

    def canonical(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A call's input in the schema's spelling of its fields."""
        return dict(values) if self.input_type is None else self.input_type.canonical(values)

    def to_param(self) -> dict[str, Any]:
        """The tool as the Messages API wants it, with its limits."""
        return dict(self._param)

    @functools.cached_property
    def _param(self) -> dict[str, Any]:
        timed_by_input = not {"timeout", "timeout_seconds"}.isdisjoint(self.input_schema.get("properties", ()))
        limits = self.limits.in_words(timed_by_input=timed_by_input)
        param: dict[str, Any] = {
            "name": self.name,
            "description": f"{self.description}\n{limits}" if limits else self.description,
            "input_schema": offered_schema(self.input_schema),
        }
        if examples := offered_examples(self.input_examples, self.input_schema):
            param["input_examples"] = examples
        if self.defer_loading:
            param["defer_loading"] = True
        return param


TOOL_SEARCH = "ToolSearch"
"""The name of the tool that loads those with `defer_loading`."""

TOOL_ALIASES: Mapping[str, str] = {
    "read_file": "Read",
    "write_file": "Write",
    "list_files": "LS",
    "run_command": "Bash",
    "search_by_pattern": "Grep",
}
"""Names of other agents that rules, hooks' matchers and lists of tools take for ours; `calls/tool_names.py` has
those that a call may use."""


def own_tool_name(name: str) -> str:
    """Our name of the tool that somebody calls `name`."""
    return TOOL_ALIASES.get(name, name)


GROUPS = ("@read", "@edit", *(f"@{category}" for category in typing.get_args(Category)))
"""The names that stand for several tools where tools are chosen."""


class DeclaredTool(Protocol):
    """The declarations that a choice of tools is made by."""

    @property
    def name(self) -> str: ...
    @property
    def category(self) -> Category: ...
    @property
    def access(self) -> ToolAccess: ...
    @property
    def read_only(self) -> bool: ...


def is_chosen(tool: DeclaredTool, choice: str) -> bool:
    """Return whether a choice of tools means `tool`: by its name, or by one of GROUPS.

    `@read` are the tools that only read the project and the kernel, `@edit` those that change files, any other group is a
    category: `@search`, `@web`.
    """
    match choice:
        case "@read":
            return tool.read_only and (tool.access.reads_files or tool.access.kind in _OTHER_READING_KINDS)
        case "@edit":
            return tool.access.edits_files
    return f"@{tool.category}" == choice or tool.name == own_tool_name(choice)


TOOL_NAME = lazy_pattern(r"^[a-zA-Z0-9_-]{1,64}$")
"""The pattern of the tool names that the Messages API takes."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    access: ToolAccess = ...,
    read_only: bool = False,
    limits: ToolLimits | None = None,
    category: Category = "other",
    best_for: str = "",
    examples: Sequence[Mapping[str, Any]] = (),
    offered: type[ToolInput] | None = None,
    output: type[ToolOutput] | None = None,
    fields: Mapping[str, Mapping[str, Any]] | None = None,
    asks: QuestionKind = "permission",
    asks_together: bool = False,
    everyday: bool = False,
    rarely_used: bool = False,
    has_effects: bool | None = None,
    other_names: Sequence[str] = (),
    prepare: Callable[[Any], Awaitable[None]] | None = None,
    facts: Callable[[Any], Mapping[str, Any]] | None = None,
    title: Callable[[Any], str] | None = None,
    preview: Callable[[Any], Awaitable[Preview]] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    access: ToolAccess = ToolAccess(),  # noqa: B008 - frozen
    read_only: bool = False,
    limits: ToolLimits | None = None,
    category: Category = "other",
    best_for: str = "",
    examples: Sequence[Mapping[str, Any]] = (),
    offered: type[ToolInput] | None = None,
    output: type[ToolOutput] | None = None,
    fields: Mapping[str, Mapping[str, Any]] | None = None,
    asks: QuestionKind = "permission",
    asks_together: bool = False,
    everyday: bool = False,
    rarely_used: bool = False,
    has_effects: bool | None = None,
    other_names: Sequence[str] = (),
    prepare: Callable[[Any], Awaitable[None]] | None = None,
    facts: Callable[[Any], Mapping[str, Any]] | None = None,
    title: Callable[[Any], str] | None = None,
    preview: Callable[[Any], Awaitable[Preview]] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of `function`, sync or async.

    The function has one parameter of a `ToolInput`, which is the schema, or plain parameters: each needs a type hint that
    pydantic knows, and is described by the docstring's `Args:` (Google, NumPy or reST style). The docstring's first part
    describes the tool where `description` does not. A parameter hinted `ToolContext` gets the call's context and is no
    input. A sync function runs in a worker thread. What it returns goes to Claude: a string, content blocks, a
    `ToolResult`, or anything that JSON can hold, which programs get as it is. To tell Claude what is wrong, raise
    `ToolError`.

    `read_only=True` says that the function changes nothing: it may run in parallel and is not asked for. `access` says
    what it touches, so that the user's rules for files hold for it: `ToolAccess("read", "path")` is judged like Read.
    `category` and `best_for` ("questions about our tickets") are how the system prompt lists it. `name` stands in place of
    the function's, `limits` bounds each call, `examples` are inputs that the model is shown; `asks`, `asks_together`,
    `everyday`, `rarely_used`, `has_effects` and `other_names` are as in `Tool`. Raises `CellwrightError` CONFIG_INVALID for
    a function that cannot be a tool.

    For a typed input, `prepare`, `facts`, `title` and `preview` (see `Tool`) get that input; `fields` changes keywords of
    its schema, by field; `offered` is what Claude may send where the function's own input also holds the user's answer.
    `output` is the class of its results' `structured`.

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
        own_name = name or function.__name__
        inputs = _inputs(function, own_name, offered, fields)
        tool_description = description or _docstring(function)[0]
        _check_usable(own_name, tool_description, inputs, access, read_only=read_only, has_facts=facts is not None)
        return Tool(
            name=own_name,
            description=tool_description,
            input_schema=inputs.schema,
            answered_schema=inputs.answered_schema,
            call=_call(function, inputs),
            access=access,
            read_only=read_only,
            limits=limits or ToolLimits(),
            category=category,
            best_for=" ".join(best_for.split()),
            input_examples=examples,
            asks=asks,
            asks_together=asks_together,
            everyday=everyday,
            rarely_used=rarely_used,
            has_effects=has_effects,
            other_names=tuple(other_names),
            prepare=inputs.taking(prepare),
            facts=inputs.taking(facts),
            title=inputs.taking(title),
            preview=inputs.taking(preview),
            input_type=inputs.input_type,
            output_type=output,
        )

    return make(function) if function is not None else make


def _check_usable(
    name: str, description: str, inputs: _Inputs, access: ToolAccess, *, read_only: bool, has_facts: bool
) -> None:
    if not TOOL_NAME.match(name):
        raise _unusable(name, "a tool's name has 1 to 64 letters, digits, `_` or `-`; give one with @tool(name=…)")
    if not description:
        raise _unusable(name, "Claude needs a description: give the function a docstring, or @tool(description=…)")
    if access.field and not has_facts and access.field not in inputs.schema["properties"]:
        raise _unusable(name, f"its access names the field {access.field!r}, which is none of its parameters")
    if read_only and access.edits_files:
        raise _unusable(name, f"it cannot be read_only with the access {access.kind!r}")


class _Inputs(Struct, frozen=True):
    """A function's way of taking its input: `arguments(values)` are its keyword arguments, less the context.

    `parse(values)` is what the other functions of the tool get.
    """

    schema: dict[str, Any]
    arguments: Callable[[Mapping[str, Any]], dict[str, Any]]
    parse: Callable[[Mapping[str, Any]], Any]
    context_name: str = ""
    answered_schema: dict[str, Any] | None = None
    input_type: type[ToolInput] | None = None

    def taking(self, function: Callable[[Any], Any] | None) -> Callable[[Mapping[str, Any]], Any] | None:
        """`function` as the tool has it, called with the input's JSON."""
        parse = self.parse
        return None if function is None else lambda values: function(parse(values))


def _inputs(
    function: Callable[..., Any],
    name: str,
    offered: type[ToolInput] | None,
    fields: Mapping[str, Mapping[str, Any]] | None,
) -> _Inputs:
    hints, context_name = _hints(function, name)
    # who has no `ToolInput` has not imported it either
    typed = [
        (parameter, hint)
        for parameter, (hint, _) in hints.items()
        if hasattr(hint, "from_json") and hasattr(hint, "aliases")
    ]
    if not typed:
        model = _input_model(name, hints, _docstring(function)[1])
        schema = _tidy(model.model_json_schema())
        return _Inputs(schema, functools.partial(_parse, model, schema), dict, context_name)
    if len(hints) > 1:
        raise _unusable(name, f"beside its input {typed[0][0]} it can only have a ToolContext")
    return _typed_inputs(*typed[0], context_name, offered, fields)


def _hints(function: Callable[..., Any], name: str) -> tuple[dict[str, tuple[Any, Any]], str]:
    """Hint and default (`...`: none) of each parameter, and the name of the one that wants the context ("" if none)."""
    hints = _plain_hints(function) or typing.get_type_hints(function, include_extras=True)
    found: dict[str, tuple[Any, Any]] = {}
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise _unusable(name, f"parameter {parameter.name} has no name Claude could use")
        if parameter.name not in hints:
            raise _unusable(name, f"parameter {parameter.name} has no type hint")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            found[parameter.name] = hints[parameter.name], default
    return found, context_name


def _plain_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints, where all are names of classes in its module, as in our own tools: evaluating them takes longer."""
    if hasattr(function, "__wrapped__") or getattr(function, "__type_params__", None):
        return {}  # the names may mean something else
    names, module = getattr(function, "__annotations__", {}), getattr(function, "__globals__", {})
    hints: dict[str, Any] = {key: module.get(name) for key, name in names.items() if isinstance(name, str)}
    return hints if len(hints) == len(names) and all(isinstance(hint, type) for hint in hints.values()) else {}


def _typed_inputs(
    parameter: str,
    input_type: type[ToolInput],
    context_name: str,
    offered: type[ToolInput] | None,
    fields: Mapping[str, Mapping[str, Any]] | None,
) -> _Inputs:
    return _Inputs(
        schema=json_schema(offered or input_type, fields),
        answered_schema=None if offered is None else json_schema(input_type, fields),
        arguments=lambda values: {parameter: input_type.from_json(values)},
        parse=input_type.from_json,
        context_name=context_name,
        input_type=input_type,
    )


def _call(
    function: Callable[..., Any], inputs: _Inputs
) -> Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult | Content]]:
    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult | Content:
        arguments = inputs.arguments(tool_input)
        if inputs.context_name:
            arguments[inputs.context_name] = ctx
        if inspect.iscoroutinefunction(function):
            value = await function(**arguments)
        else:
            value = await asyncio.to_thread(functools.partial(function, **arguments))
        return _content(value)

    return call


def _unusable(name: str, why: str) -> CellwrightError:
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"the function {name} cannot be a tool: {why}")


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    import docstring_parser  # 30 ms that only users of @tool pay

    parsed = docstring_parser.parse(inspect.getdoc(function) or "")
    text = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
    return text, {p.arg_name: p.description for p in parsed.params if p.description}


def _input_model(name: str, hints: Mapping[str, tuple[Any, Any]], docs: Mapping[str, str]) -> Any:
    """A pydantic model of the parameters."""
    import pydantic  # 40 ms that only users of @tool pay

    fields: dict[str, Any] = {
        parameter: (
            hint,
            pydantic.Field(... if default is inspect.Parameter.empty else default, description=docs.get(parameter)),
        )
        for parameter, (hint, default) in hints.items()
    }
    try:
        model = pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except (pydantic.errors.PydanticUserError, NameError) as error:
        raise _unusable(name, f"a type hint has no JSON schema ({error})") from error
    return model


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


def _parse(model: Any, schema: Mapping[str, Any], tool_input: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments. What the schema cannot say, pydantic checks: a date, a constraint between fields."""
    import pydantic

    try:
        parsed = model.model_validate(dict(tool_input))
    except pydantic.ValidationError as error:
        problems = []
        for item in error.errors():
            # what a check of the function's author said; pydantic's own sentences are none of that
            raised = item.get("ctx", {}).get("error")
            said = str(raised) if isinstance(raised, Exception) else ""
            problems.append(problem_at(item["loc"], item["input"], schema, said))
        text = f"It was not run: {'; '.join(problems)}."
        raise ToolError(text, code=ErrorCode.INVALID_PARAMETERS) from error
    return {field: getattr(parsed, field) for field in type(parsed).model_fields}


_BLOCKS = ("text", "image", "document")


def _content(value: Any) -> ToolResult | Content:
    if isinstance(value, ToolResult | str):
        return value
    # data can have a "type" too
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, dict) and item.get("type") in _BLOCKS for item in value)
    ):
        return value
    if value is None:
        return "(no result)"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return ToolResult(text, structured=json.loads(text))
