"""The tools of a connected server as ours, and those that read its resources: checked, bounded, and believed in nothing.

They are `mcp__server__tool`, and `ListMcpResourcesTool` and `ReadMcpResourceTool`, under Claude Code's names.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import input_lines
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import CHARS_PER_TOKEN, Preview
from cellwright.text import replace_surrogates, visible_line
from cellwright.tools.mcp.connection import ServerConnection
from cellwright.tools.mcp.schema import check_call, safe_schema, shown_text, unusable_fields
from cellwright.tools.mcp.server_entry import tool_name

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ToolDefinition

MAX_BLOCKS = 200
MAX_IMAGES = 10

Block = dict[str, Any]

DESCRIPTION_CHARS = 2_000
"""Of a description, as in Claude Code."""

CALL_SECONDS = 600.0
MOST_RESULT_CHARS = 500_000
"""As much as a tool may ask for with `anthropic/maxResultSizeChars`."""

MAX_LISTED = 500

Connections = Callable[[], Mapping[str, ServerConnection]]


async def result_of(result: CallToolResult) -> ToolResult:
    """A call's result as ours; what is only there as data becomes text, since Claude reads no data."""
    blocks = await blocks_of(result.content)
    structured = result.structured_content
    if structured is not None and not any(block["type"] == "text" for block in blocks):
        blocks.append(_text(json.dumps(structured, ensure_ascii=False)[:200_000]))
    if result.is_error and not blocks:
        blocks = [_text("The server says that it failed, and not why.")]
    content: str | list[Block] = blocks
    if all(block["type"] == "text" for block in blocks):
        content = "\n".join(block["text"] for block in blocks)
    return ToolResult(content, is_error=result.is_error, structured=structured)


async def blocks_of(content: Sequence[ContentBlock]) -> list[Block]:
    """Content of a server's as blocks that the API takes; of what is too much the number is told."""
    blocks: list[Block] = []
    images = 0
    for part in content[:MAX_BLOCKS]:
        block = await _block(part, may_show=images < MAX_IMAGES)
        images += block["type"] == "image"
        blocks.append(block)
    if len(content) > MAX_BLOCKS:
        blocks.append(_text(f"[{len(content) - MAX_BLOCKS} more parts are left out]"))
    return blocks


async def _block(part: ContentBlock, *, may_show: bool) -> Block:
    match part.type:
        case "text":
            return _text(part.text)
        case "image":
            return await image_or_words(part.data, part.mime_type) if may_show else _text("[one more image, left out]")
        case "audio":
            return _text(f"[audio, {part.mime_type}, {len(part.data) * 3 // 4:,} bytes: Claude cannot hear it]")
        case "resource_link":
            about = " ".join(filter(None, (part.title or part.name, part.description, part.mime_type)))
            return _text(f"[resource {part.uri}: {about}; ReadMcpResourceTool reads it]")
        case "resource":
            return await resource_block(part.resource, may_show=may_show)


async def resource_block(resource: Any, *, may_show: bool = True) -> Block:
    """The content of a resource, after its address."""
    if (text := getattr(resource, "text", None)) is not None:
        return _text(f"[resource {resource.uri}]\n{text}")
    kind = resource.mime_type or "application/octet-stream"
    if kind.startswith("image/") and may_show:
        return await image_or_words(resource.blob, kind)
    return _text(f"[resource {resource.uri}: {kind}, {len(resource.blob) * 3 // 4:,} bytes, not shown]")


async def image_or_words(data: str, kind: str) -> Block:
    """The image as a block that the API takes, made smaller where need be, or words on why it cannot be shown."""
    from cellwright.model.images import UnusableImage, bytes_of, image_from_bytes

    try:
        made = await asyncio.to_thread(image_from_bytes, bytes_of(data))
    except UnusableImage as error:
        return _text(f"[an image ({kind}) that cannot be shown: {error}]")
    return dict(made.block)


def _text(text: str) -> Block:
    return {"type": "text", "text": replace_surrogates(text)}


def server_tools(connection: ServerConnection, environ: Mapping[str, str]) -> dict[str, Tool]:
    """The server's tools by their names here; those that nobody could call are left out. Takes time: not for a loop."""
    made: dict[str, Tool] = {}
    for definition in connection.definitions:
        name = tool_name(connection.entry.prefix, definition.name)
        if name not in made and not unusable_fields(definition.input_schema):
            made[name] = _tool(name, connection, definition, environ)
    return made


def _tool(name: str, connection: ServerConnection, definition: ToolDefinition, environ: Mapping[str, str]) -> Tool:
    entry, hints, meta = connection.entry, definition.annotations, definition.meta or {}
    schema = safe_schema(definition.input_schema)
    title = visible_line((hints.title if hints else "") or definition.title or definition.name, 100)
    description = shown_text(definition.description or title, DESCRIPTION_CHARS).strip() or title

    async def call(values: dict[str, Any], context: ToolContext) -> ToolResult:
        return await result_of(await connection.call_tool(definition.name, values, context))

    async def preview(values: Mapping[str, Any]) -> Preview:
        return Preview(
            f"Call {definition.name} of the MCP server {entry.name}",
            input_lines(values),
            warning="",
        )

    return Tool(
        name=name,
        description=f"{description}\n(of the MCP server {visible_line(entry.name)})",
        input_schema=schema,
        check=lambda values: check_call(name, schema, values),
        call=call,
        read_only=bool(hints and hints.read_only_hint),
        limits=_limits(entry.tool_seconds, meta, environ),
        defer_loading=not (entry.always_load or meta.get("anthropic/alwaysLoad") is True),
        title=lambda values: visible_line(f"{entry.name}: {title} {_first_value(values)}".strip(), 150),
        preview=preview,
    )


def _limits(seconds: float | None, meta: Mapping[str, Any], environ: Mapping[str, str]) -> ToolLimits:
    chars = int(number_in(environ, "MAX_MCP_OUTPUT_TOKENS", 25_000) * CHARS_PER_TOKEN)
    asked = meta.get("anthropic/maxResultSizeChars")
    if isinstance(asked, int) and not isinstance(asked, bool) and asked > 0:
        chars = min(asked, MOST_RESULT_CHARS)
    usual = number_in(environ, "MCP_TOOL_TIMEOUT", CALL_SECONDS * 1_000) / 1_000
    return ToolLimits(seconds=usual if seconds is None else seconds, result_chars=chars)


def number_in(environ: Mapping[str, str], name: str, default: float) -> float:
    """The positive number that a variable says; `default` where it says none."""
    try:
        value = float(environ.get(name, ""))
    except ValueError:
        return default
    return value if 0 < value < 1e9 else default


def _first_value(values: Mapping[str, Any]) -> str:
    return next((str(value) for value in values.values() if isinstance(value, str | int | float)), "")


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
            for resource in found[:MAX_LISTED]:
                facts = (resource.title or resource.name, resource.description, resource.mime_type)
                about = " ".join(filter(None, facts))
                uri = visible_line(str(resource.uri), 500)
                lines.append(f"- {each.entry.name} {uri}: {shown_text(about, 300)}")
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
