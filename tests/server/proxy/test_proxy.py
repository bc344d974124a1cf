"""The proxy of the Messages API: what goes through it, what it counts, and what it refuses."""

import json
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from proxy_calls import ADA, BOB, MODEL, ask, error_of, message, send
from proxy_server import ProxyServer

from cellwright.model.pricing import cost_usd
from cellwright.model.transports.transport import API_VERSION
from cellwright.server.proxy.proxy import BOOK_FILE, LOG_FILE
from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn

KEY = "sk-ant-local-0000"
START = Callable[..., ProxyServer]


@pytest.fixture
def start_proxy(tmp_path: Path) -> Iterator[START]:
    with ExitStack() as running:

        def start(upstream: MessagesServer | str, **rules: Any) -> ProxyServer:
            url = upstream if isinstance(upstream, str) else upstream.url
            return running.enter_context(ProxyServer(tmp_path / "proxy", url, KEY, **rules))

        yield start


def text_of(response: httpx2.Response) -> str:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    deltas = [json.loads(line).get("delta", {}) for line in lines]
    return "".join(delta.get("text", "") for delta in deltas)


def test_an_answer_comes_through_as_it_is(messages_server, start_proxy):
    api = messages_server([say("Two words."), say("Two words.")])
    proxy = start_proxy(api)
    through = send(proxy.url)
    direct = send(api.url, token=KEY, headers={"anthropic-version": API_VERSION})

    def plain(text: str) -> str:
        return text.partition("content_block_start")[2]

    assert through.status_code == 200
    assert text_of(through) == "Two words."
    assert plain(through.text) == plain(direct.text)
    assert through.headers["content-type"] == direct.headers["content-type"]
    assert through.headers["request-id"]
    assert "anthropic-ratelimit-requests-limit" in through.headers
    assert "anthropic-organization-id" not in through.headers
    assert api.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert ADA not in str(api.requests[0].headers)


def test_each_delta_comes_when_the_api_sends_it(messages_server, start_proxy):
    gate = Gate()
    api = messages_server([turn(say("first "), hold(gate), say("second"))])
    proxy = start_proxy(api)
    headers = {"authorization": f"Bearer {ADA}"}
    with httpx2.stream("POST", proxy.url + "/v1/messages", json=message(), headers=headers, timeout=60) as response:
        seen = ""
        for chunk in response.iter_text():
            seen += chunk
            if "first" in seen and not gate.is_open:
                assert "second" not in seen
                gate.open()
    assert "second" in seen


def test_what_it_cost_is_in_the_book_and_in_the_log(messages_server, start_proxy):
    usage = {"input_tokens": 1000, "output_tokens": 2000}
    api = messages_server([turn(say("Hello"), usage=usage)])
    proxy = start_proxy(api)
    secret_prompt = "the prompt that nobody may read"
    assert send(proxy.url, message(secret_prompt)).status_code == 200
    (line,) = proxy.log_of(1)
    expected = cost_usd(MODEL, usage)
    assert expected is not None
    assert line["cost_usd"] == pytest.approx(expected)
    assert (line["user"], line["kernel"], line["model"], line["status"]) == ("ada", "kernel-1", MODEL, 200)
    assert (line["input_tokens"], line["output_tokens"], line["complete"]) == (1000, 2000, True)
    assert line["request_id"].startswith("req_")
    assert line["bytes_out"] > 0
    assert line["bytes_in"] > 0
    assert proxy.spent("ada", "kernel-1").day == pytest.approx(expected)
    assert proxy.spent("bob", "kernel-2") == (0, 0)
    for name in (LOG_FILE, BOOK_FILE):
        file = proxy.folder / name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert secret_prompt.encode() not in file.read_bytes()
        assert KEY.encode() not in file.read_bytes()
        assert ADA.encode() not in file.read_bytes()


def test_an_answer_in_one_piece_is_counted_too(messages_server, start_proxy):
    api = messages_server([turn(say("Hello"), usage={"input_tokens": 10, "output_tokens": 20})])
    proxy = start_proxy(api)
    answer = send(proxy.url, message(stream=False))
    assert answer.json()["content"][0]["text"] == "Hello"
    (line,) = proxy.log_of(1)
    assert (line["output_tokens"], line["complete"]) == (20, True)


def test_a_client_that_leaves_ends_the_request_and_is_counted(messages_server, start_proxy):
    gate = Gate()
    said = turn(say("word " * 400), hold(gate), say("never sent"), usage={"input_tokens": 5000}, delta_chars=5)
    api = messages_server([said])
    proxy = start_proxy(api)
    headers = {"authorization": f"Bearer {ADA}"}
    with httpx2.stream("POST", proxy.url + "/v1/messages", json=message(), headers=headers, timeout=60) as response:
        seen = ""
        for chunk in response.iter_text():
            seen += chunk
            if seen.count("word ") == 400:
                break
    api.wait_for_disconnect(timeout=60)
    (line,) = proxy.log_of(1)
    assert not line["complete"]
    assert line["input_tokens"] == 5000
    assert line["output_tokens"] > 100  # estimated by what was sent: message_start says only 1 or so
    assert line["cost_usd"] > 0
    assert proxy.spent("ada").day == pytest.approx(line["cost_usd"])


def test_an_error_of_the_api_comes_back_with_its_headers(messages_server, start_proxy):
    api = messages_server([fault("status", status=529, retry_after=7), fault("status", status=429, retry_after_ms=3)])
    proxy = start_proxy(api)
    overloaded = send(proxy.url)
    assert (overloaded.status_code, overloaded.headers["retry-after"]) == (529, "7")
    assert error_of(overloaded)["type"] == "overloaded_error"
    assert send(proxy.url).headers["retry-after-ms"] == "3"
    assert [line["cost_usd"] for line in proxy.log_of(2)] == [0, 0]


def test_a_key_that_the_api_refuses_is_the_administrators_matter(messages_server, start_proxy):
    api = messages_server([], api_key="another-key-of-the-api")
    answer = send(start_proxy(api).url)
    assert answer.status_code == 502
    assert answer.headers["x-should-retry"] == "false"
    assert "administrator" in error_of(answer)["message"]
    assert KEY not in answer.text


def test_an_api_that_echoes_the_key_does_not_give_it_away(messages_server, start_proxy):
    api = messages_server([fault("status", status=400, body=json.dumps({"type": "error", "error": {"message": KEY}}))])
    answer = send(start_proxy(api).url)
    assert answer.status_code == 400
    assert KEY not in answer.text


def test_a_redirect_is_not_followed(messages_server, start_proxy):
    other = messages_server([say("elsewhere")])
    api = messages_server([fault("status", status=302, headers={"location": other.url + "/v1/messages"})])
    assert send(start_proxy(api).url).status_code == 502
    assert other.all_requests == []


def test_a_stream_that_breaks_off_says_so(messages_server, start_proxy):
    api = messages_server([fault("cut", after=3)])
    proxy = start_proxy(api)
    answer = send(proxy.url)
    assert "event: error" in answer.text
    assert "cut" in answer.text.rpartition("event: error")[2]
    (line,) = proxy.log_of(1)
    assert not line["complete"]


def test_an_api_that_is_not_there_is_said(start_proxy, unused_port):
    proxy = start_proxy(f"http://127.0.0.1:{unused_port}")
    answer = send(proxy.url)
    assert answer.status_code == 502
    assert answer.headers["x-should-retry"] == "true"
    assert proxy.spent("ada").day == 0


@pytest.fixture
def unused_port() -> Iterator[int]:
    with socket.socket() as taken:  # bound and not listening: a connection is refused as long as it is open
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("token", ["", "token-of-eve", KEY, "token-of-ada ", "x" * 5000])
def test_other_tokens_open_nothing(messages_server, start_proxy, token):
    if token.strip() == ADA:
        token = ADA + "\u00a0"
    api = messages_server([say("no")])
    proxy = start_proxy(api)
    headers = {"x-api-key": token} if token.isascii() else {}
    answer = httpx2.post(proxy.url + "/v1/messages", json=message(), headers=headers, timeout=60)
    assert answer.status_code == 401
    assert error_of(answer)["type"] == "authentication_error"
    assert api.all_requests == []


def test_a_body_from_nobody_is_not_read(start_proxy, messages_server):
    proxy = start_proxy(messages_server([]))
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as connection:
        head = "POST /cellwright/api/anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(12) == b"HTTP/1.1 401"


def test_both_ways_of_giving_a_key_work(messages_server, start_proxy):
    proxy = start_proxy(messages_server([say("one")]))
    answer = httpx2.post(proxy.url + "/v1/messages", json=message(), headers={"x-api-key": BOB}, timeout=60)
    assert answer.status_code == 200
    assert proxy.log_of(1)[0]["user"] == "bob"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/messages/batches"),
        ("GET", "/v1/files"),
        ("POST", "/v1/organizations/api_keys"),
        ("GET", "/v1/models/../files"),
        ("GET", "/v1/models/%2e%2e/files"),
        ("GET", "/v1/models/..%2ffiles"),
        ("GET", "//v1/models"),
        ("GET", "/v1/models/"),
        ("GET", "/v1/models/a%0d%0aX-Evil:%201"),
        ("GET", "/v1/models/a%3Fb=c"),
        ("GET", "/http://169.254.169.254/latest/meta-data"),
        ("POST", "/v1/messages%00"),
        ("POST", "/v1/messages/"),
        ("POST", ""),
        ("DELETE", "/v1/messages"),
        ("GET", "/v1/messages"),
        ("PUT", "/v1/models"),
    ],
)
def test_no_other_path_goes_through(messages_server, start_proxy, method, path):
    api = messages_server([say("no")])
    proxy = start_proxy(api)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as connection:
        head = f"{method} /cellwright/api/anthropic{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADA}\r\n"
        connection.sendall(f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.split()[1] in (b"400", b"404", b"405"), answer
    assert api.all_requests == []


def test_an_absolute_address_in_the_request_line_leads_nowhere_else(messages_server, start_proxy):
    other = messages_server([say("elsewhere")])
    api = messages_server([say("here")])
    proxy = start_proxy(api)
    body = json.dumps(message()).encode()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as connection:
        head = f"POST {other.url}/cellwright/api/anthropic/v1/messages HTTP/1.1\r\nHost: {other.url[7:]}\r\n"
        head += f"Authorization: Bearer {ADA}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)
        while connection.recv(65536):
            pass
    assert other.all_requests == []


def test_of_the_clients_headers_only_two_go_on(messages_server, start_proxy):
    api = messages_server([say("one")])
    proxy = start_proxy(api)
    sent = {
        "anthropic-beta": "context-management-2025-06-27",
        "cookie": "session=of-jupyter",
        "x-forwarded-for": "10.0.0.1",
        "host": "evil.example",
        "workspace-id": "another",
        "te": "trailers",
        "connection": "keep-alive, x-secret",
        "x-secret": "hop",
        "user-agent": "curl",
        "accept-encoding": "gzip",
    }
    assert send(proxy.url, headers=sent).status_code == 200
    got = api.requests[0].headers
    assert got["anthropic-beta"] == sent["anthropic-beta"]
    assert got["user-agent"] == "cellwright-proxy"
    assert got["host"] == api.url.removeprefix("http://")
    assert not {"cookie", "x-forwarded-for", "workspace-id", "te", "x-secret", "x-api-key"} & set(got)


def test_models_that_are_not_allowed_are_neither_listed_nor_asked(messages_server, start_proxy):
    api = messages_server([say("from haiku")])
    proxy = start_proxy(api, allowed_models=("claude-haiku-*",))
    listed = {each["id"] for each in ask(proxy.url, "/v1/models").json()["data"]}
    assert MODEL in listed
    assert all(name.startswith("claude-haiku-") for name in listed)
    assert ask(proxy.url, f"/v1/models/{MODEL}").json()["id"] == MODEL
    assert ask(proxy.url, "/v1/models/claude-opus-5-5").status_code == 404
    no = send(proxy.url, message(model="claude-opus-5-5"))
    assert (no.status_code, error_of(no)["type"]) == (403, "permission_error")
    assert "claude-haiku-*" in error_of(no)["message"]
    assert send(proxy.url).status_code == 200
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    "way",
    [
        {"fallbacks": [{"model": "claude-opus-5-5"}]},
        {"fallbacks": "default"},
        {"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-5-5"}]},
    ],
    ids=["fallbacks", "default fallbacks", "an advisor"],
)
def test_no_way_around_to_another_model(messages_server, start_proxy, way):
    api = messages_server([say("no")])
    assert send(start_proxy(api, allowed_models=("haiku",)).url, message(**way)).status_code == 403
    assert api.requests == []


def test_a_key_that_stands_twice_means_one_thing(messages_server, start_proxy):
    api = messages_server([say("one")])
    proxy = start_proxy(api, allowed_models=("haiku",))
    body = json.dumps(message()).encode()
    twice = b'{"model": "claude-opus-5-5", ' + body[1:]
    assert send(proxy.url, twice).status_code == 200
    assert api.requests[0].raw.count(b'"model"') == 1
    assert api.requests[0].body["model"] == MODEL


def test_web_tools_and_mcp_can_be_forbidden(messages_server, start_proxy):
    api = messages_server([say("no")])
    proxy = start_proxy(api, web_tools=False, mcp=False)
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert send(proxy.url, message(tools=[search])).status_code == 403
    assert send(proxy.url, message(mcp_servers=[{"type": "url", "url": "https://x"}])).status_code == 403
    assert api.requests == []


def test_max_tokens_are_capped(messages_server, start_proxy):
    api = messages_server([say("one")])
    assert send(start_proxy(api, max_tokens=500).url, message(max_tokens=9000)).status_code == 200
    assert api.requests[0].body["max_tokens"] == 500


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"model": 3}', b'{"model": "m", "max_tokens": NaN}', b"\xff", b"[" * 100_000, b'"' * 3],
)
def test_what_is_no_request_gets_no_further(messages_server, start_proxy, body):
    api = messages_server([say("no")])
    answer = send(start_proxy(api).url, body)
    assert (answer.status_code, error_of(answer)["type"]) == (400, "invalid_request_error")
    assert api.all_requests == []


def test_a_request_that_is_too_large_is_refused(messages_server, start_proxy):
    api = messages_server([say("no")])
    proxy = start_proxy(api, max_request_bytes=10_000)
    declared = send(proxy.url, message("x" * 20_000))
    assert (declared.status_code, error_of(declared)["type"]) == (413, "request_too_large")
    assert api.all_requests == []


def test_tokens_are_counted_without_a_cost(messages_server, start_proxy):
    api = messages_server([])
    proxy = start_proxy(api, budget_usd_per_day=0.0)
    body = {name: value for name, value in message().items() if name not in ("stream", "max_tokens")}
    answer = send(proxy.url, body, path="/v1/messages/count_tokens")
    assert answer.json()["input_tokens"] > 0
    assert proxy.spent("ada").day == 0


def test_many_requests_in_a_minute_or_at_once_have_to_wait(messages_server, start_proxy):
    gate = Gate()
    api = messages_server([turn(hold(gate), say("one")), say("two")])
    proxy = start_proxy(api, concurrent_requests=1)
    headers = {"authorization": f"Bearer {ADA}"}
    with httpx2.stream("POST", proxy.url + "/v1/messages", json=message(), headers=headers, timeout=60) as first:
        api.wait_for_requests(1)
        no = send(proxy.url)
        assert (no.status_code, no.headers["retry-after"], error_of(no)["type"]) == (429, "1", "rate_limit_error")
        assert send(proxy.url, token=BOB).status_code == 200
        gate.open()
        first.read()
    proxy.log_of(3)


def test_a_minutes_requests_are_counted_for_each_user(messages_server, start_proxy):
    proxy = start_proxy(messages_server([say("one"), say("two")]), requests_per_minute=1)
    assert send(proxy.url).status_code == 200
    no = send(proxy.url)
    assert no.status_code == 429
    assert 1 <= int(no.headers["retry-after"]) <= 60
    assert send(proxy.url, token=BOB).status_code == 200
