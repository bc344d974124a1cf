"""ListMcpResourcesTool and ReadMcpResourceTool: what servers have to read, under Claude Code's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import visible_line
from cellwright.tools.mcp.connection import ServerConnection
from cellwright.tools.mcp.schema import shown_text
from cellwright.tools.mcp.tools import MAX_BLOCKS, resource_block

MAX_LISTED = 500

Connections = Callable[[], Mapping[str, ServerConnection]]


class ListMcpResourcesInput(ToolInput):
    """The input of ListMcpResourcesTool."""

    server: Annotated[str, Meta(description="The server's name; without one, all servers.")] = ""


class ReadMcpResourceInput(ToolInput):
    """The input of ReadMcpResourceTool."""

    server: Annotated[str, Meta(min_length=1, description="The server's name.")]
    uri: Annotated[str, Meta(min_length=1, description="The resource's address.")]


def resource_tools(connections: Connections) -> tuple[Tool, ...]:
    """The tools that list and read the resources of servers."""

    @tool(
        name="ListMcpResourcesTool",
        description="List the resources of MCP servers: addresses with descriptions.",
        access=ToolAccess(),
        read_only=True,
        category="other",
        limits=ToolLimits(seconds=60),
        title=lambda input: f"List the resources of {input.server or 'all MCP servers'}",
    )
    async def list_resources(input: ListMcpResourcesInput) -> str:
        servers = [_named(connections(), input.server)] if input.server else [*connections().values()]
        lines: list[str] = []
        for each in servers:
            if not each.has_resources:
                continue
            try:
                found = await each.resources()
            except ToolError as error:
                if input.server:
                    raise
                lines.append(f"{each.entry.name}: {error.message}")
                continue
            lines += [_line(each.entry.name, resource) for resource in found[:MAX_LISTED]]
            if len(found) > MAX_LISTED:
                lines.append(f"({len(found) - MAX_LISTED} more of {each.entry.name})")
        return "\n".join(lines) or "There are no resources."

    @tool(
        name="ReadMcpResourceTool",
        description="Read a resource of an MCP server.",
        access=ToolAccess(),
        read_only=True,
        category="other",
        limits=ToolLimits(seconds=120),
        title=lambda input: f"Read {input.uri} of {input.server}",
    )
    async def read_resource(input: ReadMcpResourceInput) -> ToolResult:
        return ToolResult(await resource_content(_named(connections(), input.server), input.uri))

    # where there are many tools these two need not be told either
    return tuple(replace(each, defer_loading=True) for each in (list_resources, read_resource))


async def resource_content(connection: ServerConnection, uri: str) -> list[dict[str, Any]]:
    """The content at `uri` as blocks for Claude. Raises ToolError."""
    result = await connection.read_resource(uri)
    blocks = [await resource_block(each) for each in result.contents[:MAX_BLOCKS]]
    return blocks or [{"type": "text", "text": f"[resource {uri} is empty]"}]


def _named(connections: Mapping[str, ServerConnection], name: str) -> ServerConnection:
    found = connections.get(name)
    if found is None:
        known = ", ".join(connections) or "none"
        raise ToolError(f"MCP server {name} was not found. Available: {known}.", code=ErrorCode.INVALID_PARAMETERS)
    return found


def _line(server: str, resource: Any) -> str:
    about = " ".join(filter(None, (resource.title or resource.name, resource.description, resource.mime_type)))
    return f"- {server} {visible_line(str(resource.uri), 500)}: {shown_text(about, 300)}"
