"""The tools of a connected server as ours: `mcp__server__tool`, checked, bounded, and believed in nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.agent.calls.tool_results import input_lines
from cellwright.agent.tool import Tool, ToolContext, ToolLimits, ToolResult
from cellwright.events import CHARS_PER_TOKEN, Preview
from cellwright.text import visible_line
from cellwright.tools.mcp.connection import ServerConnection
from cellwright.tools.mcp.results import result_of
from cellwright.tools.mcp.schema import check_call, safe_schema, shown_text, unusable_fields
from cellwright.tools.mcp.server_entry import tool_name

if TYPE_CHECKING:
    from mcp_types import Tool as ToolDefinition

DESCRIPTION_CHARS = 2_000
"""Of a description, as in Claude Code."""

CALL_SECONDS = 600.0
MOST_RESULT_CHARS = 500_000
"""As much as a tool may ask for with `anthropic/maxResultSizeChars`."""


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
