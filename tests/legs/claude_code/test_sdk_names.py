"""`cellwright.claude_agent_sdk` beside the SDK itself: the same names and fields, and its own objects are taken."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cellwright
import cellwright.claude_agent_sdk as ours
from cellwright.testing import MessagesServer, say, use

pytestmark = pytest.mark.claude_code


@pytest.fixture
def theirs() -> Any:
    return pytest.importorskip("claude_agent_sdk")


def shape(value: Any) -> Any:
    """The fields of a class, or the parameters of a function; None for what has neither."""
    if dataclasses.is_dataclass(value):
        return {
            each.name: None if each.default is dataclasses.MISSING else repr(each.default)
            for each in dataclasses.fields(value)
            if each.default is not sys.stderr
        }
    if typing.is_typeddict(value):
        return sorted(typing.get_type_hints(value, include_extras=True))
    if typing.get_origin(value) is typing.Literal:
        return set(typing.get_args(value))
    if inspect.isfunction(value) or inspect.ismethod(value):
        return list(inspect.signature(value).parameters)
    return None


OTHERWISE = {"ToolAnnotations", "Transport", "__version__", "SdkMcpTool"}
"""Names whose classes are made in another way: of the package `mcp`, abstract, or generic in its types."""


def test_names_and_fields(theirs: Any) -> None:
    assert set(theirs.__all__) <= set(ours.__all__)
    wrong = {}
    for name in set(theirs.__all__) - OTHERWISE:
        mine, other = getattr(ours, name), getattr(theirs, name)
        variadic = ["_arguments", "_options"]  # what works on stores is refused, whatever it is called with
        if shape(mine) != shape(other) and shape(mine) != variadic:
            wrong[name] = (shape(mine), shape(other))
    assert wrong == {}
    methods = {name for name, _ in inspect.getmembers(theirs.ClaudeSDKClient, inspect.isfunction) if name[0] != "_"}
    for name in methods:
        assert shape(getattr(ours.ClaudeSDKClient, name)) == shape(getattr(theirs.ClaudeSDKClient, name)), name


def test_its_own_objects_are_taken(
    theirs: Any, messages_server: Callable[..., MessagesServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = messages_server()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    asked: list[str] = []

    @theirs.tool("price", "The price of a fruit", {"fruit": str})
    async def price(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "0.40"}]}

    async def can_use_tool(name: str, given: dict[str, Any], context: Any) -> Any:
        asked.append(name)
        return theirs.PermissionResultAllow(updated_permissions=context.suggestions)

    async def look(given: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        asked.append(f"hook {given['tool_name']}")
        return {}

    shop = theirs.create_sdk_mcp_server("shop", tools=[price])
    options = theirs.ClaudeAgentOptions(
        cwd=tmp_path,
        mcp_servers={"shop": shop},
        can_use_tool=can_use_tool,
        hooks={"PreToolUse": [theirs.HookMatcher("Bash", [look])]},
        agents={"reader": theirs.AgentDefinition(description="Reads.", prompt="You read.")},
    )

    async def main() -> str | None:
        async with ours.ClaudeSDKClient(options) as client:
            await client.query("Go")
            async for message in client.receive_response():
                if isinstance(message, ours.ResultMessage):
                    return message.result
        return None

    server.add(use("mcp__shop__price", fruit="pear"), use("Bash", command="touch a"), say("Done."))
    assert asyncio.run(main()) == "Done."
    assert asked == ["mcp__shop__price", "hook Bash", "Bash"]
    server.add(use("price", fruit="pear"), say("Done."))
    with cellwright.Agent(tools=[price], allow=["price"], cwd=tmp_path, session=None) as agent:  # type: ignore[list-item]
        assert agent.ask("Go").text == "Done."
    assert "0.40" in server.requests[-1].last_user_text
