"""The server as HTTP: connections, credentials, versions, paths, sizes, models."""

from __future__ import annotations

import socket
import threading

import pytest

from cellwright.testing import Gate, hold, say, turn


def test_a_connection_is_kept_for_the_next_request(client):
    api = client(lambda body: say("x"))
    sockets = set()
    for stream in (True, False, True):
        body = {**api.body(), "stream": stream}
        with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
            sockets.add(response.extensions["network_stream"].get_extra_info("client_addr"))
            response.read()
    assert len(sockets) == 1


def test_an_error_keeps_the_connection_too(client):
    api = client(lambda body: say("x"))
    addresses = set()
    for body in (api.body(foo=1), api.body()):
        with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
            addresses.add(response.extensions["network_stream"].get_extra_info("client_addr"))
            response.read()
    assert len(addresses) == 1


def test_requests_at_the_same_time_are_answered_at_the_same_time(client):
    gates = [Gate() for _ in range(10)]
    api = client([turn(hold(gate), say("x")) for gate in gates])
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(api.post().status_code)) for _ in gates]
    for thread in threads:
        thread.start()
    for gate in gates:
        gate.wait_until_reached()
    assert statuses == []
    for gate in gates:
        gate.open()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 10


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "x-api-key header is required"),
        ({"x-api-key": "wrong"}, "invalid x-api-key"),
        ({"authorization": "Bearer wrong"}, "Invalid bearer token"),
        ({"authorization": "Basic abc"}, "x-api-key header is required"),
    ],
)
def test_wrong_credentials(client, headers, message):
    api = client([say("x")], api_key="right")
    api.headers = {"anthropic-version": "2026-10-21"}
    response = api.post(**headers)
    assert response.status_code == 401
    assert response.json()["error"] == {"type": "authentication_error", "message": message}
    assert api.server.rejected[0].error == message


@pytest.mark.parametrize("headers", [{"x-api-key": "right"}, {"authorization": "Bearer right"}])
def test_right_credentials(client, headers):
    api = client([say("x")], api_key="right")
    api.headers = {"anthropic-version": "2023-06-01"}
    assert api.post(**headers).status_code == 200


def test_the_version_is_required(client):
    api = client([say("x")])
    del api.headers["anthropic-version"]
    assert api.error(api.body()) == "anthropic-version: header is required"
    assert "is not a valid version" in api.error(api.body(), **{"anthropic-version": "2024-01-01"})


def test_an_unknown_beta_is_named(client):
    api = client([say("x")])
    assert "Unexpected value(s) `latest`" in api.error(api.body(), **{"anthropic-beta": "latest"})


def test_an_unknown_model_is_not_found(client):
    response = client([say("x")]).post({"model": "claude-2", "max_tokens": 1, "messages": []})
    assert response.status_code == 404
    assert response.json()["error"] == {"type": "not_found_error", "message": "model: claude-2"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/messages", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/v1/messages", 404),
        ("POST", "/messages", 404),
        ("GET", "/", 404),
    ],
)
def test_other_paths_and_methods(client, method, path, status):
    api = client([say("x")])
    response = api.http.request(method, api.server.url + path, headers=api.headers)
    assert response.status_code == status
    assert response.json()["type"] == "error"
    assert api.server.requests == []
    assert api.server.all_requests[0].path == path


def test_a_request_over_32_mb_is_too_large(client):
    api = client([say("x")])
    response = api.post(b" " * (32 * 1024 * 1024 + 1))
    assert response.status_code == 413
    assert response.json()["error"]["type"] == "request_too_large"
    assert api.post().status_code == 200


def test_rate_limit_headers_count_down(client):
    api = client(lambda body: say("x"))
    first, second = (api.post().headers for _ in range(2))
    for kind in ("requests", "tokens", "input-tokens", "output-tokens"):
        name = f"anthropic-ratelimit-{kind}-remaining"
        assert int(first[f"anthropic-ratelimit-{kind}-limit"]) > int(first[name]) > int(second[name])
        assert first[f"anthropic-ratelimit-{kind}-reset"].endswith("Z")


def test_models(client):
    import anthropic

    api = client()
    with anthropic.Anthropic(base_url=api.server.url, api_key=api.server.api_key) as sdk:
        models = {model.id: model for model in sdk.models.list(limit=5)}
        assert sdk.models.retrieve("claude-opus-4-5-20251101").id == "claude-opus-4-5"
        with pytest.raises(anthropic.NotFoundError, match="model: claude-2"):
            sdk.models.retrieve("claude-2")
    opus = models["claude-opus-5-5"]
    assert (opus.max_input_tokens, opus.max_tokens, opus.line) == (1_000_000, 128_000, "opus")
    types = opus.capabilities.thinking.types
    assert (types.adaptive.supported, types.disabled.supported) == (True, False)
    assert len(models) == 18
    assert models["claude-haiku-4-5"].display_name == "Claude Haiku 4.5"
    assert len([request for request in api.server.all_requests if request.action == "models"]) == 4


def test_a_client_may_ask_before_it_sends(client):
    """`Expect: 100-continue`, as curl sends it with large bodies."""
    api = client([say("x")])
    host, port = api.server.url.removeprefix("http://").split(":")
    body = b'{"model":"claude-opus-5-5","max_tokens":9,"messages":[{"role":"user","content":"x"}]}'
    head = "\r\n".join(f"{name}: {value}" for name, value in api.headers.items())
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(
            f"POST /v1/messages HTTP/1.1\r\nhost: x\r\n{head}\r\nexpect: 100-continue\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
        )
        assert raw.recv(1000).startswith(b"HTTP/1.1 100")
        raw.sendall(body)
        assert raw.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("garbage", [b"hello\r\n\r\n", b""])
def test_what_is_no_http_is_dropped(client, garbage):
    api = client([say("x")])
    host, port = api.server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(garbage)
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(1000) == b""
    assert api.post().status_code == 200
