"""Programs that answer as people's do: what can be understood is taken, what cannot be read ends the call, in words."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.tool import ToolContext
from cellwright.config.mcp.entries import ServerOrigin, read_entries
from cellwright.errors import ToolError
from cellwright.tools.mcp.connection import ServerConnection
from cellwright.tools.mcp.stdio_messages import Chatter, StdioMessages, Unreadable
from cellwright.tools.mcp.tools import server_tools
from cellwright.tools.mcp.transports import MESSAGE_SECONDS, REST_SECONDS
from forked.forked_python import program_in

ODD = Path(__file__).parents[3] / "shared" / "mcp_servers" / "odd_server.py"
SOON = 120

UNDERSTOOD = {
    "half_emoji": "cut \ufffd",
    "raw_control": "a\x01b\tc",
    "raw_newline": "one\ntwo",
    "latin_1": "café",
    **dict.fromkeys(
        (
            *("several_lines", "no_line_end", "batch", "two_in_a_line", "behind_words", "before_words"),
            *("byte_order_mark", "utf_16", "content_length", "not_a_number", "text_id", "float_id"),
            *("no_version", "null_error", "chatter_first", "half_then_good"),
        ),
        "fine",
    ),
}
NOT_UNDERSTOOD = {
    "half": "cannot be read: it was cut off",
    "python": "cannot be read: Expecting property name enclosed in double quotes",
    "comma": "cannot be read: Expecting property name",
    "web_page": "cannot be read: it is no JSON: <!DOCTYPE html><html>Sign in</html>",
    "null_result": "something that is no answer",
    "list_result": r"its result is no object: \[1, 2\]",
    "text_result": 'its result is no object: "done"',
    "no_result": "neither a result nor an error",
    "bare_result": "it is no JSON-RPC message",
    "other_id": "for the request 'zzz'",
    "no_id": "it names no request",
    "null_id": "it names no request: Parse error",
    "error_text": "odd: it broke",
    "error_without_code": "odd: it broke",
    "empty_error": "odd: {}",
    "long_number": "a number or its brackets have no end",
    "deep": "its brackets go too deep",
}

CONNECTED = {
    "ok": ["good"],
    "no_capabilities": [],
    "no_about": ["good"],
    "old_version": ["good"],
    "several_lines": ["good"],
    "asks_first": ["good"],
    "list_loop": ["good"],
    "list_latin_1": ["good"],
    "noise": ["good"],
    "tells_changes": ["good"],
}
FAILED = {
    "unknown_version": "Unsupported protocol version from the server: 1999-01-01",
    "number_version": r"the protocol does not know \(protocolVersion: ",
    "refuses": "no licence",
    "answers_null": r"the protocol does not know \(capabilities: ",
    "answers_python": "cannot be read: Expecting property name",
    "answers_page": "cannot be read: it is no JSON: <html>Sign in</html>",
    "other_ids": "it is for the request 'first'",
    "list_refused": "database is locked",
    "list_null": r"the protocol does not know \(tools: ",
    "list_words": r"the protocol does not know \(tools: ",
    "list_dies": "exit code 7",
    "exits": r"no configuration found \(its program ended with the exit code 1\)",
    "exits_quietly": "exit code 0",
    "traceback": "RuntimeError: cannot connect to the database .its program ended",
    "killed": "exit code -9",
    "silent": "it did not answer within 2 s",
    "closes_output": "Connection closed",
}


def run(scene: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SOON):
            await scene

    asyncio.run(bounded())


@asynccontextmanager
async def server(*arguments: str, command: str = "", seconds: float = SOON) -> AsyncIterator[ServerConnection]:
    origin = ServerOrigin(scope="user", label="a test", cwd=Path.cwd())
    own = {"command": command or program_in(os.environ), "args": [str(ODD), *arguments]}
    made = ServerConnection(
        read_entries({"odd": own}, origin, {}).entries["odd"],
        os.environ,
        connect_seconds=seconds,
        roots=list,
        make_tools=lambda each: server_tools(each, os.environ),
    )
    made.start()
    await made.settled.wait()
    try:
        yield made
    finally:
        await made.close()


async def call(connection: ServerConnection, name: str) -> str:
    result = await connection.call_tool(name, {}, ToolContext("id", lambda **_: None))
    return str(result.content[0].text)


def test_every_odd_answer_is_understood_or_ends_its_call_in_words_and_the_next_call_works() -> None:
    async def scene() -> None:
        async with server("answers") as connection:
            assert {*UNDERSTOOD, *NOT_UNDERSTOOD, "good"} == {each.name for each in connection.definitions}
            for name, text in UNDERSTOOD.items():
                assert (name, await call(connection, name)) == (name, text)
                assert (name, await call(connection, "good")) == (name, "fine")
            for name, words in NOT_UNDERSTOOD.items():
                began = time.monotonic()
                with pytest.raises(ToolError) as caught:
                    await call(connection, name)
                assert re.search(words, caught.value.message), (name, caught.value.message)
                assert (time.monotonic() - began > REST_SECONDS - 1) is (name == "half"), "nothing else is waited for"
                assert (name, await call(connection, "good")) == (name, "fine")

    run(scene())


def test_every_odd_server_is_connected_or_says_why_not() -> None:
    async def outcome(kind: str) -> tuple[str, str, list[str]]:
        async with server(kind, seconds=2 if kind == "silent" else SOON) as connection:
            tools = [name.removeprefix("mcp__odd__") for name in connection.tools]
            return connection.state, connection.problem, sorted(set(tools))

    async def scene() -> None:
        kinds = [*CONNECTED, *FAILED]
        found = {}
        for some in (kinds[at : at + 4] for at in range(0, len(kinds), 4)):
            found.update(zip(some, await asyncio.gather(*map(outcome, some)), strict=True))
        assert {kind: found[kind] for kind in CONNECTED} == {
            kind: ("connected", "", tools) for kind, tools in CONNECTED.items()
        }
        assert {kind: found[kind][0] for kind in FAILED} == dict.fromkeys(FAILED, "failed")
        unsaid = {kind: found[kind][1] for kind, words in FAILED.items() if not re.search(words, found[kind][1])}
        assert unsaid == {}

    run(scene())


def test_a_program_that_is_none_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        plain = tmp_path / "plain.txt"
        plain.write_text("no program", "utf-8")
        for command, words in ((tmp_path / "gone", "was not found|No such file"), (plain, "Permission denied")):
            async with server(command=str(command)) as connection:
                assert connection.state == "failed"
                assert re.search(words, connection.problem), connection.problem

    run(scene())


def test_a_server_that_ends_in_a_call_ends_it() -> None:
    async def scene() -> None:
        async with server("dies_in_call") as connection:
            with pytest.raises(ToolError, match="exit code 9"):
                await call(connection, "good")

    run(scene())


def test_what_arrives_in_pieces_is_read_whole_and_in_linear_time() -> None:
    line = b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "\xc3\xa9' + b"y" * 100 + b'"}}\n'
    messages = StdioMessages()
    found = [each for at in range(len(line)) for each in messages.read(line[at : at + 1])]
    assert [each["result"]["x"][:2] for each in found if isinstance(each, dict)] == ["éy"]
    assert (messages.size, MESSAGE_SECONDS > REST_SECONDS) == (0, True)

    def seconds(lines: int) -> float:
        many = b'{"jsonrpc": "2.0", "id": 1, "result": {\n' + b'"a": [1, {"b": "}"}],\n' * lines + b'"c": 1}}\n'
        began = time.process_time()
        (read,) = StdioMessages().read(many)
        assert isinstance(read, dict)
        return time.process_time() - began

    seconds(100)
    assert seconds(40_000) < 40 * seconds(4_000)


def test_what_is_printed_beside_is_no_answer() -> None:
    printed = b"Loading [1/3]\n{ half\n\nDone {x}\n"
    messages = StdioMessages()
    found = [*messages.read(printed), *messages.read_rest(ended=True)]
    assert all(isinstance(each, Chatter) for each in found)
    (unreadable,) = [*messages.read(b'{"jsonrpc": "2.0", "id": 7, "res'), *messages.read_rest(ended=True)]
    assert isinstance(unreadable, Unreadable)
    assert unreadable.id == 7
