"""Requests as kernels send them through the proxy."""

from __future__ import annotations

import json
from typing import Any

import httpx2

ADA, BOB = "token-of-ada", "token-of-bob"
MODEL = "claude-haiku-5-5"


def message(
    text: str = "Hello", *, model: str = MODEL, stream: bool = True, max_tokens: int = 1000, **more: Any
) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": max_tokens,
        "stream": stream,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


def send(
    url: str, body: Any = None, *, token: str = ADA, path: str = "/v1/messages", **options: Any
) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(message() if body is None else body).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json", **options.pop("headers", {})}
    return httpx2.post(url + path, content=content, headers=headers, timeout=60, **options)


def ask(url: str, path: str, *, token: str = ADA, **options: Any) -> httpx2.Response:
    return httpx2.get(url + path, headers={"authorization": f"Bearer {token}"}, timeout=60, **options)


def error_of(response: httpx2.Response) -> dict[str, Any]:
    """The error of an answer, whose form is the API's."""
    body = response.json()
    assert body["type"] == "error", body
    return body["error"]
