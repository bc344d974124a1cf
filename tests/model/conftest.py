"""One suite for every way to the API: a key over httpx2, and each of the SDK's clients that the local server serves."""

import asyncio
import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
WAYS = ("key", "profile", "foundry", "mantle", "aws", "vertex", "bedrock")


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


def environment(way: str, server: MessagesServer, home: Path) -> dict[str, str]:
    """What a user of this way has in the environment."""
    key, url = server.api_key, server.url
    match way:
        case "key":
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
    waits: list[float] = field(default_factory=list)
    time: float = 0.0

    def provider(self) -> AnthropicProvider:
        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)
            self.time += seconds

        clock = Clock(now=lambda: self.time, today=lambda: 1_000_000.0, sleep=sleep, chance=lambda: 0.0)
        return AnthropicProvider(choose_transport(os.environ), retry=self.retry, clock=clock)

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
    if request.param == "bedrock" and importlib.util.find_spec("botocore") is None:
        pytest.skip("NO BOTOCORE: install the extra `bedrock` to test Bedrock's event stream")
    return str(request.param)


@pytest.fixture
def line(
    way: str,
    messages_server: Callable[..., MessagesServer],
    own_place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Line]:
    """`line(script, retry=…)`: a server and a provider that goes to it, on every way."""

    def make(script: Any, *, retry: RetryPolicy | None = None, **options: Any) -> Line:
        server = messages_server(script, **options)
        for name, value in environment(way, server, own_place).items():
            monkeypatch.setenv(name, value)
        return Line(server, retry or RetryPolicy())

    return make


@pytest.fixture
def key_line(messages_server: Callable[..., MessagesServer], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Line]:
    """The same on the way of a plain key alone."""

    def make(script: Any, *, retry: RetryPolicy | None = None, **options: Any) -> Line:
        server = messages_server(script, **options)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        return Line(server, retry or RetryPolicy())

    return make
