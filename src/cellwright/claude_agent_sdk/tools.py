"""`tool`, `SdkMcpTool`, `create_sdk_mcp_server`, `ToolAnnotations`: tools that are functions of the program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cellwright.claude_agent_sdk.types import McpSdkServerConfig

T = TypeVar("T")

_SPELLINGS = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
    "max_result_size_chars": "maxResultSizeChars",
}


class ToolAnnotations:
    """Hints about a tool, in either spelling: `readOnlyHint=True` or `read_only_hint=True`. What is not given is None."""

    def __init__(self, **hints: Any) -> None:
        self.title: str | None = None
        for wire in _SPELLINGS.values():
            setattr(self, wire, None)
        for name, value in hints.items():
            setattr(self, _SPELLINGS.get(name, name), value)

    def __getattr__(self, name: str) -> Any:
        if name in _SPELLINGS:
            return getattr(self, _SPELLINGS[name])
        raise AttributeError(name)

    def __repr__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value is not None}
        return f"ToolAnnotations({', '.join(f'{name}={value!r}' for name, value in given.items())})"


@dataclass
class SdkMcpTool(Generic[T]):
    """A tool: `await handler(input)` gives `{"content": [...]}`, with `"is_error": True` for a failure."""

    name: str
    description: str
    input_schema: type[T] | dict[str, Any]
    handler: Callable[[T], Awaitable[dict[str, Any]]]
    annotations: Any = None


def tool(
    name: str, description: str, input_schema: type | dict[str, Any], annotations: Any = None
) -> Callable[[Callable[[Any], Awaitable[dict[str, Any]]]], SdkMcpTool[Any]]:
    """Make a tool of a coroutine function that takes a dict.

    `input_schema` is a dict of types by parameter, a TypedDict, or a JSON schema.

    >>> @tool("add", "Add two numbers", {"a": float, "b": float})
    ... async def add(args):
    ...     return {"content": [{"type": "text", "text": str(args["a"] + args["b"])}]}
    >>> add.name
    'add'
    """

    def make(handler: Callable[[Any], Awaitable[dict[str, Any]]]) -> SdkMcpTool[Any]:
        return SdkMcpTool(name, description, input_schema, handler, annotations)

    return make


@dataclass(frozen=True)
class InProcessServer:
    """The `instance` of a server that `create_sdk_mcp_server` makes: its tools, which are called as functions."""

    name: str
    version: str
    sdk_tools: tuple[SdkMcpTool[Any], ...]


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: list[SdkMcpTool[Any]] | None = None
) -> McpSdkServerConfig:
    """Put tools together as an MCP server in this process, for `mcp_servers={"key": …}`: `mcp__key__tool`."""
    return McpSdkServerConfig(type="sdk", name=name, instance=InProcessServer(name, version, tuple(tools or ())))
