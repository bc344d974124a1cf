"""The client that the official conformance suite drives: our connection and our sign-in, with a user who agrees to all.

    npx @modelcontextprotocol/conformance client --suite all --command "python …/mcp_servers/conformance_client.py"

The suite gives the server's address as the last argument, and the scenario with what it needs in two variables.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from mcp_types import ElicitResult

from cellwright.agent.tool import ToolContext
from cellwright.config.mcp.servers import ServerOrigin, read_entries
from cellwright.errors import ToolError
from cellwright.tools.mcp.connection import ServerConnection
from cellwright.tools.mcp.oauth import SignIn
from cellwright.tools.mcp.token_store import TokenStore
from cellwright.tools.mcp.tools import server_tools

SIGN_INS = 3
"""A server may want more scopes for each call; more often than this, nobody would go on."""


async def agree(_context: Any, _server: str, params: Any) -> ElicitResult:
    """Answer a form with its defaults."""
    fields = params.requested_schema.get("properties", {}) if params.mode == "form" else {}
    content = {name: field["default"] for name, field in fields.items() if "default" in field}
    return ElicitResult(action="accept", content=content)


async def main(url: str, scenario: str, context: dict[str, Any]) -> None:
    """Connect, sign in as often as it takes, list the tools and call each."""
    entry: dict[str, Any] = {"type": "http", "url": url}
    if "client_id" in context:
        entry["oauth"] = {"clientId": context["client_id"]}
    origin = ServerOrigin(scope="user", label="the suite", cwd=Path.cwd())
    server = read_entries({"suite": entry}, origin, {}).entries["suite"]
    with tempfile.TemporaryDirectory() as folder:
        store = TokenStore(Path(folder), lambda: None)
        connection = ServerConnection(
            server,
            os.environ,
            connect_seconds=120,
            roots=list,
            make_tools=lambda each: server_tools(each, os.environ),
            elicit=agree,
            tokens=store,
        )
        connection.start()
        await connection.settled.wait()
        for _ in range(SIGN_INS):
            if connection.state == "needs sign-in":
                way = SignIn(
                    server, store, challenge=connection.challenge, client_secret=context.get("client_secret", "")
                )
                link = await way.begin()
                async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
                    await browser.get(link)
                await way.done()
                connection.reconnect()
                await connection.settled.wait()
            if connection.state == "connected" and await _call_all(connection, scenario):
                break
        failed = connection.state != "connected"
        problem = connection.problem
        await connection.close()
    if failed:
        raise SystemExit(problem)


async def _call_all(connection: ServerConnection, scenario: str) -> bool:
    """Call all tools; False where that needs another sign-in."""
    values = {"a": 2, "b": 3} if scenario == "tools_call" else {}
    for definition in connection.definitions:
        try:
            await connection.call_tool(definition.name, values, ToolContext("suite", lambda **_: None))
        except ToolError:
            if connection.challenge is None:
                raise
            while connection.state != "needs sign-in":
                await asyncio.sleep(0.01)
            return False
    return True


if __name__ == "__main__":
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    asyncio.run(main(sys.argv[-1], os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), given))
