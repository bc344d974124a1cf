"""Requests of every kind: what the proxy lets through is always what it may be, and nothing else reaches the API."""

import json
import re
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy_calls import ADA, message
from proxy_server import ProxyServer

from cellwright.model.models import is_among
from cellwright.server.proxy.request_rules import ProxyLimits, Refusal, check
from cellwright.server.proxy.spending_ledger import UsageReader
from cellwright.testing import MessagesServer, say

KEY = "sk-ant-local-0000"
RULES = ProxyLimits(allowed_models=("claude-haiku-*",), max_tokens=500, web_tools=False, mcp=False)
PATHS = re.compile(r"/v1/(messages|messages/count_tokens|models|models/[\w.:@-]+)(\?[\w.=&:@-]*)?")

words = st.text(max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["model", "max_tokens", "messages", "stream", "fallbacks", "tools", "mcp_servers", "system"])
bodies = st.one_of(
    st.binary(max_size=40),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(fields, json_values, max_size=5).map(lambda extra: json.dumps({**message(), **extra}).encode()),
)
paths = st.one_of(
    st.sampled_from(["/v1/messages", "/v1/messages/count_tokens", "/v1/models", "/v1/models/claude-haiku-5-5"]),
    st.text(st.sampled_from("/.%2ev1messagodl?#\\:@\x00\r\n é"), max_size=24).map("/v1/".__add__),
    words,
)


def outcome(method, path, query, body):
    try:
        return check(method, path, query, body, RULES)
    except Refusal as refusal:
        return refusal


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["GET", "POST", "PUT", "DELETE"]), paths, st.dictionaries(words, words, max_size=2), bodies)
def test_what_is_checked_is_what_is_sent(method, path, query, body):
    checked = outcome(method, path, query, body)
    if isinstance(checked, Refusal):
        assert json.loads(checked.body())["type"] == "error"
        assert 400 <= checked.status < 500
        return
    assert PATHS.fullmatch(checked.path)
    sent = checked.encoded()
    if sent is None:
        assert method == "GET"
        return
    content = json.loads(sent)
    assert is_among(content["model"], RULES.allowed_models or ())
    assert not content.get("mcp_servers")
    if checked.kind == "messages":
        assert 0 <= content["max_tokens"] <= 500
        assert checked.input_tokens >= 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8), st.booleans())
def test_no_answer_breaks_the_count(chunks, streamed):
    reader = UsageReader(streamed=streamed)
    for chunk in chunks:
        reader.feed(chunk)
    reader.close()
    assert reader.billed(1.0) is None or isinstance(reader.billed(1.0), dict)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_usage_does_not_depend_on_how_the_bytes_come(data):
    events = [
        ("message_start", {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}),
        ("content_block_delta", {"type": "content_block_delta", "delta": {"text": "word " * 20}}),
        ("message_delta", {"type": "message_delta", "usage": {"output_tokens": 40, "input_tokens": None}}),
        ("message_stop", {"type": "message_stop"}),
    ]
    whole = b"".join(f"event: {name}\ndata: {json.dumps(said)}\n\n".encode() for name, said in events)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=6)))
    reader = UsageReader(streamed=True)
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        reader.feed(whole[start:end])
    assert reader.complete
    assert reader.billed(1.0) == {"input_tokens": 7, "output_tokens": 40}


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProxyServer, MessagesServer]]:
    with (
        MessagesServer(lambda _body: say("yes"), api_key=KEY) as api,
        ProxyServer(tmp_path_factory.mktemp("proxy"), api.url, KEY, allowed_models=("claude-haiku-*",)) as proxy,
    ):
        yield proxy, api


def raw(proxy: ProxyServer, request: bytes) -> bytes:
    """Send bytes, and read what comes until the other side closes or is silent."""
    answer = b""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        try:
            while part := connection.recv(65_536):
                answer += part
        except ConnectionResetError:  # it did not read what it did not want
            pass
    return answer


header_names = st.text(st.sampled_from("abcdefXY-_ :\t"), min_size=1, max_size=16)
header_values = st.text(st.characters(min_codepoint=0, max_codepoint=0x17F), max_size=24)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths, st.lists(st.tuples(header_names, header_values), max_size=4), bodies, st.booleans())
def test_no_bytes_of_a_client_reach_the_api_but_as_a_request_of_ours(between, path, headers, body, smuggle):
    proxy, api = between
    lines = [f"POST /cellwright/api/anthropic{path} HTTP/1.1", "Host: x", f"Authorization: Bearer {ADA}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += [f"Content-Length: {len(body)}", *(["Transfer-Encoding: chunked"] if smuggle else []), "Connection: close"]
    before = len(api.all_requests)
    answer = raw(proxy, "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body)
    assert KEY.encode() not in answer
    if answer:
        assert int(answer.split()[1]) in (200, 400, 401, 403, 404, 405, 413, 501), answer
    for request in api.all_requests[before:]:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.path in ("/v1/messages", "/v1/messages/count_tokens")
        assert set(request.headers) <= {
            *("host", "authorization", "content-type", "content-length", "accept", "accept-encoding", "connection"),
            *("user-agent", "anthropic-version", "anthropic-beta"),
        }
        assert is_among(request.body["model"], ("claude-haiku-*",))
