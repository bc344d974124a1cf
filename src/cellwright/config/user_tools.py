"""Tools that users bring: packages by the entry point `cellwright.tools`, trusted folders by `.claude/tools/*.py`, programs.

An entry point of the group `cellwright.tools` gives a `Tool`, a list of them, or a function without parameters that
returns either. A file's tools are the `Tool` values at its top level (`@tool` makes them). A tool whose name is taken is
left out: no package and no folder can put itself in the place of another tool.

Tools of claude-agent-sdk are made ours: `SdkMcpTool` objects, and servers in this process (`create_sdk_mcp_server`). They
are told by their fields, so they may be the SDK's own or those of `cellwright.claude_agent_sdk`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import threading
import traceback
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, Required

from msgspec import Struct, field

from cellwright.agent.calls.permission_gate import LEAVING
from cellwright.agent.tool import TOOL_NAME, Content, Tool, ToolContext, ToolLimits, ToolResult
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.text import visible_line
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.server_entry import TOOL_PREFIX, plain_name, tool_name

CALL_SECONDS = 600.0


Handler = Callable[[Any], Awaitable[Any]]
Run = Callable[[Handler, Any], Awaitable[Any]]
"""Calls a handler with a call's input, on the loop that it belongs to."""

GROUP = "cellwright.tools"


async def run_here(handler: Handler, values: Any) -> Any:
    """Call `handler` on the agent's own loop."""
    return await handler(values)


def is_sdk_tool(value: Any) -> bool:
    """Return whether `value` is a tool as the SDK's `@tool` makes it.

    >>> is_sdk_tool("Read")
    False
    """
    return (
        not isinstance(value, Tool | str)
        and callable(getattr(value, "handler", None))
        and all(hasattr(value, name) for name in ("name", "description", "input_schema"))
    )


def as_tool(value: Any) -> Tool:
    """`value` as a tool of ours. Raises CellwrightError CONFIG_INVALID for an SDK's tool that cannot be one."""
    return value if isinstance(value, Tool) else from_sdk_tool(value)


def from_sdk_tool(given: Any, *, prefix: str = "", run: Run = run_here) -> Tool:
    """A tool of the SDK's as ours; `prefix` begins the name of a server's. Raises CellwrightError CONFIG_INVALID."""
    name = tool_name(prefix, given.name) if prefix else str(given.name)
    if not TOOL_NAME.match(name):
        message = f"the tool {name!r:.100} cannot be used: a tool's name has 1 to 64 letters, digits, `_` or `-`"
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    handler: Handler = given.handler

    async def call(values: dict[str, Any], _context: ToolContext) -> ToolResult | Content:
        try:
            answer = await run(handler, values)
        except ToolError:
            raise
        except Exception as error:  # the program's own code: Claude reads what it says
            raise ToolError(str(error) or type(error).__name__, code=ErrorCode.EXECUTION_ERROR) from error
        return await _result(answer)

    return Tool(
        name=name,
        description=str(given.description).strip() or name,
        input_schema=input_schema(given.input_schema),
        call=call,
        read_only=_hint(given.annotations, "readOnlyHint", "read_only_hint") is True,
        limits=_limits(_hint(given.annotations, "maxResultSizeChars")),
        title=lambda values: visible_line(f"{name} {_first_text(values)}".strip(), 150),
    )


def server_tools(key: str, config: Mapping[str, Any], run: Run = run_here) -> list[Tool]:
    """The tools of a server in this process that is configured as `key`: `mcp__key__tool`.

    Raises CellwrightError INVALID_PARAMETERS for what is no such server.
    """
    server, prefix = config.get("instance"), f"{TOOL_PREFIX}{plain_name(key)}__"
    tools = getattr(server, "sdk_tools", None)
    if isinstance(tools, Sequence):
        return [from_sdk_tool(each, prefix=prefix, run=run) for each in tools]
    if not callable(getattr(server, "create_initialization_options", None)):
        message = f"mcp_servers: {key} is no server in this process: `instance` is {server!r:.100}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return [_served_tool(server, each, prefix, run) for each in _listed(server, key)]


def _limits(chars: Any) -> ToolLimits:
    usual = ToolLimits(seconds=CALL_SECONDS)
    asks = isinstance(chars, int) and not isinstance(chars, bool) and chars > 0
    # as much as a tool may ask for with `maxResultSizeChars`
    return ToolLimits(CALL_SECONDS, min(chars, 500_000)) if asks else usual


def _hint(annotations: Any, *names: str) -> Any:
    """The first of these hints that the tool gives."""
    found = (getattr(annotations, name, None) for name in names)
    return next((value for value in found if value is not None), None)


def _first_text(values: Mapping[str, Any]) -> str:
    return next((str(value) for value in values.values() if isinstance(value, str | int | float)), "")


# ---- schemas
def input_schema(given: Any) -> dict[str, Any]:
    """The JSON schema of a tool's input: of a dict of types, of a TypedDict, or the schema itself.

    >>> input_schema({"a": float, "b": Annotated[str, "the unit"]})["properties"]
    {'a': {'type': 'number'}, 'b': {'type': 'string', 'description': 'the unit'}}
    """
    if isinstance(given, Mapping):
        if isinstance(given.get("type"), str) and "properties" in given:
            return dict(given)
        return _object({str(name): hint for name, hint in given.items()}, list(map(str, given)))
    if typing.is_typeddict(given):
        hints = typing.get_type_hints(given, include_extras=True)
        # with postponed annotations, the class itself does not know which may be left out
        said = {name: typing.get_origin(hint) for name, hint in hints.items()}
        required = {name for name in given.__required_keys__ if said[name] is not NotRequired}
        return _object(hints, sorted(required | {name for name in said if said[name] is Required}))
    return _object({}, [])


def _object(hints: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for name, hint in hints.items():
        properties[name] = _property(hint)
        definitions.update(properties[name].pop("$defs", {}))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema |= {"required": required} if required else {}
    return schema | ({"$defs": definitions} if definitions else {})


def _property(hint: Any) -> dict[str, Any]:
    import pydantic  # 40 ms that only users of such tools pay

    origin = typing.get_origin(hint)
    if origin in (Required, NotRequired):
        return _property(typing.get_args(hint)[0])
    if origin is Annotated:
        inner, *about = typing.get_args(hint)
        words = next((each for each in about if isinstance(each, str)), "")
        return _property(inner) | ({"description": words} if words else {})
    if origin in (typing.Union, types.UnionType):
        # that a value may be left out says `required`
        kinds = [each for each in typing.get_args(hint) if each is not type(None)]
        if len(kinds) == 1:
            return _property(kinds[0])
    try:
        schema = pydantic.TypeAdapter(hint).json_schema()
    except (pydantic.errors.PydanticUserError, TypeError):
        return {"type": "string"}
    schema.pop("title", None)
    return schema


# ---- results
async def _result(given: Any) -> ToolResult:
    """The dict that a handler returns, as a result. Raises ToolError for anything else."""
    if not isinstance(given, Mapping) or not isinstance(given.get("content", []), Sequence):
        raise ToolError(f"The tool returned {type(given).__name__} in place of a dict with `content`.")
    from cellwright.tools.mcp.tools import image_or_words  # few tools give images

    blocks: list[dict[str, Any]] = []
    for part in given.get("content", []):
        match part.get("type"):
            case "text":
                blocks.append({"type": "text", "text": str(part.get("text", ""))})
            case "image":
                blocks.append(await image_or_words(part["data"], part["mimeType"]))
            case "resource_link":
                about = filter(None, (part.get("name"), part.get("uri"), part.get("description")))
                blocks.append({"type": "text", "text": "\n".join(map(str, about))})
            case "resource" if "text" in (part.get("resource") or {}):
                blocks.append({"type": "text", "text": str(part["resource"]["text"])})
            case other:
                blocks.append({"type": "text", "text": f"[a part of the type {other!r} that Claude cannot see]"})
    failed = bool(given.get("is_error") or given.get("isError"))
    content: Content = blocks
    if all(block["type"] == "text" for block in blocks):
        content = "\n".join(block["text"] for block in blocks)
    return ToolResult(content or "(no result)", is_error=failed, structured=given.get("structuredContent"))


# ---- servers of the package `mcp`
def _client(server: Any) -> Any:
    with importing:
        from mcp import Client  # who has such a server has the package

    return Client(server)


def _listed(server: Any, key: str) -> list[Any]:
    """The definitions of the server's tools. Raises CellwrightError INVALID_PARAMETERS if it does not list them."""

    async def ask() -> list[Any]:
        async with asyncio.timeout(30.0), _client(server) as client:
            return list((await client.list_tools()).tools)

    found: list[list[Any] | BaseException] = []

    def work() -> None:
        try:
            found.append(asyncio.run(ask()))
        except BaseException as error:  # noqa: BLE001  a stranger's server; told below
            found.append(error)

    # beside a loop that may run here
    thread = threading.Thread(target=work, name="list of MCP tools")
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        message = f"mcp_servers: {key} does not list its tools: {found[0]!r:.200}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message) from found[0]
    return found[0]


def _served_tool(server: Any, definition: Any, prefix: str, run: Run) -> Tool:
    async def ask(values: Any) -> Any:
        async with _client(server) as client:
            return await client.call_tool(definition.name, dict(values))

    async def call(values: dict[str, Any], _context: ToolContext) -> ToolResult | Content:
        from cellwright.tools.mcp.tools import result_of

        return await result_of(await run(ask, values))

    meta = definition.meta or {}
    return Tool(
        name=tool_name(prefix, definition.name),
        description=(definition.description or definition.title or definition.name).strip(),
        input_schema=dict(definition.input_schema),
        call=call,
        read_only=_hint(definition.annotations, "read_only_hint") is True,
        limits=_limits(meta.get("anthropic/maxResultSizeChars")),
        title=lambda values: visible_line(f"{prefix}{definition.name} {_first_text(values)}".strip(), 150),
    )


class LoadedPlugins(Struct):
    """The tools that were brought, and what the user should know of those that were not."""

    tools: dict[str, Tool] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


def brought_tools(files: Sequence[tuple[Path, bytes]], taken: Iterable[str]) -> LoadedPlugins:
    """The tools of installed packages and of `files` (each with the content that the user trusts).

    `taken` are names that are not given away. Never raises: what is broken is left out, with a notice.
    """
    brought, names = LoadedPlugins(), set(taken)
    sources = list(_of_packages())
    sources += [(str(file), functools.partial(_run, file, content)) for file, content in files]
    for where, load in sources:
        try:
            found = list(_tools_in(load()))
        except LEAVING as error:  # it is others' code
            brought.notices.append(f"No tools from {where}: {_what(error)}")
            continue
        for tool in found:
            if tool.name in names:
                brought.notices.append(
                    f"{where} brings a tool named {tool.name}, which there is already; it is not used."
                )
                continue
            names.add(tool.name)
            brought.tools[tool.name] = tool
    return brought


def _of_packages() -> Iterator[tuple[str, Callable[[], object]]]:
    """List what packages bring: where from, and what loads it."""
    if not any(_may_bring(folder or os.curdir) for folder in sys.path):
        return
    import importlib.metadata  # 15 ms, and much more for all packages: for who has such a package

    for entry in importlib.metadata.entry_points(group=GROUP):
        yield f"the package {entry.dist.name if entry.dist else entry.value} ({entry.name})", entry.load


def _may_bring(folder: str) -> bool:
    """Return whether a package installed in `folder` names the group; what is no folder (a zip file) may."""
    # without Path: each start looks at all packages, and its methods raise for a folder of somebody else's, over which
    # Python itself passes
    if not os.path.isdir(folder):  # noqa: PTH112
        return os.path.isfile(folder)  # noqa: PTH113
    named = f"[{GROUP}]".encode()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            if name.endswith((".dist-info", ".egg-info")):
                with contextlib.suppress(OSError), open(f"{folder}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                    if named in file.read():
                        return True
    return False


def _tools_in(value: object) -> Iterator[Tool]:
    if _is_tool(value):
        yield as_tool(value)
    elif isinstance(value, types.ModuleType):
        yield from (as_tool(item) for item in vars(value).values() if _is_tool(item))
    elif isinstance(value, list | tuple):
        for item in value:
            if not _is_tool(item):
                raise TypeError(f"{item!r} is not a Tool")
            yield as_tool(item)
    elif callable(value):
        made = value()
        if not _is_tool(made) and not isinstance(made, list | tuple):
            raise TypeError(f"the function returned {made!r}, which is not a Tool or a list of Tools")
        yield from _tools_in(made)
    else:
        raise TypeError(f"{value!r} is not a Tool, a list of Tools, or a function that makes them")


def _is_tool(value: object) -> bool:
    return isinstance(value, Tool) or is_sdk_tool(value)


def _run(file: Path, content: bytes) -> types.ModuleType:
    """The module that `content`, which is what the user trusts, makes; the file is not read again."""
    name = f"cellwright_project_tools.{file.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(file)
    code = compile(content, str(file), "exec")
    before = sys.modules.get(name)
    sys.modules[name] = module  # type hints and dataclasses look their module up
    try:
        exec(code, vars(module))
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module


def _what(error: BaseException) -> str:
    """The error, and the line of the brought file it comes from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    line = f"line {frames[-1].lineno}: " if frames else ""
    return f"{line}{type(error).__name__}: {error}"
