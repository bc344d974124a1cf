"""MCP servers over HTTP that flood, lie, die and forget: the call fails with words, and the rest goes on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tools.mcp.connected_server import call, connected, run
from tests.tools.mcp.connected_server import entry_of as entry_named

from cellwright.config.mcp.servers import ServerOrigin, described_entry, read_entries
from cellwright.errors import ToolError
from cellwright.tools.mcp.http_client import MAX_BODY_BYTES, HelperAuth
from cellwright.tools.mcp.server_entry import ServerEntry
from mcp_servers.hostile_http import HostileServer, hostile_server


def entry_of(url: str, **more: Any) -> ServerEntry:
    return entry_named("hostile", type="http", url=url, **more)


@pytest.fixture
def hostile() -> Iterator[HostileServer]:
    with hostile_server() as made:
        yield made


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("flood", "more than 16,000,000 bytes"),
        ("event_flood", "SSE"),
        ("bomb", "compressed"),
        ("nonsense", "Failed to parse JSON response"),
        ("drop", "error response"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_the_call(hostile: HostileServer, tool: str, words: str) -> None:
    async def scene() -> None:
        async with connected(entry_of(hostile.url)) as connection:
            assert (await call(connection, "good")).startswith("good")
            with pytest.raises(ToolError) as caught:
                await call(connection, tool)
            assert words in caught.value.message
            await connection.settled.wait()
            assert (await call(connection, "good")).startswith("good"), "it is connected again"

    run(scene())
    assert hostile.sent < 4 * MAX_BODY_BYTES, "what is not taken fills no memory"


@pytest.mark.parametrize("tool", ["silent", "comments"])
def test_a_call_that_never_ends_holds_up_no_other_and_can_be_stopped(hostile: HostileServer, tool: str) -> None:
    async def scene() -> None:
        async with connected(entry_of(hostile.url)) as connection:
            hanging = asyncio.create_task(call(connection, tool))
            for _ in range(3):
                assert (await call(connection, "good")).startswith("good")
            assert not hanging.done()
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            assert (await call(connection, "good")).startswith("good")

    run(scene())


def test_a_server_that_dies_is_connected_again_when_it_is_back(hostile: HostileServer) -> None:
    async def scene() -> None:
        async with connected(entry_of(hostile.url)) as connection:
            assert await call(connection, "good") == "good of session-1"
            await asyncio.to_thread(hostile.end)
            with pytest.raises(ToolError):
                await call(connection, "good")
            hostile.begin()
            assert await call(connection, "good") == "good of session-2"
            hostile.known.clear()
            assert await call(connection, "good") == "good of session-3", "what it forgot is asked of a new session"

    run(scene())


def test_headers_of_a_command_are_sent_and_made_anew_when_they_are_refused(
    hostile: HostileServer, tmp_path: Path
) -> None:
    hostile.wants = "Bearer 1"
    tokens = tmp_path / "tokens"
    program = tmp_path / "helper.py"
    program.write_text(
        "import json, os, pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1]); n = len(file.read_text()) if file.exists() else 0\n"
        "file.write_text('x' * (n + 1))\n"
        "print(json.dumps({'Authorization': f'Bearer {n + 1}', 'Host': 'evil',"
        " 'X-About': os.environ['CLAUDE_CODE_MCP_SERVER_NAME'] + os.environ['CLAUDE_CODE_MCP_SERVER_URL']}))\n",
        "utf-8",
    )

    async def scene() -> None:
        entry = entry_of(hostile.url, headersHelper=f"{sys.executable} {program} {tokens}", headers={"x-own": "1"})
        async with connected(entry) as connection:
            assert connection.state == "connected", connection.problem
            assert hostile.seen[0]["x-about"] == f"hostile{hostile.url}"
            assert hostile.seen[0]["x-own"] == "1"
            assert hostile.seen[0]["host"] != "evil"
            await call(connection, "good")
            assert tokens.read_text("utf-8") == "x", "once for a connection"
            hostile.wants = "Bearer 2"
            connection.reconnect()
            await connection.settled.wait()
            assert await call(connection, "good") == "good of session-2"

    run(scene())


def test_headers_are_made_anew_within_a_call_but_not_all_the_time(tmp_path: Path) -> None:
    import httpx2

    count = tmp_path / "count"
    now = 0.0
    helper = f"""echo x >> {count}; echo '{{"a": "1"}}'"""
    auth = HelperAuth(entry_of("https://example.com", headersHelper=helper), os.environ, None, lambda: now)

    async def refused() -> int:
        """The times that a request is sent which is always refused."""
        flow = auth.async_auth_flow(httpx2.Request("GET", "https://example.com"))
        request, sent = await anext(flow), 1
        while True:
            try:
                request = await flow.asend(httpx2.Response(401, request=request))
            except StopAsyncIteration:
                return sent
            sent += 1

    async def scene() -> None:
        nonlocal now
        assert await refused() == 1
        now = 60.0
        assert await refused() == 2
        assert await refused() == 1
        assert count.read_text("utf-8") == "x\n" * 2

    run(scene())


HELPERS = {
    "exit 3": "ended with the exit code 3",
    "echo no >&2; exit 1": "exit code 1: no",
    "echo hello": "wrote no JSON",
    "echo '[1]'": "no JSON object of headers",
    """printf '{"a": "b\\\\nc"}'""": "no JSON object of headers",
    "yes '{' | head -c 1000000": "wrote no JSON",
}


def test_a_command_that_gives_no_headers_is_the_servers_problem(hostile: HostileServer) -> None:
    async def scene() -> None:
        wrong = []
        for helper, words in HELPERS.items():
            async with connected(entry_of(hostile.url, headersHelper=helper)) as connection:
                if connection.state != "failed" or words not in connection.problem:
                    wrong.append((helper, connection.state, connection.problem))
        assert wrong == []
        assert hostile.seen == [], "nothing is sent without them"

    run(scene())


def test_an_approval_shows_what_runs_for_headers_and_how_one_signs_in() -> None:
    lines = described_entry(
        {"type": "http", "url": "https://x", "headersHelper": "evil", "oauth": {"clientId": "mine"}}
    )
    assert any(line.endswith("headers: evil") for line in lines)
    assert any(line.endswith('{"clientId": "mine"}') for line in lines)
    for oauth, words in (
        (3, "`oauth` that is not an object"),
        ({"clientId": 3}, "`clientId` is not text"),
        ({"callbackPort": 70_000}, "`callbackPort` is not a port"),
        ({"authServerMetadataUrl": "http://example.com/x"}, "not an https address"),
    ):
        origin = ServerOrigin(scope="user", label="a test", cwd=Path.cwd())
        read = read_entries({"a": {"type": "http", "url": "https://x.example", "oauth": oauth}}, origin, {})
        assert words in "".join(read.notices)
