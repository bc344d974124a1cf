"""The tool `Variables`: what the user's namespace holds, told without running, computing or using up any of it.

It works on the main thread, where the objects belong, between what the user's cell and Claude's code do there; each
value has a time limit, and all of them have one (`docs/decisions/looking-at-variables.md`). Paths into a variable,
such as `df.columns`, `config["db"].host` or `rows[0]`, are followed without running code of the user's.
"""

from __future__ import annotations

import ast
import asyncio
import difflib
import fnmatch
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta, Struct

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.thread import CallerJobs, agent_code_running
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.kernel.namespace.description import MISSING, classes, is_of, own_vars, short_name, static
from cellwright.kernel.namespace.namespace import SECONDS_ALL, describe, describe_all, is_code, line, user_variables

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.conversation.kernel_copies import UsedBranch

CHARS_ALL = 40_000

DESCRIPTION = """\
See the variables of the user's kernel: names, types, shapes, dtypes, nulls, memory and first values of data frames, \
arrays, tables, models, dictionaries and other objects. It runs, computes and consumes nothing: lazy frames, dask \
arrays, queries and iterators stay untouched, and a huge object costs no more than a small one.

Without names it lists the variables, newest first; functions, classes and modules only with \
include "all". With names it describes each in full. A name may be a path into the value: df.columns, config["db"].host, \
rows[0]. Use Python for properties and computations."""


class VariablesOutput(ToolOutput):
    """The names of what was described, and how many there are that were asked for."""

    names: tuple[str, ...]
    total: int


class VariablesInput(ToolInput):
    """The input of Variables."""

    names: (
        Annotated[
            tuple[Annotated[str, Meta(min_length=1, max_length=300)], ...],
            Meta(
                min_length=1,
                max_length=50,
                description='Variables to describe, or parts of them: "df", "df.columns", "config[\'db\']".',
            ),
        ]
        | None
    ) = None
    pattern: Annotated[str, Meta(min_length=1, description="Only variables whose names fit this, as df_*.")] | None = (
        None
    )
    include: Annotated[
        Literal["data", "all"],
        Meta(description="Without names: data alone, or functions, classes and modules as well."),
    ] = "data"
    detail: (
        Annotated[
            Literal["list", "full"],
            Meta(description="A line for each, or all that is known. Default: full for names, else list."),
        ]
        | None
    ) = None
    order: Annotated[Literal["newest", "name"], Meta(description="Order of a list.")] = "newest"
    offset: Annotated[int, Meta(ge=0, description="How many to skip.")] = 0
    limit: Annotated[int, Meta(ge=1, le=500, description="Maximum number of variables.")] = 50


EXAMPLES: tuple[dict[str, Any], ...] = (
    {},
    {"names": ["df", "config['db']"]},
    {"pattern": "model_*", "include": "all", "detail": "full"},
)


class OwnBranches(Protocol):
    """The branches that agents have, by the ids of their sessions; None for one that has none."""

    def own(self, owner: str) -> AbstractAsyncContextManager[UsedBranch | None]: ...


def variables_tool(
    shell: InteractiveShell,
    jobs: CallerJobs,
    *,
    redacts: bool = True,
    busy_seconds: float = 10.0,
    branches: OwnBranches | None = None,
    in_preview: bool = False,
) -> Tool:
    """Variables for `shell`; the thread that works off `jobs` looks at the variables.

    `redacts`: texts are not told whose names say that they are secrets. `busy_seconds`: how long other code that runs is
    waited for. An agent that has one of `branches` for itself is told of that; in a preview Claude itself, too.
    """
    most_seconds = busy_seconds + 10 * SECONDS_ALL

    @tool(
        name="Variables",
        other_names=(
            "list_variables",
            "inspect_variable",
            "inspect_variables",
        ),
        output=VariablesOutput,
        description=DESCRIPTION,
        access=ToolAccess("variables"),
        read_only=True,
        category="kernel",
        best_for="what is there",
        limits=ToolLimits(seconds=most_seconds, result_chars=CHARS_ALL + 2_000),
        examples=EXAMPLES,
        title=_title,
    )
    async def variables(input: VariablesInput, ctx: ToolContext) -> ToolResult:
        if branches is not None and (in_preview or (ctx.nesting is not None and ctx.nesting.depth > 0)):
            async with branches.own(ctx.session_id) as used:
                if used is not None:
                    return await _of_branch(used, input, redacts, most_seconds)
        request = _Request(shell, input, redacts)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(busy_seconds) as limit:

                def answer() -> ToolResult:
                    # from here on it has limits of its own
                    loop.call_soon_threadsafe(limit.reschedule, None)
                    return request.answer()

                return await jobs.call(answer)
        except TimeoutError:
            message = f"The kernel has been busy with other code for {busy_seconds:g} s. Ask again when it is done."
            raise ToolError(message, code=ErrorCode.EXECUTION_TIMEOUT) from None

    return variables


class _InBranch(Struct, frozen=True):
    """The answer of a branch: the result of the tool, or `problem`."""

    text: str = ""
    names: tuple[str, ...] = ()
    total: int = 0
    problem: str = ""


async def _of_branch(used: UsedBranch, input: VariablesInput, redacts: bool, seconds: float) -> ToolResult:
    from cellwright.kernel.branches.snapshot import NoBranch  # few kernels are forked

    arguments = {"input": msgspec.to_builtins(input), "redacts": redacts}
    try:
        found = await used.branch.ask(f"{__name__}:answer_in_branch", arguments, timeout=seconds)
        answer = msgspec.convert(found, _InBranch)
    except (NoBranch, msgspec.ValidationError) as error:
        raise ToolError(f"The variables of your branch could not be looked at: {error}") from None
    if answer.problem:
        raise ToolError(answer.problem, code=ErrorCode.INVALID_PARAMETERS)
    text = f"[In your branch. {used.words}]\n{answer.text[:CHARS_ALL]}"
    return ToolResult(text, structured=VariablesOutput(names=answer.names[:500], total=answer.total))


def answer_in_branch(shell: InteractiveShell, arguments: Mapping[str, Any], _descriptors: Sequence[int]) -> object:
    """In a branch: describe its variables."""
    request = _Request(shell, msgspec.convert(arguments["input"], VariablesInput), arguments["redacts"])
    try:
        result = request.answer()
    except ToolError as error:
        return {"problem": str(error)}
    assert isinstance(result.structured, VariablesOutput)
    return {"text": result.content, "names": result.structured.names, "total": result.structured.total}


def _title(input: VariablesInput) -> str:
    if names := input.names:
        return f"Look at {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
    return f"List variables {input.pattern}" if input.pattern else "List variables"


class _Request(Struct, frozen=True):
    """One call, as the main thread does it."""

    shell: InteractiveShell
    input: VariablesInput
    redacts: bool

    def answer(self) -> ToolResult:
        """Return what the tool gives back. Raises ToolError."""
        from cellwright.kernel.namespace.describe import shows_secrets  # most runs look at no variable

        running, shown = agent_code_running.set(True), shows_secrets.set(not self.redacts)
        try:
            return self._listed() if self.input.names is None else self._named(self.input.names)
        finally:
            shows_secrets.reset(shown)
            agent_code_running.reset(running)

    def _named(self, names: Sequence[str]) -> ToolResult:
        variables = dict(self.shell.user_ns)
        found: dict[str, object] = {}
        problems: list[str] = []
        for path in dict.fromkeys(names):
            try:
                found[path] = value_at(path, variables)
            except NoSuchValue as problem:
                there = user_variables(self.shell)
                near = difflib.get_close_matches(path.partition(".")[0].partition("[")[0], there, n=3)
                hint = f" Did you mean {' or '.join(near)}?" if near and path not in there else ""
                problems.append(f"{problem}{hint}")
        if not found:
            raise ToolError(" ".join(problems), code=ErrorCode.INVALID_PARAMETERS)
        text = "\n".join([*self._texts(found, self.input.detail or "full"), *problems])
        return ToolResult(text, structured=VariablesOutput(names=tuple(found), total=len(dict.fromkeys(names))))

    def _listed(self) -> ToolResult:
        variables = user_variables(self.shell)
        shown = [name for name, value in variables.items() if self.input.include == "all" or not is_code(value)]
        left_out = len(variables) - len(shown)
        if pattern := self.input.pattern:
            shown = [name for name in shown if fnmatch.fnmatchcase(name, pattern)]
        shown = sorted(shown) if self.input.order == "name" else shown[::-1]
        offset, limit = self.input.offset, self.input.limit
        page = {name: variables[name] for name in shown[offset : offset + limit]}
        notes = []
        if (more := len(shown) - offset - len(page)) > 0:
            notes.append(f"[{more:,} more: go on with offset={offset + len(page)}]")
        if left_out:
            notes.append(f'[functions, classes and modules: {left_out:,}; include="all" lists them]')
        if not page:
            fit = f" that fits {pattern}" if pattern else ""
            notes.insert(0, f"There is no variable{fit}." if offset == 0 else "There are no more variables.")
        text = "\n".join([*self._texts(page, self.input.detail or "list"), *notes])
        return ToolResult(text, structured=VariablesOutput(names=tuple(page), total=len(shown)))

    def _texts(self, values: Mapping[str, object], detail: str) -> list[str]:
        texts: list[str] = []
        room = CHARS_ALL
        for _, text in describe_all(values, describe if detail == "full" else line):
            if room < 0:
                return [*texts, f"[{len(values) - len(texts):,} more do not fit: ask for fewer]"]
            texts.append(text)
            room -= len(text)
        return texts


LIBRARY_ATTRIBUTES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("pandas", "DataFrame"): ("columns", "index", "dtypes", "shape", "attrs"),
    ("pandas", "Series"): ("index", "dtype", "shape", "name", "attrs"),
    ("pandas", "Index"): ("dtype", "shape", "name", "names"),
    ("polars", "DataFrame"): ("columns", "schema", "shape"),
    ("polars", "Series"): ("dtype", "name", "shape"),
    ("pyarrow", "Table"): ("schema", "column_names", "shape"),
    ("numpy", "ndarray"): ("shape", "dtype", "T", "size"),
    ("xarray", "Dataset"): ("sizes", "attrs", "data_vars", "coords"),
    ("xarray", "DataArray"): ("sizes", "attrs", "dims", "shape", "dtype", "coords"),
    ("torch", "Tensor"): ("shape", "dtype", "device"),
}
"""The attributes of a library's object that cost nothing to ask for."""

BY_KEY = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("xarray", "Dataset"), ("pyarrow", "Table"))
BY_POSITION = (("numpy", "ndarray"), ("torch", "Tensor"), ("polars", "Series"), ("pyarrow", "ChunkedArray"))


class NoSuchValue(Exception):
    """Raised for a path that leads nowhere, with the reason in words."""


class _Step(Struct, frozen=True):
    """`.name`, or `[key]`."""

    key: Any
    attribute: bool

    def __str__(self) -> str:
        return f".{self.key}" if self.attribute else f"[{self.key!r}]"


def value_at(path: str, variables: Mapping[str, Any]) -> Any:
    """The value that `path` leads to. Raises NoSuchValue."""
    name, steps = _parsed(path)
    if name not in variables:
        raise NoSuchValue(f"Variable {name} was not found.")
    value, so_far = variables[name], name
    for step in steps:
        value = _attribute(value, step.key, so_far) if step.attribute else _item(value, step.key, so_far)
        so_far += str(step)
    return value


def _parsed(path: str) -> tuple[str, list[_Step]]:
    try:
        node: ast.AST = ast.parse(path.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoSuchValue(f"{path!r} is not the name of a variable.") from None
    steps: list[_Step] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append(_Step(node.attr, attribute=True))
            node = node.value
        elif isinstance(node, ast.Subscript):
            steps.append(_Step(_constant(node.slice, path), attribute=False))
            node = node.value
        else:
            raise NoSuchValue(f"{path!r} is more than names, attributes and [keys]. Python can evaluate it.")
    return node.id, steps[::-1]


def _constant(node: ast.AST, path: str) -> Any:
    try:
        key = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        key = MISSING
    if type(key) not in (str, int, tuple):
        raise NoSuchValue(f"In {path!r} a key is neither text nor a number. Python can evaluate it.")
    return key


def _attribute(value: Any, name: str, so_far: str) -> Any:
    if type(value) is types.ModuleType:
        found = vars(value).get(name, MISSING)
    elif (found := own_vars(value).get(name, MISSING)) is MISSING:
        for (module, cls), names in LIBRARY_ATTRIBUTES.items():
            if name in names and is_of(value, module, cls):
                return getattr(value, name)
        if is_of(value, "pandas", "DataFrame") and name in value.columns:
            return value[name]
        if tuple in classes(value) and name in (fields := static(value, "_fields") or ()):
            return tuple.__getitem__(value, list(fields).index(name))
    if found is MISSING:
        kind = short_name(type(value))
        if static(value, name) is not MISSING:
            raise NoSuchValue(f"{so_far}.{name} is made by code of {kind} when it is asked for. Python can run it.")
        raise NoSuchValue(f"{so_far}, of type {kind}, has no {name} of its own.")
    return found


def _item(value: Any, key: Any, so_far: str) -> Any:
    of = classes(value)
    try:
        for base in (dict, list, tuple):
            if base in of:
                return base.__getitem__(value, key)
        if any(is_of(value, module, cls) for module, cls in BY_KEY) and type(key) is str:
            return value[key]
        if any(is_of(value, module, cls) for module, cls in BY_POSITION) and type(key) is not str:
            return value[key]
    except (LookupError, TypeError):
        raise NoSuchValue(f"{so_far} has nothing at [{key!r}].") from None
    except Exception as error:  # noqa: BLE001  libraries have errors of their own for a missing column
        raise NoSuchValue(f"{so_far} gives nothing at [{key!r}]: {type(error).__name__}.") from None
    raise NoSuchValue(f"{so_far}[{key!r}] would be made by code of {short_name(type(value))}. Python can run it.")
