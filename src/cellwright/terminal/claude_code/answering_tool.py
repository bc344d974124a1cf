"""`--permission-prompt-tool`: a tool of an MCP server is asked in the user's place, as Claude Code asks it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cellwright.agent.calls.approval import CanUseTool, Deny
from cellwright.agent.calls.permission_callback import ToolPermissionContext, permission_callback
from cellwright.errors import CellwrightError, ToolError

if TYPE_CHECKING:
    from cellwright.config.hooks.http_and_mcp import CallMcpTool


def answers_of(name: str, call: CallMcpTool) -> CanUseTool:
    """A callback that asks the tool `name` (`mcp__SERVER__TOOL`) about each call, and denies it without an answer."""
    server, _, tool = name.removeprefix("mcp__").partition("__")

    async def ask(tool_name: str, tool_input: dict[str, Any], context: ToolPermissionContext) -> Any:
        about = {"tool_name": tool_name, "input": tool_input, "tool_use_id": context.tool_use_id}
        try:
            text = await call(server, tool, about)
        except (LookupError, ToolError, CellwrightError) as error:
            return Deny(f"{name} could not be asked: {error}")
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.get("behavior") not in ("allow", "deny"):
            return Deny(f"{name} gave no answer with `behavior` allow or deny: {text[:200]}")
        return answer

    return permission_callback(ask)
