"""The options of claude-agent-sdk: each one works, warns or is refused, and the page says the same."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import pytest

import cellwright
import cellwright.claude_agent_sdk as sdk
from cellwright.claude_agent_sdk.options import OPTIONS
from cellwright.config.user_tools import input_schema
from cellwright.testing import MessagesServer, fault, say, use

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-claude-agent-sdk.md").read_text("utf-8")
WORDS = {"works": "works", "warns": "no effect, warns", "refused": "refused"}

OF_NO_EFFECT: dict[str, Any] = {
    "betas": ["context-1m-2025-08-07"],
    "cli_path": "/usr/bin/claude",
    "max_buffer_size": 1,
    "debug_stderr": 3,
    "include_hook_events": True,
    "session_store_flush": "eager",
    "load_timeout_ms": 1,
    "task_budget": {"total": 1},
    "client_app": "me/1",
}
REFUSED: dict[str, Any] = {
    "user": "nobody",
    "resume_session_at": "x",
    "resume_drops_turn": "x",
    "session_store": sdk.InMemorySessionStore(),
}


async def result(prompt: str, **options: Any) -> sdk.ResultMessage:
    async for message in sdk.query(prompt=prompt, options=sdk.ClaudeAgentOptions(**options)):
        if isinstance(message, sdk.ResultMessage):
            return message
    raise AssertionError


def test_the_page_has_the_table() -> None:
    assert list(OPTIONS) == [each.name for each in fields(sdk.ClaudeAgentOptions)]
    rows = [f"| `{name}` | {WORDS[option.becomes]} | {option.how} |" for name, option in OPTIONS.items()]
    assert [row for row in rows if row not in PAGE] == []


def test_what_has_no_effect_warns_and_what_would_do_harm_is_refused(server: MessagesServer) -> None:
    assert {name for name, each in OPTIONS.items() if each.becomes == "warns"} == set(OF_NO_EFFECT)
    assert {name for name, each in OPTIONS.items() if each.becomes == "refused"} == set(REFUSED)
    server.add(say("Yes."))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert asyncio.run(result("Go", **OF_NO_EFFECT)).result == "Yes."
    told = [str(each.message) for each in caught if each.category is UserWarning]
    assert sorted(re.findall(r"ClaudeAgentOptions\.(\w+) has no effect", "\n".join(told))) == sorted(OF_NO_EFFECT)
    for name, value in REFUSED.items():
        with pytest.raises(sdk.CLIConnectionError, match=name):
            asyncio.run(result("Go", **{name: value}))
    with pytest.raises(ValueError, match="who is asked"):
        asyncio.run(result("Go", can_use_tool=lambda *_: None, permission_prompt_tool_name="stdio"))
    with pytest.raises(sdk.CLIConnectionError, match="transport="):
        sdk.ClaudeSDKClient(transport=object())  # type: ignore[arg-type]
    assert len(server.requests) == 1


def test_sessions_by_their_ids(server: MessagesServer, tmp_path: Path) -> None:
    own_id = "11111111-2222-3333-4444-555555555555"

    async def main() -> list[sdk.ResultMessage]:
        first = await result("One", session_id=own_id)
        second = await result("Two", resume=own_id)
        third = await result("Three", resume=own_id, fork_session=True)
        fourth = await result("Four", continue_conversation=True)
        return [first, second, third, fourth]

    server.add(*map(say, ("1", "2", "3", "4")))
    ids = [each.session_id for each in asyncio.run(main())]
    assert ids[:2] == [own_id, own_id]
    assert ids[2] not in (own_id, "")
    assert ids[3] == ids[2]
    with pytest.raises(sdk.CLIConnectionError, match="exists already"):
        asyncio.run(result("Five", session_id=own_id))
    messages = sdk.get_session_messages(own_id)
    assert [each.type for each in messages] == ["user", "assistant", "user", "assistant"]
    fork = sdk.fork_session(own_id, up_to_message_id=messages[1].uuid, title="Mine")
    assert len(sdk.get_session_messages(fork.session_id)) == 2
    info = sdk.get_session_info(fork.session_id)
    assert info is not None
    assert info.custom_title == "Mine"
    sdk.tag_session(own_id, "kept")
    assert {each.tag for each in sdk.list_sessions(str(tmp_path))} >= {"kept"}
    sdk.delete_session(fork.session_id)
    assert sdk.get_session_info(fork.session_id) is None


def test_values_files_and_errors(server: MessagesServer, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]}
    (tmp_path / "settings.json").write_text('{"model": "haiku"}')
    (tmp_path / "prompt.txt").write_text("You are brief.")

    async def main() -> None:
        typed = await result("Count", output_format={"type": "json_schema", "schema": schema})
        assert typed.structured_output == {"rows": 3}
        await result("@prompt.txt /x", settings="settings.json", verbatim_prompts=True)
        await result("Hi", system_prompt={"type": "file", "path": "prompt.txt"}, effort="low", skills=["testing"])
        async with sdk.ClaudeSDKClient(
            sdk.ClaudeAgentOptions(extra_args={"replay-user-messages": None}, permission_mode="acceptEdits")
        ) as client:
            ids = []
            for prompt in ("Write", "Write again"):
                await client.query(prompt)
                async for message in client.receive_response():
                    if isinstance(message, sdk.UserMessage) and isinstance(message.content, str):
                        ids.append(message.uuid)
            assert (tmp_path / "a.txt").read_text() == "2"
            await client.rewind_files(ids[1])
            assert (tmp_path / "a.txt").read_text() == "1"
            usage = await client.get_context_usage()
            assert usage["totalTokens"] == sum(each["tokens"] for each in usage["categories"])

    server.add(
        say('{"rows": 3}'),
        say("Yes."),
        say("Hi."),
        *(use("Write", file_path="a.txt", content="1"), say("Done."), use("Read", file_path="a.txt")),
        *(use("Write", file_path="a.txt", content="2"), say("Done.")),
    )
    asyncio.run(main())
    assert server.requests[1].body["model"].startswith("claude-haiku")
    assert server.requests[1].last_user_text.endswith("@prompt.txt /x")
    assert "You are brief." not in server.requests[1].last_user_text
    assert server.requests[2].body["system"][0]["text"] == "You are brief."
    asked = json.dumps(server.requests[2].body["messages"])
    assert "- testing:" in asked
    assert "- refactoring:" not in asked


def test_a_key_that_is_refused_and_one_that_is_missing(server: MessagesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    async def main() -> None:
        async for message in sdk.query(prompt="Hi"):
            found.append(message)

    server.add(fault("status", status=401, error_type="authentication_error"))
    with pytest.raises(sdk.ResultError) as caught:
        asyncio.run(main())
    assert caught.value.terminal_reason == "api_error"
    said, end = found[-2:]
    assert (said.error, end.is_error, end.subtype) == ("authentication_failed", True, "success")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(sdk.CLIConnectionError, match="Claude needs a key"):
        asyncio.run(main())


class Point(TypedDict):
    x: Annotated[float, "to the right"]
    y: NotRequired[int | None]


def test_schemas_of_tools() -> None:
    assert input_schema(Point) == {
        "type": "object",
        "properties": {"x": {"type": "number", "description": "to the right"}, "y": {"type": "integer"}},
        "required": ["x"],
    }
    given = {"type": "object", "properties": {"a": {"enum": [1]}}}
    assert input_schema(given) == given
    assert input_schema({"names": list[str]})["properties"] == {"names": {"type": "array", "items": {"type": "string"}}}


def test_sdk_tools_at_other_doors(server: MessagesServer) -> None:
    """`cellwright.Agent` takes a tool of the SDK's, a server in this process, and one of the package `mcp`."""
    from mcp.server import Server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

    @sdk.tool("price", "The price of a fruit", {"fruit": str}, sdk.ToolAnnotations(read_only_hint=True))
    async def price(args: dict[str, Any]) -> dict[str, Any]:
        if args["fruit"] != "pear":
            raise ValueError(f"no {args['fruit']} here")
        return {"content": [{"type": "text", "text": "0.40"}]}

    async def listed(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="shout", description="Shout", input_schema={"type": "object"})])

    async def called(_context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=f"{params.name}!")])

    real: Any = Server("real", on_list_tools=listed, on_call_tool=called)
    servers = {
        "shop": sdk.create_sdk_mcp_server("shop", tools=[price]),
        "real": {"type": "sdk", "name": "real", "instance": real},
    }
    server.add(
        use("price", fruit="pear"),
        use("mcp__shop__price", fruit="nut"),
        use("mcp__real__shout"),
        say("Done."),
    )
    with cellwright.Agent(tools=[price], mcp_servers=servers, allow=["mcp__shop", "mcp__real"], session=None) as agent:  # type: ignore[list-item]
        agent.ask("Go")
    results = [request.last_user_text for request in server.requests[1:]]
    assert [("0.40" in results[0]), ("no nut here" in results[1]), ("shout!" in results[2])] == [True, True, True]
