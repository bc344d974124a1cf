"""MCP hooks: a tool of an MCP server is called, and its text is read like what a program writes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cellwright.agent.hooks.protocol import HookResult
from cellwright.config.hooks.command import failed, read_output
from cellwright.config.hooks.entries import McpToolHook
from cellwright.text import lazy_pattern

CallMcpTool = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]
"""`await call(server, tool, input)` gives the tool's text. Raises LookupError where there is no such server or tool."""

_PLACEHOLDER = lazy_pattern(r"\$\{([\w.]+)\}")


async def call_tool(hook: McpToolHook, event: str, fields: Mapping[str, Any], call: CallMcpTool | None) -> HookResult:
    """Call the tool and read its answer. Never raises but for a cancellation."""
    if call is None:
        return failed(hook, event, "needs an MCP server, and none is connected here")
    try:
        text = await call(hook.server, hook.tool, filled_in(hook.input, fields))
    except Exception as error:  # noqa: BLE001  a server's own failure, of whatever kind, is no failure of the run
        return failed(hook, event, f"failed: {type(error).__name__}: {error}")
    return read_output(hook, event, text)


def filled_in(value: Any, fields: Mapping[str, Any]) -> Any:
    """`value` with each `${tool_input.x}` in its texts replaced by what the event says there."""
    if isinstance(value, Mapping):
        return {key: filled_in(item, fields) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, fields) for item in value]
    if not isinstance(value, str):
        return value
    if whole := _PLACEHOLDER.fullmatch(value):
        return _look_up(whole[1], fields)
    return _PLACEHOLDER.sub(lambda found: _as_text(_look_up(found[1], fields)), value)


def _look_up(path: str, fields: Mapping[str, Any]) -> Any:
    found: Any = fields
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)
