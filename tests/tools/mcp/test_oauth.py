"""Signing in to MCP servers: real ones over HTTP, with an authorization server of the SDK's parts."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from tests.tools.mcp.connected_server import SOON, call, run
from tests.tools.mcp.connected_server import connected as connected_server
from tests.tools.mcp.connected_server import entry_of as entry_named

from cellwright.commands.command import CommandCall
from cellwright.commands.extensions.pages import mcp_page
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.features.conversation import Conversation
from cellwright.tools.mcp.connection import ServerConnection
from cellwright.tools.mcp.oauth import Challenge, SignIn
from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.mcp.token_store import Keyring, SignedIn, TokenStore
from mcp_servers.sign_in_server import SignInServer, sign_in_server


def entry_of(url: str, **more: Any) -> ServerEntry:
    return entry_named("guarded", type="sse" if url.endswith("sse") else "http", url=url, **more)


@pytest.fixture
def guarded() -> Iterator[SignInServer]:
    with sign_in_server() as made:
        yield made


@pytest.fixture
def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Vault:
    """A keyring of a test's."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def keyring(self) -> Keyring:
        return Keyring(
            lambda service, name: self.kept.get((service, name)),
            lambda service, name, value: self.kept.__setitem__((service, name), value),
            lambda service, name: self.kept.__delitem__((service, name)),
        )


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "sign-ins", lambda: None)


async def browse(link: str, *, on: bool = True) -> str:
    """Open the link as a browser that is sent on; where to. Not `on`: that page cannot be loaded there."""
    async with httpx2.AsyncClient(timeout=60) as browser:
        answer = await browser.get(link)
        assert answer.status_code == 302, answer.text
        address = answer.headers["location"]
        if on:
            page = await browser.get(address)
            assert page.status_code == 200
            assert "can close this" in page.text
    return str(address)


async def sign_in(entry: ServerEntry, store: TokenStore, **more: Any) -> None:
    way = SignIn(entry, store, **more)
    await browse(await way.begin())
    await way.done()


def connected(entry: ServerEntry, store: TokenStore) -> AbstractAsyncContextManager[ServerConnection]:
    return connected_server(entry, tokens=store)


async def whisper(connection: ServerConnection) -> str:
    return await call(connection, "whisper")


@pytest.mark.parametrize("sse", [False, True])
def test_a_server_says_that_it_needs_sign_in_and_is_there_after_it(store: TokenStore, sse: bool) -> None:
    async def scene(guarded: SignInServer) -> None:
        entry = entry_of(guarded.url)
        async with connected(entry, store) as connection:
            assert connection.state == "needs sign-in", connection.problem
            assert guarded.clients == {}, "nothing is registered unasked"
            with pytest.raises(ToolError, match="/mcp login guarded"):
                await whisper(connection)
            await sign_in(entry, store, challenge=connection.challenge)
            connection.reconnect()
            await connection.settled.wait()
            assert connection.state == "connected"
            assert await whisper(connection) == "the secret"
        (asked,) = guarded.granted
        assert asked.scopes == ["read"], "the server's own word"
        assert asked.resource == guarded.url
        assert asked.code_challenge
        (client,) = guarded.clients.values()
        assert client.client_name == "Cellwright"
        async with connected(entry, store) as again:
            assert again.state == "connected", "it is kept"

    with sign_in_server(sse=sse) as guarded:
        run(scene(guarded))


def test_a_browser_elsewhere_is_served_by_pasting_its_address(guarded: SignInServer, store: TokenStore) -> None:
    async def scene() -> None:
        entry = entry_of(guarded.url)
        way = SignIn(entry, store)
        address = await browse(await way.begin(), on=False)
        code = parse_qs(urlsplit(address).query)["code"][0]
        for other in ("", "http://localhost/callback?code=x", f"http://localhost/callback?code={code}&state=other"):
            with pytest.raises(CellwrightError, match="belongs to another sign-in") as caught:
                way.paste(other)
            assert code not in caught.value.message
        with pytest.raises(CellwrightError, match="no `code`"):
            way.paste(address.replace("code=", "kode="))
        way.paste(address)
        await way.done()
        assert store.is_known(entry)
        with pytest.raises(CellwrightError, match="is over"):
            way.paste(address)

    run(scene())


def test_the_listener_takes_the_answer_to_this_sign_in_alone(guarded: SignInServer, store: TokenStore) -> None:
    async def scene() -> None:
        way = SignIn(entry_of(guarded.url), store)
        link = await way.begin()
        fields = parse_qs(urlsplit(link).query)
        redirect = urlsplit(fields["redirect_uri"][0])
        async with httpx2.AsyncClient(timeout=60) as other:
            for path, status in (("/callback?code=x&state=y", 400), ("/callback", 400), ("/", 404)):
                answer = await other.get(f"http://127.0.0.1:{redirect.port}{path}")
                assert answer.status_code == status
                assert "<script" not in answer.text
        assert not way.is_over, "a stranger's answer ends nothing"
        guarded.denies = True
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            page = await browser.get(link)
        assert "not signed in" in page.text
        assert ": access_denied." in page.text
        with pytest.raises(CellwrightError, match="says no: access_denied") as caught:
            await way.done()
        assert caught.value.code == ErrorCode.MCP_CONNECTION_FAILED

    run(scene())


def test_a_token_that_has_ended_or_is_refused_is_refreshed_and_a_revoked_one_needs_the_user(
    guarded: SignInServer, store: TokenStore
) -> None:
    async def scene() -> None:
        entry = entry_of(guarded.url)
        guarded.lifetime = 1  # sooner than it may end
        await sign_in(entry, store)
        first = store.load(entry)
        guarded.lifetime = 3600
        async with connected(entry, store) as connection:
            assert connection.state == "connected"
            assert guarded.refreshed == 1
            second = store.load(entry)
            assert first is not None
            assert second is not None
            assert first.tokens != second.tokens
            guarded.revoke(refreshes=False)
            assert await whisper(connection) == "the secret", "refused before its time: refreshed within the call"
            assert guarded.refreshed == 2
            guarded.revoke()
            with pytest.raises(ToolError, match="/mcp login guarded"):
                await whisper(connection)
            while connection.state != "needs sign-in":
                await asyncio.sleep(0.01)
            kept = store.load(entry)
            assert kept is not None
            assert kept.tokens is None, "what is worth nothing is not kept"
            clients = len(guarded.clients)
            await sign_in(entry, store, challenge=connection.challenge)
            assert len(guarded.clients) == clients, "it is registered once"
            connection.reconnect()
            await connection.settled.wait()
            assert await whisper(connection) == "the secret"

    run(scene())


def test_two_processes_do_not_refresh_twice(guarded: SignInServer, store: TokenStore) -> None:
    async def scene() -> None:
        entry = entry_of(guarded.url)
        await sign_in(entry, store)
        async with connected(entry, store) as one, connected(entry, TokenStore(store.folder, lambda: None)) as other:
            guarded.revoke(refreshes=False)
            assert await asyncio.gather(whisper(one), whisper(other)) == ["the secret"] * 2
            assert guarded.refreshed == 1, "the second takes what the first got: a refresh token is good once"

    run(scene())


def test_a_broken_authorization_server_costs_no_sign_in(guarded: SignInServer, store: TokenStore) -> None:
    async def scene() -> None:
        entry = entry_of(guarded.url)
        guarded.lifetime = 1
        await sign_in(entry, store)
        guarded.instead["/token"] = lambda: (503, {}, {})
        async with connected(entry, store) as connection:
            assert connection.state == "failed"
            assert "503" in connection.problem
            del guarded.instead["/token"]
            connection.reconnect()
            await connection.settled.wait()
            while connection.state != "connected":
                await asyncio.sleep(0.01)

    run(scene())


LIES = {
    "another issuer": (
        "/.well-known/oauth-authorization-server",
        lambda base: {
            "issuer": "https://evil.example",
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "response_types_supported": ["code"],
        },
        "issuer mismatch",
    ),
    "another resource": (
        "/.well-known/oauth-protected-resource/mcp",
        lambda base: {"resource": "https://bank.example/mcp", "authorization_servers": [base]},
        "does not match",
    ),
    "a token endpoint without https": (
        "/.well-known/oauth-authorization-server",
        lambda base: {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "registration_endpoint": "http://intranet.example/register",
            "token_endpoint": "http://intranet.example/token",
            "response_types_supported": ["code"],
        },
        "not https",
    ),
    "a link without https": (
        "/.well-known/oauth-authorization-server",
        lambda base: {
            "issuer": base,
            "authorization_endpoint": "http://phishing.example/authorize",
            "registration_endpoint": f"{base}/register",
            "token_endpoint": f"{base}/token",
            "response_types_supported": ["code"],
        },
        "not https",
    ),
    "no metadata, but 500": ("/.well-known/oauth-protected-resource/mcp", None, "HTTP 500"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_about_its_sign_in_gets_nothing(guarded: SignInServer, store: TokenStore, lie: str) -> None:
    path, body, words = LIES[lie]
    guarded.instead[path] = lambda: (500, {}, {}) if body is None else (200, {}, body(guarded.base))

    async def scene() -> None:
        entry = entry_of(guarded.url)
        with pytest.raises(CellwrightError, match=words):
            await SignIn(entry, store).begin()
        assert not guarded.granted
        kept = store.load(entry)
        assert kept is None or kept.tokens is None

    run(scene())


def test_nothing_of_a_sign_in_follows_a_redirect_to_another_host(store: TokenStore) -> None:
    async def scene(guarded: SignInServer, other: SignInServer) -> None:
        entry = entry_of(guarded.url)
        guarded.instead["/register"] = lambda: (307, {"location": f"{other.base}/register"}, {})
        with pytest.raises(CellwrightError, match="not followed"):
            await SignIn(entry, store).begin()
        del guarded.instead["/register"]
        way = SignIn(entry, store)
        address = await browse(await way.begin(), on=False)
        guarded.instead["/token"] = lambda: (307, {"location": f"{other.base}/token"}, {})
        way.paste(address)
        with pytest.raises(CellwrightError, match="not followed"):
            await way.done()
        del guarded.instead["/token"]
        await sign_in(entry, store)
        guarded.instead["/mcp"] = lambda: (307, {"location": f"{other.base}/mcp"}, {})
        async with connected(entry, store) as connection:
            assert connection.state == "failed"
        assert other.requests == []

    with sign_in_server() as guarded, sign_in_server() as other:
        run(scene(guarded, other))


def test_a_client_that_is_configured_is_used_with_its_port_scopes_and_metadata(
    guarded: SignInServer, store: TokenStore, free_port: int
) -> None:
    async def scene() -> None:
        from mcp.shared.auth import OAuthClientInformationFull

        guarded.clients["mine"] = OAuthClientInformationFull.model_validate(
            {
                "client_id": "mine",
                "client_secret": "shh",
                "scope": "read write",
                "redirect_uris": [f"http://localhost:{free_port}/callback"],
                "token_endpoint_auth_method": "client_secret_basic",
            }
        )
        guarded.instead["/.well-known/oauth-protected-resource/mcp"] = lambda: (404, {}, {})
        oauth = {
            "clientId": "mine",
            "callbackPort": free_port,
            "scopes": "read write",
            "authServerMetadataUrl": f"{guarded.base}/.well-known/oauth-authorization-server",
        }
        entry = entry_of(guarded.url, oauth=oauth)
        await sign_in(entry, store, client_secret="shh")
        (asked,) = guarded.granted
        assert asked.scopes == ["read", "write"]
        assert list(guarded.clients) == ["mine"]
        assert ("POST", "/register", "") not in guarded.requests
        async with connected(entry, store) as connection:
            assert await whisper(connection) == "the secret"
        assert not store.is_known(entry_of(guarded.url)), "another client is another sign-in"

    run(scene())


def test_more_scopes_are_asked_for_with_those_there_are(guarded: SignInServer, store: TokenStore) -> None:
    async def scene() -> None:
        entry = entry_of(guarded.url)
        await sign_in(entry, store)
        header = {"www-authenticate": 'Bearer error="insufficient_scope", scope="write"'}
        async with connected(entry, store) as connection:
            assert connection.state == "connected"
            guarded.instead["/mcp"] = lambda: (403, header, {})
            with pytest.raises(ToolError, match="/mcp login guarded"):
                await whisper(connection)
            del guarded.instead["/mcp"]
            assert connection.challenge == Challenge("", "write")
            (client,) = guarded.clients.values()
            client.scope = "read write"
            await sign_in(entry, store, challenge=connection.challenge)
            assert guarded.granted[-1].scopes == ["read", "write"]

    run(scene())


def test_tokens_are_in_the_keyring_or_in_a_file_for_the_user_alone(tmp_path: Path) -> None:
    vault = Vault()
    entry = entry_of("https://example.com/mcp")
    record = SignedIn(tokens={"access_token": "tok-1"}, client={"client_secret": "sec-1"}, metadata={"issuer": "x"})

    def broken() -> Keyring:
        raise RuntimeError("locked: tok-1")

    def forgetful() -> Keyring:
        return Keyring(lambda *_: None, lambda *_: None, lambda *_: None)

    finders: dict[str, tuple[Callable[[], Keyring | None], str]] = {
        "keyring": (vault.keyring, "keyring"),
        "none": (lambda: None, "file"),
        "broken": (broken, "file"),
        "forgetful": (forgetful, "file"),
    }
    for name, (find, where) in finders.items():
        store = TokenStore(tmp_path / name, find)
        assert store.save(entry, record) == where, name
        assert store.load(entry) == record, name
        (file,) = store.folder.glob("*.json")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert ("tok-1" in file.read_text("utf-8")) is (where == "file"), name
        assert store.load(entry_of("https://example.org/mcp")) is None, "another address gets nothing"
        elsewhere = entry_of(entry.url, oauth={"authServerMetadataUrl": "https://other.example/as"})
        assert store.load(elsewhere) is None, "nor does another place to sign in at get a client's secret"
        assert store.forget(entry, client=False)
        kept = store.load(entry)
        assert kept is not None
        assert (kept.tokens, kept.client) == (None, record.client)
        assert store.forget(entry)
        assert not store.forget(entry)
        assert not list(store.folder.glob("*.json"))
    assert vault.kept == {}


def test_no_token_is_in_a_log(guarded: SignInServer, store: TokenStore, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        entry = entry_of(guarded.url)
        guarded.lifetime = 1
        with caplog.at_level(logging.DEBUG):
            way = SignIn(entry, store)
            address = await browse(await way.begin(), on=False)
            guarded.instead["/token"] = lambda: (200, {}, {"access_token": ["secret-of-mine"], "expires_in": "never"})
            way.paste(address)
            with pytest.raises(CellwrightError) as caught:
                await way.done()
            assert "secret-of-mine" not in caught.value.message
            del guarded.instead["/token"]
            await sign_in(entry, store)
            async with connected(entry, store) as connection:
                assert await whisper(connection) == "the secret"
                guarded.revoke()
                with pytest.raises(ToolError):
                    await whisper(connection)

    run(scene())
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("uvicorn"))
    for secret in ("secret-of-mine", "access-", "refresh-"):
        assert secret not in ours


def test_a_server_with_a_token_of_its_entrys_takes_no_sign_in(guarded: SignInServer, store: TokenStore) -> None:
    async def scene() -> None:
        async with connected(entry_of(guarded.url, headers={"Authorization": "Bearer x"}), store) as connection:
            assert connection.state == "failed"

    run(scene())
    for more in ({"headersHelper": "true"}, {"headers": {"authorization": "x"}}):
        assert not entry_of("https://example.com/mcp", **more).may_sign_in


def test_the_command_signs_in_and_out(guarded: SignInServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    servers = {"guarded": {"type": "http", "url": guarded.url}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "k"}
    conversation = Conversation(Host(cwd=home / "project", interface="a test", environ=environ))

    def page(text: str) -> str:
        call = CommandCall(conversation, RunOptions(), text)
        return conversation.thread.submit(_page(call)).future.result(SOON)

    try:
        assert "/mcp login guarded" in page("")
        shown = page("login guarded")
        assert f"{guarded.base}/authorize?" in shown
        assert "waiting for you" in page("")
        link = next(word for word in shown.split() if word.startswith("http"))
        address = asyncio.run(browse(link, on=False))
        assert "signed in to" in page(f"login guarded {address}")
        assert conversation.features.mcp.connections["guarded"].state == "connected"
        with pytest.raises(CellwrightError, match="No sign-in to guarded waits"):
            page(f"login guarded {address}")
        assert "Signed out of" in page("logout guarded")
        assert "needs sign-in" in page("")
        with pytest.raises(CellwrightError, match="MCP server 'other' was not found"):
            page("login other")
    finally:
        conversation.close()


async def _page(call: CommandCall) -> str:
    return (await mcp_page(call)).plain()


def test_the_command_line_signs_in_and_out(guarded: SignInServer, tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text(
        json.dumps({"mcpServers": {"guarded": {"type": "http", "url": guarded.url}}}), "utf-8"
    )
    environ = {
        **os.environ,
        "HOME": str(tmp_path),
        "CELLWRIGHT_HOME": str(tmp_path / "state"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    environ.pop("CLAUDE_CONFIG_DIR", None)
    command = [sys.executable, "-m", "cellwright.terminal.main", "mcp"]
    with subprocess.Popen(
        [*command, "login", "guarded"],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        link = next(line.strip() for line in process.stdout if line.startswith("http"))
        process.stdin.write("http://localhost/callback?code=x&state=y\n")
        process.stdin.flush()
        assert "another sign-in" in next(line for line in process.stdout if "This is not" in line)
        address = asyncio.run(browse(link, on=False))
        process.stdin.write(f"{address}\n")
        process.stdin.flush()
        assert "signed in to" in process.stdout.read()
        assert process.wait(SOON) == 0
    done = [
        subprocess.run([*command, "logout", "guarded"], cwd=tmp_path, env=environ, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert "are signed out" in done[0].stdout, done[0].stderr
    assert "not signed in" in done[1].stdout
