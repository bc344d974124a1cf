"""An MCP server of the tests, connected for as long as a block lasts; a scene that hangs is ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cellwright.agent.tool import ToolContext
from cellwright.config.mcp.servers import ServerOrigin, read_entries
from cellwright.tools.mcp.connection import ServerConnection
from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.mcp.tools import server_tools

SOON = 120


def run(scene: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SOON):
            await scene

    asyncio.run(bounded())


def entry_of(name: str, **written: Any) -> ServerEntry:
    """The entry of that name, as a user has written it."""
    origin = ServerOrigin(scope="user", label="a test", cwd=Path.cwd())
    read = read_entries({name: written}, origin, {})
    assert not read.notices
    return read.entries[name]


@asynccontextmanager
async def connected(entry: ServerEntry, *, seconds: float = SOON, **more: Any) -> AsyncIterator[ServerConnection]:
    made = ServerConnection(
        entry,
        os.environ,
        connect_seconds=seconds,
        roots=list,
        make_tools=lambda each: server_tools(each, os.environ),
        **more,
    )
    made.start()
    await made.settled.wait()
    try:
        yield made
    finally:
        await made.close()


async def call(connection: ServerConnection, name: str) -> str:
    """The text with which the result of the tool begins."""
    result = await connection.call_tool(name, {}, ToolContext("id", lambda **_: None))
    return str(result.content[0].text)
