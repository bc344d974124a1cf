"""A raw HTTP client for the local Messages API: what it sends is exactly what a test says."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cellwright.testing import MessagesServer

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves a test's own folder out

VERSION = "2026-10-21"
HELLO = {"role": "user", "content": "Hello"}


@dataclass
class Client:
    """Sends requests to one server and reads its events."""

    server: MessagesServer
    http: httpx2.Client
    headers: dict[str, str] = field(default_factory=dict)

    def body(self, **changes: Any) -> dict[str, Any]:
        """A valid request with these fields; a value of None takes the field out."""
        body = {"model": "claude-opus-5-5", "max_tokens": 1000, "messages": [HELLO], **changes}
        return {name: value for name, value in body.items() if value is not None}

    def post(self, body: Any = None, path: str = "/v1/messages", **headers: str) -> httpx2.Response:
        data = body if isinstance(body, bytes) else json.dumps(self.body() if body is None else body).encode()
        return self.http.post(self.server.url + path, content=data, headers={**self.headers, **headers})

    def get(self, path: str) -> httpx2.Response:
        return self.http.get(self.server.url + path, headers=self.headers)

    def error(self, body: Any, **headers: str) -> str:
        """The message of the API error that a request is answered with."""
        response = self.post(body, **headers)
        assert response.status_code == 400, response.text
        answer = response.json()
        assert answer["type"] == "error"
        assert answer["error"]["type"] == "invalid_request_error"
        assert answer["request_id"] == response.headers["request-id"]
        return str(answer["error"]["message"])

    def events(self, body: Any = None, **headers: str) -> list[dict[str, Any]]:
        """The events of a streamed answer; the name of each is its data's type."""
        response = self.post({**(self.body() if body is None else body), "stream": True}, **headers)
        assert response.status_code == 200, response.text
        return parse_sse(response.text)


def parse_sse(text: str) -> list[dict[str, Any]]:
    events = []
    for frame in text.split("\n\n")[:-1]:
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


@pytest.fixture
def client(messages_server: Callable[..., MessagesServer]) -> Iterator[Callable[..., Client]]:
    """Starts a server for a script and gives a client of it."""
    # without TLS there is nothing to verify, and an SSL context takes 40 ms
    with httpx2.Client(timeout=60, trust_env=False, verify=False) as http:

        def connect(script: Any = (), **options: Any) -> Client:
            server = messages_server(script, **options)
            return Client(server, http, {"x-api-key": server.api_key, "anthropic-version": VERSION})

        yield connect
