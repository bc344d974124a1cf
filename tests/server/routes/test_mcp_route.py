"""`/cellwright/mcp`: the SDK's own client against a real Jupyter Server, and who is kept out."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jupyter_process import TOKEN, JupyterServer, jupyter_server
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

NOTEBOOK = {
    "cells": [{"cell_type": "markdown", "id": "m1", "metadata": {}, "source": "# Sales"}],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    with jupyter_server(tmp_path_factory.mktemp("mcp"), ["--CellwrightApp.mcp_server=True"]) as running:
        (running.root / "plots").mkdir()
        (running.root / "plots" / "a b.ipynb").write_text(json.dumps(NOTEBOOK), "utf-8")
        (running.root / "notes.txt").write_text("hello\n", "utf-8")
        yield running


@asynccontextmanager
async def connected(server: JupyterServer, mode: Any = "auto", user: str = "", **more: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"token {TOKEN}", "X-Test-User": user}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/cellwright/mcp", http_client=http), mode=mode, **more) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_files_and_notebooks_are_read_over_http(serving: JupyterServer, mode: str) -> None:
    async def scene() -> None:
        async with connected(serving, mode) as client:
            assert "NotebookRead" in [tool.name for tool in (await client.list_tools()).tools]
            read = await client.call_tool("Read", {"file_path": "notes.txt"})
            assert "hello" in read.content[0].text
            assert read.structured_content["total"] == 1
            assert [each.uri for each in (await client.list_resources()).resources] == ["notebook:///plots/a%20b.ipynb"]
            page = await client.read_resource("notebook:///plots/a%20b.ipynb")
            assert page.contents[0].text == "# Sales"
            outside = await client.call_tool("Read", {"file_path": str(serving.home / "server.log")})
            assert outside.is_error
            with pytest.raises(MCPError, match="outside"):
                await client.read_resource("notebook:///../home/x.ipynb")

    asyncio.run(scene())


def test_an_edit_is_denied_or_asked_of_the_clients_user(serving: JupyterServer) -> None:
    asked: list[str] = []

    async def once(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": "Allow once"})

    file = serving.root / "made.txt"

    async def scene() -> None:
        given = {"file_path": "made.txt", "content": "made\n"}
        async with connected(serving) as client:
            denied = await client.call_tool("Write", given)
            assert denied.is_error
            assert "would allow it" in denied.content[0].text
            assert not file.exists()
        async with connected(serving, elicitation_callback=once) as client:
            assert not (await client.call_tool("Write", given)).is_error

    asyncio.run(scene())
    assert len(asked) == 1
    assert "made.txt" in asked[0]
    assert file.read_text("utf-8") == "made\n"


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {},
}
AS_MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def asked(server: JupyterServer, body: Any = HELLO, method: str = "POST", **headers: str | None) -> Any:
    return server.request(method, "cellwright/mcp", body, **AS_MCP, **headers)


def test_who_may_not_ask_is_refused(serving: JupyterServer) -> None:
    assert asked(serving).status == 200
    cookie = serving.request("GET", f"api/me?token={TOKEN}", Authorization=None).headers["set-cookie"].split(";")[0]
    refused = {
        "no token": {"Authorization": None},
        "another's token": {"Authorization": "token of-somebody-else"},
        "a cookie without the XSRF token": {"Authorization": None, "Cookie": cookie},
        "another host's name": {"Host": "evil.example"},
        "another site's page": {"Origin": "https://evil.example"},
    }
    wrong = {
        what: status
        for what, headers in refused.items()
        if (status := asked(serving, **headers).status) not in (403, 404)
    }
    assert wrong == {}


def test_nonsense_is_answered_and_the_server_goes_on(serving: JupyterServer) -> None:
    bodies: list[Any] = [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, {"jsonrpc": "2.0"}, b'"' + b"x" * 5_000_000]
    statuses = [asked(serving, body).status for body in bodies]
    assert [status for status in statuses if not 400 <= status < 500] == []
    assert asked(serving, None, "GET").status == 405
    assert asked(serving).json()["result"]["tools"]


def test_it_is_off_unless_the_administrator_says_so(server: JupyterServer) -> None:
    assert asked(server).status == 404


USERS = """
from jupyter_server.auth import Authorizer, IdentityProvider, User

class ByHeader(IdentityProvider):
    async def get_user(self, handler):
        user = await super()._get_user(handler)
        name = handler.request.headers.get("X-Test-User")
        return user and User(name) if name else user

class NoGuests(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return user.username != "guest" or action == "read"
"""


def test_each_user_has_their_own_under_the_administrators_policy(
    start_server: Callable[..., JupyterServer], tmp_path: Path
) -> None:
    (tmp_path / "my_users.py").write_text(USERS, "utf-8")
    server = start_server(
        "--ServerApp.identity_provider_class=my_users.ByHeader",
        "--ServerApp.authorizer_class=my_users.NoGuests",
        f"--ByHeader.token={TOKEN}",
        "--CellwrightApp.mcp_server=True",
        "--CellwrightApp.allowed_tools=Read,Write",
        environ={"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    asked_users: list[str] = []

    def answering(user: str, word: str) -> Callable[..., Any]:
        async def answer(_context: Any, _params: Any) -> ElicitResult:
            asked_users.append(user)
            return ElicitResult(action="accept", content={"answer": word})

        return answer

    async def write(user: str, word: str) -> bool:
        async with connected(server, user=user, elicitation_callback=answering(user, word)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["Read", "Write"]
            done = await client.call_tool("Write", {"file_path": f"{user}-{len(asked_users)}.txt", "content": "x"})
            return not done.is_error

    async def scene() -> None:
        assert await write("ada", "Allow from now on")
        assert not await write("bob", "Deny")
        assert await write("ada", "Deny")  # she is not asked again

    asyncio.run(scene())
    assert asked_users == ["ada", "bob"]
    assert asked(server, X_Test_User="guest").status == 403
