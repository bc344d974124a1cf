"""One suite for every way to the API: a key, directly and through a proxy, and the SDK's clients that the server serves."""

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import certifi
import pytest

from cellwright.errors import CellwrightError
from cellwright.events import Event
from cellwright.model.anthropic import AnthropicProvider
from cellwright.model.credentials import choose_transport
from cellwright.model.provider import Request
from cellwright.model.retry import Clock, RetryPolicy
from cellwright.testing import MessagesServer

SYSTEM = b'[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}]'
TOOLS = b'[{"name":"Read","description":"Read a file.","input_schema":{"type":"object","properties":{}}}]'
WAYS = ("key", "proxied", "profile", "foundry", "mantle", "aws", "vertex", "bedrock")


def write_profile(folder: Path, *, base_url: str, token: str) -> None:
    """A signed-in profile, as `ant auth login` leaves it."""
    for name, content in (
        ("configs", {"authentication": {"type": "user_oauth"}, "base_url": base_url}),
        ("credentials", {"access_token": token}),
    ):
        path = folder / name / "default.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        path.chmod(0o600)


def environment(way: str, key: str, url: str, home: Path) -> dict[str, str]:
    """What a user of this way has in the environment."""
    match way:
        case "key" | "proxied":
            return {"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": url}
        case "profile":
            write_profile(home / ".config" / "anthropic", base_url=url, token=key)
            return {}
        case "foundry":
            return {
                "CLAUDE_CODE_USE_FOUNDRY": "1",
                "ANTHROPIC_FOUNDRY_API_KEY": key,
                "ANTHROPIC_FOUNDRY_BASE_URL": f"{url}/anthropic/",
            }
        case "mantle":
            return {
                "CLAUDE_CODE_USE_MANTLE": "1",
                "AWS_BEARER_TOKEN_BEDROCK": key,
                "ANTHROPIC_BEDROCK_MANTLE_BASE_URL": f"{url}/anthropic",
            }
        case "aws":
            return {
                "CLAUDE_CODE_USE_ANTHROPIC_AWS": "true",
                "ANTHROPIC_AWS_API_KEY": key,
                "ANTHROPIC_AWS_WORKSPACE_ID": "wrkspc_1",
                "ANTHROPIC_AWS_BASE_URL": url,
            }
        case "vertex":
            return {
                "CLAUDE_CODE_USE_VERTEX": "1",
                "CLOUD_ML_REGION": "global",
                "ANTHROPIC_VERTEX_PROJECT_ID": "project-1",
                "ANTHROPIC_VERTEX_BASE_URL": f"{url}/v1",
                "ANTHROPIC_CUSTOM_HEADERS": f"Authorization: Bearer {key}",
            }
        case _:
            return {
                "CLAUDE_CODE_USE_BEDROCK": "1",
                "AWS_REGION": "us-east-1",
                "AWS_BEARER_TOKEN_BEDROCK": key,
                "ANTHROPIC_BEDROCK_BASE_URL": url,
            }


class Relay:
    """A relay before a server, which counts the connections to it. A request that names the server's whole address, as
    to a proxy, gets its path.
    """

    def __init__(self, server_url: str) -> None:
        self.connections = 0
        address = urlsplit(server_url)
        self._server = (address.hostname, address.port)
        self._whole = f" {server_url}/".encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        for opened in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                self._start(self._pass_on, client, server, self._whole)
                self._start(self._pass_on, server, client, None)

    def _pass_on(self, source: socket.socket, target: socket.socket, whole: bytes | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data.replace(whole, b" /", 1) if whole else data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def relayed(server_url: str) -> Iterator[Relay]:
    """A relay before `server_url`, closed at the end."""
    relay = Relay(server_url)
    try:
        yield relay
    finally:
        relay.close()


@dataclass
class Played:
    """What a provider gave for a request: events, and the error that ended it, if one did."""

    events: list[Event] = field(default_factory=list)
    error: CellwrightError | None = None

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Line:
    """A provider that goes to a local server, and a clock whose waits are noted down and take no time."""

    server: MessagesServer
    retry: RetryPolicy
    relay: Relay | None = None
    waits: list[float] = field(default_factory=list)
    time: float = 0.0

    def provider(self) -> AnthropicProvider:
        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)
            self.time += seconds

        clock = Clock(now=lambda: self.time, today=lambda: 1_000_000.0, sleep=sleep, chance=lambda: 0.0)
        return AnthropicProvider(choose_transport(os.environ), retry=self.retry, clock=clock)

    def stop(self) -> None:
        """Nobody is at the address any more."""
        self.server.stop()
        if self.relay is not None:
            self.relay.close()

    @staticmethod
    def request(*messages: dict[str, Any], **changed: Any) -> Request:
        """A request that asks "go", or that holds `messages`; other fields as given."""
        go = {"role": "user", "content": [{"type": "text", "text": "go"}]}
        plain: dict[str, Any] = {"model": "claude-opus-5-5", "system": SYSTEM, "tools": TOOLS, "max_tokens": 1000}
        encoded = [json.dumps(message).encode() for message in messages or (go,)]
        return Request(messages=encoded, **{**plain, **changed})

    def play(self, *requests: Request) -> Played:
        """Stream the answers to the requests, one after another, in a loop of their own."""
        return asyncio.run(self._play(requests or (self.request(),)))

    async def _play(self, requests: tuple[Request, ...]) -> Played:
        played = Played()
        async with self.provider() as provider:
            try:
                for request in requests:
                    async for event in provider.stream(request):
                        played.events.append(event)
            except CellwrightError as error:
                played.error = error
        return played


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def line(
    way: str,
    messages_server: Callable[..., MessagesServer],
    own_place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Line]]:
    """`line(script, retry=…)`: a server and a provider that goes to it, on every way; with `counts` by way of a relay."""
    # there is no TLS on any way, and each client of the SDK would read all that the system trusts: 144, in 50 ms
    end = "-----END CERTIFICATE-----\n"
    one = Path(certifi.where()).read_text("utf-8").partition(end)[0] + end
    (own_place / "one-certificate.pem").write_text(one, "utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(own_place / "one-certificate.pem"))
    with contextlib.ExitStack() as relays:

        def make(script: Any, *, retry: RetryPolicy | None = None, counts: bool = False, **options: Any) -> Line:
            server = messages_server(script, **options)
            relay = relays.enter_context(relayed(server.url)) if counts or way == "proxied" else None
            if way == "proxied":
                monkeypatch.setenv("HTTP_PROXY", relay.url)
            url = relay.url if relay is not None and way != "proxied" else server.url
            for name, value in environment(way, server.api_key, url, own_place).items():
                monkeypatch.setenv(name, value)
            return Line(server, retry or RetryPolicy(), relay)

        yield make


@pytest.fixture
def key_line(messages_server: Callable[..., MessagesServer], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Line]:
    """The same on the way of a plain key alone."""

    def make(script: Any, *, retry: RetryPolicy | None = None, **options: Any) -> Line:
        server = messages_server(script, **options)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        return Line(server, retry or RetryPolicy())

    return make
