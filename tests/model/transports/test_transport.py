"""What goes over the wire, where the key may show, and what a transport does with its connections."""

import asyncio
import json
import logging
import os
import shutil
import ssl
import subprocess
import sys
import textwrap
import threading
import traceback
from collections.abc import AsyncGenerator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.events import TurnEnd
from cellwright.model.anthropic import AnthropicProvider, connect, encode
from cellwright.model.provider import RequestOptions, request_sent
from cellwright.model.retry import Clock
from cellwright.model.transports.direct_client import DirectClient
from cellwright.model.transports.httpx_client import HttpxClient, network_failure
from cellwright.model.transports.sdk_transport import SdkTransport, with_explicit_breakpoint
from cellwright.model.transports.transport import QUICK_WAITS, READ_SECONDS, KeyTransport, paced
from cellwright.testing import fault, say, think, turn
from row_tables import for_each_row

BIG = 24_000_000
"""Bytes of a body."""

OURS = {"user-agent", "host", "content-length", "connection", "accept-encoding"}


def headers_that_matter(headers: dict[str, str]) -> dict[str, str]:
    """Without those that tell about the client's software."""
    return {name: value for name, value in headers.items() if name not in OURS and not name.startswith("x-stainless-")}


def test_both_transports_send_the_same(key_line, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Team: data\nnot a header\nAnthropic-Beta: one-2026-01-01")
    playing = key_line([say("a"), say("b")])
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    request = playing.request(
        options=RequestOptions(effort="low"), output_format={"type": "json_schema", "schema": schema}
    )

    async def ask(provider: AnthropicProvider) -> None:
        async with provider:
            assert [event async for event in provider.stream(request)]

    asyncio.run(ask(connect()))
    # the SDK's client with the same key, which it reads from the environment
    asyncio.run(ask(AnthropicProvider(SdkTransport("anthropic"))))
    by_key, by_sdk = playing.server.requests
    assert (by_key.method, by_key.path, by_key.query) == (by_sdk.method, by_sdk.path, by_sdk.query)
    assert by_key.raw == by_sdk.raw
    assert headers_that_matter(dict(by_key.headers)) == headers_that_matter(dict(by_sdk.headers))
    assert by_key.headers["authorization"] == f"Bearer {playing.server.api_key}"
    assert by_key.headers["x-team"] == "data"


def test_a_cloud_gets_the_same_request(line, way):
    """Vertex and Bedrock have the model in the path, the version in the body and the cache breakpoint on a block."""
    playing = line([say("a")])
    playing.play()
    [sent] = playing.server.requests
    whole = json.loads(encode(playing.request()))
    if way in ("vertex", "bedrock"):
        assert sent.body.pop("anthropic_version") == "2026-10-21"
        whole = with_explicit_breakpoint(whole)
        whole.pop("model")
        if way == "bedrock":
            whole.pop("stream")
        assert whole["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert sent.body == whole


def test_the_body_is_the_session_s_own_bytes(key_line):
    playing = key_line([])
    odd = b'{"content":[ {"type":"text","text":"\xc3\xa4"} ] ,"role":"user"}'
    request = playing.request()
    request = type(request)(
        model="claude-opus-5-5",
        system=b'[{"type": "text",  "text": "s"}]',
        tools=b"[]",
        messages=[odd, odd, odd],
        max_tokens=7,
        options=RequestOptions(effort="high"),
    )
    body = encode(request)
    assert body.count(odd) == 2, "one has the cache breakpoint of the request before"
    assert b'[{"type": "text",  "text": "s"}]' in body
    whole = json.loads(body)
    sent = whole.pop("messages")
    assert sent[1]["content"][-1].pop("cache_control") == {"type": "ephemeral"}
    assert sent == [json.loads(odd)] * 3
    assert whole == {
        "model": "claude-opus-5-5",
        "max_tokens": 7,
        "stream": True,
        "cache_control": {"type": "ephemeral"},
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high"},
        "system": [{"type": "text", "text": "s"}],
    }


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "qwen3-coder", "claude-3-5-haiku-20241022"])
def test_thinking_is_asked_for_only_where_it_is_understood(key_line, model):
    assert "thinking" not in json.loads(encode(key_line([]).request(model=model)))


def test_an_explicit_breakpoint_goes_to_the_last_block_that_can_have_one():
    blocks = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "", "signature": "s"}]
    body = {"messages": [{"role": "assistant", "content": blocks}], "cache_control": {"type": "ephemeral"}}
    [message] = with_explicit_breakpoint(body)["messages"]
    assert message["content"] == [{**blocks[0], "cache_control": {"type": "ephemeral"}}, blocks[1]]
    body = {"messages": [{"role": "user", "content": "a"}], "cache_control": {"type": "ephemeral"}}
    [message] = with_explicit_breakpoint(body)["messages"]
    assert message["content"] == [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]


def test_connections_stay_warm_between_turns(line):
    """Also after a failed try: one connection serves them all."""
    playing = line([say("a"), fault("status", status=529), turn(think("b"), say("c"))], counts=True)

    async def turns() -> None:
        async with playing.provider() as provider:
            for _ in range(2):
                assert [event async for event in provider.stream(playing.request())]

    asyncio.run(turns())
    assert len(playing.server.requests) == 3
    assert playing.relay.connections == 1


KEY = "sk-ant-api03-very-secret-0123456789"


class Echo(BaseHTTPRequestHandler):
    """A gateway that talks too much: its errors repeat the headers that it got."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = f"bad headers: {dict(self.headers)}"
        body = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).encode()
        self.send_response(400)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def gateway():
    server = HTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_key_shows_nowhere(key_line, gateway, caplog):
    playing = key_line([])
    caplog.set_level(logging.DEBUG)
    shown = []
    for url in (gateway, "http://127.0.0.1:9"):
        provider = connect(
            {
                "ANTHROPIC_API_KEY": KEY,
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_CUSTOM_HEADERS": f"X-Api-Key: {KEY}-other",
                "CELLWRIGHT_MAX_RETRIES": "0",
            }
        )

        async def ask(provider: AnthropicProvider = provider) -> None:
            async with provider:
                async for _ in provider.stream(playing.request()):
                    pass

        with pytest.raises(ApiError) as caught:
            asyncio.run(ask())
        error = caught.value
        shown += traceback.TracebackException.from_exception(error, capture_locals=True).format()
        shown += [repr(provider), str(error.to_json()), repr(error), repr(error.__context__), repr(error.__cause__)]
    assert "bad headers" in "".join(shown), "the gateway did answer"
    assert KEY not in "".join(shown)
    assert KEY not in caplog.text


def test_a_password_in_the_address_shows_nowhere():
    transport = KeyTransport(token="k", base_url="https://user:very-secret@gateway.example/a")
    assert repr(transport) == "KeyTransport('https://gateway.example/a')"
    assert transport.redact("said very-secret") == "said [secret]"


@pytest.mark.parametrize("key", ["sk-ant-1\nsk-ant-2", "sk-änt", "sk\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key):
    with pytest.raises(CellwrightError) as caught:
        KeyTransport(token=key)
    assert caught.value.code == ErrorCode.API_KEY_INVALID
    assert key not in str(caught.value)


def test_headers_and_addresses_that_make_no_sense_are_said_at_once():
    with pytest.raises(CellwrightError, match="ANTHROPIC_CUSTOM_HEADERS"):
        KeyTransport(token="k", custom_headers={"two words": "x"})
    with pytest.raises(CellwrightError, match="ANTHROPIC_BASE_URL"):
        KeyTransport(token="k", base_url="api.anthropic.com")


@pytest.mark.parametrize("way", ["profile"], indirect=True)
def test_a_refused_profile_token_is_read_anew(line, own_place):
    """Signed in again while the kernel runs: the SDK holds the old token until it is refused."""
    playing = line([say("a"), say("b")])
    file = own_place / ".config" / "anthropic" / "credentials" / "default.json"
    good = file.read_text()

    async def turns() -> list[str]:
        async with playing.provider() as provider:
            file.write_text(json.dumps({"access_token": "sk-ant-oat-revoked"}))
            with pytest.raises(ApiError) as caught:
                [event async for event in provider.stream(playing.request())]
            assert caught.value.code == ErrorCode.API_KEY_INVALID
            file.write_text(good)
            return [
                event.stop_reason async for event in provider.stream(playing.request()) if isinstance(event, TurnEnd)
            ]

    assert asyncio.run(turns()) == ["end_turn"]


def test_limits_come_from_the_api_and_never_fail(line, way):
    playing = line([])

    async def ask() -> list[Any]:
        async with playing.provider() as provider:
            known = await provider.model_limits("claude-haiku-4-5")
            unknown = await provider.model_limits("some/other model")
            again = await provider.model_limits("claude-haiku-4-5")
        return [known, unknown, again]

    known, unknown, again = asyncio.run(ask())
    assert (known.context_window, known.max_output, known.known) == (200_000, 64_000, True)
    assert not unknown.known
    assert again is known
    if way == "key":
        assert len([r for r in playing.server.all_requests if r.path.startswith("/v1/models/")]) == 2


def test_limits_without_a_server_are_the_table_s(key_line):
    playing = key_line([])
    playing.server.stop()
    assert asyncio.run(playing.provider().model_limits("claude-opus-5-5")).context_window == 1_000_000


def run_python(code: str) -> None:
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, env=os.environ)


def test_a_key_costs_no_import_of_the_sdk(key_line):
    key_line([say("a")])
    run_python(
        """
        import asyncio, sys
        from cellwright.model.anthropic import connect
        from cellwright.model.provider import Request

        assert not {"anthropic", "httpx2"} & set(sys.modules), "imported before it is needed"

        async def main():
            message = b'{"role": "user", "content": "go"}'
            request = Request(model="claude-opus-5-5", system=b"[]", tools=b"[]", messages=[message], max_tokens=9)
            async with connect() as provider:
                assert [event async for event in provider.stream(request)]

        asyncio.run(main())
        assert "anthropic" not in sys.modules
        """
    )


def test_plain_http_loads_no_certificates(key_line):
    """They cost 45 ms."""
    key_line([])
    run_python(
        """
        import asyncio, ssl
        from cellwright.model.anthropic import connect

        def refuse(*args, **kwargs):
            raise AssertionError("certificates were loaded")

        ssl.SSLContext.load_verify_locations = refuse
        asyncio.run(connect().prepare())
        """
    )


def test_a_certificate_that_cannot_be_verified_says_how_to_trust_it():
    error = httpx2.ConnectError("no")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    error.__cause__.verify_message = "self-signed certificate"
    failure = network_failure(error, "api.anthropic.com", 90)
    assert not failure.retryable
    assert "SSL_CERT_FILE" in failure.message


def test_a_request_that_cannot_be_sent_is_not_quoted():
    failure = network_failure(httpx2.LocalProtocolError("Illegal header value b'sk-ant-1'"), "host", 90)
    assert not failure.retryable
    assert "sk-ant-1" not in failure.message


def test_no_way_logs_its_credential(line, way, caplog):
    caplog.set_level(logging.DEBUG)
    playing = line([fault("status", status=400)])
    assert playing.play().error is not None
    assert way == "key" or "httpx2" in caplog.text
    assert playing.server.api_key not in caplog.text


BROKEN = {
    "CLAUDE_CODE_USE_VERTEX": "CLOUD_ML_REGION",
    "CLAUDE_CODE_USE_FOUNDRY": "ANTHROPIC_FOUNDRY_API_KEY",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "region",
    "ANTHROPIC_PROFILE": "not found",
}


@pytest.mark.parametrize(("variable", "words"), BROKEN.items())
def test_a_platform_without_its_settings_says_what_is_missing(key_line, monkeypatch, variable, words):
    request = key_line([]).request()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv(variable, "1")

    async def ask() -> None:
        async with connect() as provider:
            await anext(provider.stream(request))

    with pytest.raises(CellwrightError) as caught:
        asyncio.run(ask())
    assert caught.value.code == ErrorCode.API_KEY_MISSING
    assert words in caught.value.message


@for_each_row(
    ("chunks", "seconds_apart", "pauses"),
    [
        (20, 0.002, 0),  # a short answer: a call of a tool waits for nothing
        (QUICK_WAITS + 100, 0.002, 100),
        (QUICK_WAITS + 100, 0.0, 0),  # there already: it came with one read
        (QUICK_WAITS + 100, READ_SECONDS * 2, 0),  # slower than that, each is shown when it comes
    ],
)
def test_a_long_answer_that_comes_quickly_is_read_in_turns(chunks: int, seconds_apart: float, pauses: int) -> None:
    time, slept = 0.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal time
        time += seconds
        slept.append(seconds)

    async def coming() -> AsyncGenerator[bytes, None]:
        nonlocal time
        for number in range(chunks):
            time += seconds_apart
            yield b"%d " % number

    async def read() -> bytes:
        return b"".join([chunk async for chunk in paced(coming(), Clock(now=lambda: time, sleep=sleep))])

    assert asyncio.run(read()) == b"".join(b"%d " % number for number in range(chunks))
    assert slept == [READ_SECONDS] * pauses


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("NO OPENSSL: it makes the certificate of the test's server")
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "certificate.pem", folder / "key.pem"
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *name]
    subprocess.run([*command, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


def test_tls_is_verified_against_the_user_s_certificates(certificate, key_line, monkeypatch):
    request = key_line([]).request()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        writer.close()

    async def failure() -> ApiError:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": f"https://127.0.0.1:{port}"}
            async with connect(environ) as provider:
                with pytest.raises(ApiError) as caught:
                    await anext(provider.stream(request))
        return caught.value

    refused = asyncio.run(failure())
    assert (refused.code, refused.details["attempts"]) == (ErrorCode.API_NETWORK_ERROR, 1)
    assert "SSL_CERT_FILE" in refused.message
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert asyncio.run(failure()).code == ErrorCode.API_KEY_INVALID


@pytest.mark.parametrize("client_of", [DirectClient, HttpxClient])
def test_a_request_has_left_when_its_body_is_written(client_of):
    left: list[bool] = []
    left_half_way: list[bool] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(BIG // 100)
        left_half_way.extend(left)  # the rest is more than any buffer on the way holds
        await reader.readexactly(BIG - BIG // 100)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        writer.close()

    async def ask() -> bytes:
        request_sent.set(lambda: left.append(True))
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            client = await asyncio.to_thread(client_of, f"http://{host}:{port}", {}, idle_seconds=1.0)
            async with client.send("POST", "/", body=b"x" * BIG, headers={}, seconds=60) as reply:
                answer = await reply.body()
            await client.aclose()
        return answer

    assert asyncio.run(ask()) == b"{}"
    assert (left_half_way, left) == ([], [True])
