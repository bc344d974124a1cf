"""What goes to and fro between our loop and Claude Code, as far as it needs no program; `tests/legs/claude_code` has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.model.claude_code_format import (
    GO_ON,
    as_told,
    history_and_prompt,
    results_of,
    session_lines,
    system_text,
    tool_definitions,
    wire_name,
)
from cellwright.model.claude_code_provider import ClaudeCodeProvider, api_error
from cellwright.model.claude_code_sign_in import SignIn, find_program, has_sdk, sign_in
from cellwright.model.provider import Request


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def result(call: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
READ = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a"}}


def test_every_name_fits_and_stays_its_own() -> None:
    assert wire_name("Read") == "mcp__cellwright__Read"
    long = [wire_name(f"mcp__a_server_with_a_long_name__and_a_tool_with_another_{number}") for number in range(50)]
    assert len(set(long)) == 50
    assert all(len(name) <= 64 and name.startswith("mcp__cellwright__") for name in long)


def test_tools_are_all_loaded_and_those_of_the_api_are_left_out() -> None:
    schema = {"type": "object", "properties": {}}
    tools = [
        {"name": "Read", "input_schema": schema},
        {"name": "Late", "input_schema": schema, "defer_loading": True},
        {"type": "web_search_20260318", "name": "web_search"},
    ]
    told = tool_definitions(json.dumps(tools).encode())
    assert [tool["name"] for tool in told] == ["Read", "Late"]
    assert not any("defer_loading" in tool for tool in told)
    assert tool_definitions(b"") == []


def test_messages_are_told_in_its_words() -> None:
    messages = [
        user(text("go", cache_control={"type": "ephemeral"})),
        assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, READ),
        user(result("toolu_1", [{"type": "tool_reference", "tool_name": "Late"}])),
    ]
    first, second, third = as_told([json.dumps(message).encode() for message in messages])
    assert first["content"] == [text("go")]
    assert [block["type"] for block in second["content"]] == ["text", "tool_use"]
    assert second["content"][1]["name"] == "mcp__cellwright__Read"
    assert third["content"][0]["content"] == [text("Late can be called now.")]


def test_a_new_program_has_the_past_without_thinking_and_answers_the_last_prompt() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "x"}
    past, prompt = history_and_prompt([user(text("go")), assistant(thinking, text("gone")), user(text("on"))])
    assert list(past) == [user(text("go")), assistant(text("gone"))]
    assert prompt == [text("on")]
    past, prompt = history_and_prompt([user(text("go")), assistant(thinking), user(result("toolu_1", "r"))])
    assert [message["role"] for message in past] == ["user", "user"]
    assert prompt == [text(GO_ON)]


def test_a_session_file_is_a_chain_of_its_messages() -> None:
    lines = session_lines([user(text("ü")), assistant(READ)], session_id="s", cwd="/w", model="claude-opus-5-5")
    first, second = map(json.loads, lines.splitlines())
    assert (first["parentUuid"], second["parentUuid"]) == (None, first["uuid"])
    assert (first["type"], second["type"]) == ("user", "assistant")
    assert first["message"] == user(text("ü"))
    assert second["message"]["content"] == [READ]


def test_results_go_to_their_calls_and_the_rest_behind_the_last() -> None:
    said = user(result("b", [text("two"), IMAGE]), result("a", "one", is_error=True), text("note"))
    assert results_of(said, ["a", "b"]) == {
        "a": {"content": [{"type": "text", "text": "one"}], "isError": True},
        "b": {
            "content": [
                {"type": "text", "text": "two"},
                {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                {"type": "text", "text": "note"},
            ],
            "isError": False,
        },
    }
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}
    assert results_of(said, ["a", "b", "c"]) is None, "one is missing"
    assert results_of(user(result("a", [document])), ["a"]) is None, "MCP has no such block"


def test_a_format_is_asked_for_in_words() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    request = Request(
        model="claude-opus-5-5",
        system=json.dumps([text("Be brief."), text("Be kind.")]).encode(),
        tools=b"[]",
        messages=[],
        max_tokens=10,
        output_format={"type": "json_schema", "schema": schema},
    )
    words = system_text(request)
    assert words.startswith("Be brief.\n\nBe kind.\n\n")
    assert words.endswith(json.dumps(schema))


def test_failures_say_what_to_do() -> None:
    table = [
        (("authentication_failed", 401), ErrorCode.API_KEY_INVALID, "`claude auth login`"),
        (("authentication_failed", None), ErrorCode.API_KEY_MISSING, "`claude auth login`"),
        (("rate_limit", 429), ErrorCode.API_RATE_LIMITED, "ends at noon"),
        (("overloaded", 529), ErrorCode.API_OVERLOADED, "(words)"),
        (("model_not_found", 404), ErrorCode.API_REQUEST_INVALID, "(words)"),
        (("", 500), ErrorCode.API_OVERLOADED, "(words)"),
        (("", None), ErrorCode.API_NETWORK_ERROR, "(words)"),
    ]
    wrong = []
    for (kind, status), code, says in table:
        error = api_error(kind, status, "words.", program="claude", resets="at noon")
        if error.code != code or says not in error.message:
            wrong.append((kind, status, str(error)))
    assert wrong == []
    assert api_error("invalid_request", 400, "Prompt is too long", program="claude").code == ErrorCode.CONTEXT_TOO_LONG


async def _first_event(request: Request) -> None:
    async for _ in ClaudeCodeProvider(Path("claude"), dict).stream(request):
        pass


def test_what_it_does_not_offer_is_said_before_a_program_starts() -> None:
    import asyncio

    plain = {"model": "claude-opus-5-5", "system": b"[]", "tools": b"[]", "messages": [], "max_tokens": 10}
    with pytest.raises(ApiError, match="stop sequences"):
        asyncio.run(_first_event(Request(**plain, stop_sequences=("x",))))
    with pytest.raises(ApiError, match="compaction"):
        asyncio.run(_first_event(Request(**plain, compaction="")))


@pytest.mark.skipif(has_sdk(), reason="the package is installed")
def test_without_the_package_it_says_which_extra_brings_it() -> None:
    with pytest.raises(CellwrightError, match=r"cellwright\[claude-code\]"):
        find_program({})


def test_who_is_signed_in_is_the_programs_word(tmp_path: Path) -> None:
    program = tmp_path / "claude"

    def says(words: str) -> SignIn | None:
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{words}\nEND\n")
        program.chmod(0o700)
        return sign_in(program, {"PATH": "/usr/bin:/bin"})

    subscription = says('{"loggedIn": true, "authMethod": "claude.ai", "subscriptionType": "max"}')
    assert subscription is not None
    assert subscription.words == "signed in by claude.ai, plan max"
    by_key = says('{"loggedIn": true, "authMethod": "api_key"}')
    assert by_key is not None
    assert by_key.words == "an API key (requests are billed)"
    assert says('{"loggedIn": false}') == SignIn(False)
    assert says("not JSON") is None
    assert sign_in(tmp_path / "none", {}) is None
