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

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
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


STUDY = {
    "cells": [
        {
            "cell_type": "code",
            "id": "c1",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": "x = 20 + 1",
        },
        {"cell_type": "code", "id": "c2", "metadata": {}, "execution_count": None, "outputs": [], "source": "x * 2"},
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
PICTURE = f"""
from IPython.display import Image, display
import base64
display(Image(base64.b64decode({PIXEL!r})))
"""


def session_of(server: JupyterServer, path: str, content: Any = STUDY) -> str:
    """A notebook with a running kernel; the kernel's id."""
    (server.root / path).write_text(json.dumps(content), "utf-8")
    session = {"path": path, "type": "notebook", "name": path, "kernel": {"name": "python3"}}
    reply = server.request("POST", "api/sessions", session)
    assert reply.status == 201, reply.body
    return str(reply.json()["kernel"]["id"])


@pytest.fixture(scope="module")
def study(serving: JupyterServer) -> str:
    """The kernel of `study.ipynb`."""
    return session_of(serving, "study.ipynb")


async def say_once(_context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"answer": "Allow once"})


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


def test_cells_run_and_variables_are_read_in_the_notebooks_own_kernel(serving: JupyterServer, study: str) -> None:
    heard: list[str | None] = []

    async def on_progress(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message)

    async def scene() -> None:
        async with connected(serving, elicitation_callback=say_once) as client:
            given = {"notebook_path": "study.ipynb", "which": "all"}
            ran = await client.call_tool("NotebookRun", given, progress_callback=on_progress)
            assert heard[-1] == "Cell 2 (2 of 2)"
            assert not ran.is_error, text_of(ran)
            assert "42" in text_of(ran)
            assert [cell["status"] for cell in ran.structured_content["cells"]] == ["ok", "ok"]
            looked = await client.call_tool("Variables", {"notebook_path": "study.ipynb"})
            assert "x" in looked.structured_content["names"]
            picture = await client.call_tool("Python", {"kernel_id": study, "code": PICTURE})
            assert [part.mime_type for part in picture.content if part.type == "image"] == ["image/png"]
            failed = await client.call_tool("Python", {"notebook_path": "study.ipynb", "code": "1 / 0"})
            assert failed.is_error
            assert "ZeroDivisionError" in text_of(failed)

    asyncio.run(scene())
    cells = json.loads((serving.root / "study.ipynb").read_text("utf-8"))["cells"]
    assert cells[1]["outputs"][0]["data"]["text/plain"] in ("42", ["42"])


def test_without_a_yes_no_code_runs(serving: JupyterServer, study: str) -> None:
    async def scene() -> None:
        async with connected(serving) as client:
            for name, given in (("Python", {"code": "gone = 1"}), ("NotebookRun", {"which": "all"})):
                denied = await client.call_tool(name, {"notebook_path": "study.ipynb", **given})
                assert denied.is_error
                assert "can be asked" in text_of(denied)
            looked = await client.call_tool("Variables", {"kernel_id": study})
            assert "gone" not in looked.structured_content["names"]

    asyncio.run(scene())


def test_what_the_roots_rules_deny_is_denied_in_kernels_with_other_rules(serving: JupyterServer) -> None:
    other = serving.root / "other"
    (other / ".git").mkdir(parents=True)
    kernel = session_of(serving, "other/own.ipynb")
    rules = serving.root / ".claude" / "settings.json"
    rules.parent.mkdir()
    rules.write_text(json.dumps({"permissions": {"deny": ["Python"]}}), "utf-8")

    async def scene() -> None:
        async with connected(serving, elicitation_callback=say_once) as client:
            offered = [tool.name for tool in (await client.list_tools()).tools]
            assert "Variables" in offered
            assert "Python" not in offered
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("Python", {"kernel_id": kernel, "code": "1 + 1"})

    try:
        asyncio.run(scene())
    finally:
        rules.unlink()


def test_which_kernel_is_meant_has_to_be_clear(serving: JupyterServer, study: str) -> None:
    async def scene() -> None:
        async with connected(serving) as client:
            wrong = {
                "plots/a b.ipynb": "has no running kernel",
                "none.ipynb": "Notebook none.ipynb was not found",
                "../study.ipynb": "was not found",
                "study.ipynb\0": "Say which notebook",
            }
            for path, words in wrong.items():
                said = await client.call_tool("NotebookRun", {"notebook_path": path, "which": "all"})
                assert said.is_error
                assert words in text_of(said) or path.endswith("\0")
            said = await client.call_tool("Variables", {"kernel_id": "another"})
            assert f"study.ipynb (kernel {study})" in text_of(said)

    asyncio.run(scene())


LACKING = "import sys; sys.modules['cellwright'] = None"
"""In a kernel: as if the package were not there."""


@pytest.mark.parametrize("has_cellwright", [True, False])
def test_a_notebook_that_may_be_open_elsewhere_is_not_changed_on_disk(
    serving: JupyterServer, *, has_cellwright: bool
) -> None:
    path = f"open-{has_cellwright}.ipynb"
    kernel = session_of(serving, path, NOTEBOOK)
    front_end = serving.execute(kernel, "pass" if has_cellwright else LACKING, wait=False)
    front_end.wait_reply()
    before = (serving.root / path).read_bytes()
    edit = {"notebook_path": path, "cell_id": "m1", "new_source": "# Costs"}

    async def scene(*, allowed: bool) -> None:
        async with connected(serving, elicitation_callback=say_once) as client:
            read = await client.call_tool("NotebookRead", {"notebook_path": path})
            assert "# Sales" in text_of(read)
            edited = await client.call_tool("NotebookEdit", edit)
            assert edited.is_error is not allowed, text_of(edited)
            assert allowed or "may be open in a front end" in text_of(edited)

    asyncio.run(scene(allowed=False))
    assert (serving.root / path).read_bytes() == before
    front_end.wait()
    # the server itself is one for a while
    serving.wait_for(
        lambda: serving.request("GET", f"api/kernels/{kernel}").json()["connections"] < 2, "it is connected"
    )
    asyncio.run(scene(allowed=True))
    assert "# Costs" in (serving.root / path).read_text("utf-8")


def test_what_a_page_holds_unsaved_is_not_written(serving: JupyterServer) -> None:
    (serving.root / "draft.txt").write_text("saved\n", "utf-8")
    (serving.root / "draft.ipynb").write_text(json.dumps(NOTEBOOK), "utf-8")
    before = (serving.root / "draft.ipynb").read_bytes()
    edit = {"notebook_path": "draft.ipynb", "cell_id": "m1", "new_source": "# Costs"}

    async def scene(*, allowed: bool) -> None:
        async with connected(serving, elicitation_callback=say_once) as client:
            await client.call_tool("Read", {"file_path": "draft.txt"})
            await client.call_tool("NotebookRead", {"notebook_path": "draft.ipynb"})
            written = await client.call_tool("Write", {"file_path": "draft.txt", "content": "mine\n"})
            edited = await client.call_tool("NotebookEdit", edit)
            assert [written.is_error, edited.is_error] == [not allowed] * 2
            assert allowed or "unsaved changes" in text_of(written)
            assert allowed or "is open without a kernel" in text_of(edited)

    def say(*paths: str) -> int:
        body = {"type": "unsaved", "page": "p1", "root": "", "paths": list(paths)}
        return serving.request("POST", "cellwright/mcp/documents", body).status

    assert say("draft.txt", "draft.ipynb") == 200
    asyncio.run(scene(allowed=False))
    assert (serving.root / "draft.txt").read_text("utf-8") == "saved\n"
    assert (serving.root / "draft.ipynb").read_bytes() == before
    assert say() == 200
    asyncio.run(scene(allowed=True))
    assert serving.request("POST", "cellwright/mcp/documents", {"paths": 7}).status == 400


def test_what_is_too_large_is_refused_with_its_limit(serving: JupyterServer) -> None:
    reply = asked(serving, b'"' + b"x" * 21_000_000 + b'"')
    assert reply.status == 413
    assert "20,000,000 bytes" in reply.json()["message"]


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
    elsewhere = asked(serving, Host="evil.example")
    assert elsewhere.headers["connection"] == "close"  # its body was not read: nothing follows on this connection


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


def test_with_another_version_of_the_package_the_route_says_so(tmp_path: Path) -> None:
    info = tmp_path / "site" / "mcp-1.26.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mcp\nVersion: 1.26.0\n", "utf-8")
    environ = {"PYTHONPATH": str(info.parent)}
    with jupyter_server(tmp_path / "server", ["--CellwrightApp.mcp_server=True"], environ) as running:
        answer = running.request("POST", "cellwright/mcp", {})
        assert answer.status == 503
        assert "mcp 1.26.0 is installed" in json.dumps(answer.json())
        assert "mcp 1.26.0 is installed" in running.log.read_text("utf-8")
