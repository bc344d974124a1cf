"""HTTP hooks against a real server on loopback."""

import json
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hook_scenes import call_fields, fire, group, hooks_of, told

from cellwright.agent.hooks.protocol import NO_HOOK_RESULT
from cellwright.config.hooks.http_and_mcp import MAX_BYTES, HookAddressRefused, check_url
from row_tables import for_each_row


class Server:
    """Answers every POST with `status`, `headers` and `body`; remembers what came."""

    def __init__(self):
        self.status, self.headers, self.body = 200, {}, b""
        self.requests = []
        server = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers.get("content-length", 0))
                server.requests.append((self.path, dict(self.headers), self.rfile.read(length)))
                self.send_response(server.status)
                for name, value in server.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(server.body)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.http.server_port}/hook"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


def post(server, tmp_path, event="PreToolUse", hook=None, **options):
    entry = {"type": "http", "url": server.url, **(hook or {})}
    hooks = hooks_of(tmp_path, {event: [group(entry)]}, **options)
    return fire(hooks, tmp_path, event, **call_fields(command="ls"))


def test_the_event_is_posted_and_the_answer_obeyed(server, tmp_path):
    server.body = json.dumps({"decision": "block", "reason": "not now"}).encode()
    said = post(server, tmp_path)
    assert (said.behavior, said.reason) == ("deny", "not now")
    (path, headers, body) = server.requests[0]
    assert path == "/hook"
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == told(tmp_path, "PreToolUse", **call_fields(command="ls"))


@pytest.mark.parametrize("status", [200, 201, 204])
def test_an_empty_answer_says_nothing(server, tmp_path, status):
    server.status = status
    server.headers = {"content-length": "0"}
    assert post(server, tmp_path) == NO_HOOK_RESULT


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (500, b'{"decision": "approve"}', "status 500"),
        (404, b"", "status 404"),
        (200, b"hello", "something else than a JSON object"),
        (200, b"[]", "something else than a JSON object"),
        (200, b"fine {not json}", "something else than a JSON object"),
        (200, b"x" * (MAX_BYTES + 1), "more than 1,000,000 bytes"),
    ],
    ids=["500", "404", "text", "list", "broken", "huge"],
)
def test_any_other_answer_is_a_failure_that_blocks_nothing(server, tmp_path, status, body, why):
    server.status, server.body = status, body
    said = post(server, tmp_path)
    assert said.behavior == ""
    assert why in said.problems[0]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b'\xef\xbb\xbf{"decision": "block", "reason": "no"}'),
        (200, '{"decision": "block", "reason": "no"}'.encode("utf-16")),
        (200, b'<pre>{"decision": "block", "reason": "no"}</pre>'),
        (200, b"{"),
        (200, b"{'decision': 'block', 'reason': 'no'}"),
        (403, b'{"decision": "block", "reason": "no"}'),
    ],
    ids=["mark", "utf-16", "page", "broken", "repr", "403"],
)
def test_a_no_is_heard_in_whatever_form_it_comes(server, tmp_path, status, body):
    server.status, server.body = status, body
    said = post(server, tmp_path)
    assert said.behavior == "deny"
    assert said.reason == "no" or "cannot be read" in said.reason


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server, tmp_path, status):
    elsewhere = Server()
    try:
        server.status, server.headers = status, {"location": elsewhere.url, "content-length": "0"}
        assert f"status {status}" in post(server, tmp_path).problems[0]
        assert elsewhere.requests == []
    finally:
        elsewhere.close()


def test_a_server_that_is_not_there_is_a_failure(tmp_path):
    gone = Server()
    gone.close()
    assert "not be reached" in post(gone, tmp_path).problems[0]


def test_a_server_that_does_not_answer_is_left(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook = {"type": "http", "url": f"http://127.0.0.1:{silent.getsockname()[1]}/", "timeout": 0.2}
        said = fire(hooks_of(tmp_path, {"Stop": [group(hook)]}), tmp_path, "Stop")
    assert "within 0.2 s" in said.problems[0]


VARIABLES = {**os.environ, "HOOK_KEY": "k-1", "OTHER_KEY": "k-2"}
HEADERS = {"Authorization": "Bearer $HOOK_KEY", "X-Other": "${OTHER_KEY}!"}


@pytest.mark.parametrize(
    ("own", "settings", "expected"),
    [
        (["HOOK_KEY"], None, ("Bearer k-1", "!")),
        (["HOOK_KEY", "OTHER_KEY"], None, ("Bearer k-1", "k-2!")),
        (["HOOK_KEY", "OTHER_KEY"], ("OTHER_KEY",), ("Bearer", "k-2!")),
        (["HOOK_KEY"], (), ("Bearer", "!")),
        ([], None, ("Bearer", "!")),
    ],
    ids=str,
)
def test_headers_hold_only_the_variables_that_are_allowed(server, tmp_path, own, settings, expected):
    hook = {"headers": HEADERS, "allowedEnvVars": own}
    post(server, tmp_path, hook=hook, environ=VARIABLES, allowed_env_vars=settings)
    headers = server.requests[0][1]
    assert (headers["authorization"].strip(), headers["x-other"]) == expected


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"a": "x\r\ny: z"}, {"a": "ä"}], ids=str)
def test_a_header_that_cannot_be_sent_sends_nothing(server, tmp_path, headers):
    said = post(server, tmp_path, hook={"headers": headers})
    assert "cannot be sent" in said.problems[0]
    assert server.requests == []


ADDRESSES = [
    ("https://hooks.example.com/a", ["https://hooks.example.com/*"], True),
    ("https://hooks.example.com/a?b=c", ["https://hooks.example.com/*"], True),
    ("https://hooks.example.com/", ["https://hooks.example.com"], True),
    ("https://a.example.com/x", ["https://*.example.com/*"], True),
    ("http://hooks.example.com/a", ["https://hooks.example.com/*"], False),
    ("https://example.com.evil.org/a", ["https://example.com*"], False),
    ("https://evil.org/hooks.example.com/", ["https://*.example.com/*"], False),
    ("https://evil.org/.example.com/a", ["https://*.example.com/*"], False),
    ("https://hooks.example.com/ok/../no", ["https://hooks.example.com/ok/*"], False),
    ("https://hooks.example.com/ok/%2e%2e/no", ["https://hooks.example.com/ok/*"], False),
    ("https://HOOKS.example.com/a", ["https://hooks.example.com/*"], True),
    ("https://hooks.example.com:8443/a", ["https://hooks.example.com/*"], False),
    ("https://hooks.example.com/a", [], False),
    ("https://hooks.example.com/a", ["["], False),
    ("http://localhost:8080/x", None, True),
    ("http://[::1]:8080/x", ["http://[::1]:8080/*"], True),
    ("https://user:pw@hooks.example.com/", None, False),
    ("file:///etc/passwd", None, False),
    ("ftp://x/", None, False),
    ("http://", None, False),
    ("http://x:99999/", None, False),
    ("nonsense", None, False),
]


@for_each_row(("url", "allowed", "expected"), ADDRESSES, ids=str)
def test_where_a_hook_may_send(url, allowed, expected):
    if expected:
        check_url(url, allowed)
    else:
        with pytest.raises(HookAddressRefused):
            check_url(url, allowed)


def test_an_address_that_is_not_allowed_gets_nothing(server, tmp_path):
    said = post(server, tmp_path, allowed_urls=("https://hooks.example.com/*",))
    assert "allowedHttpHookUrls" in said.problems[0]
    assert server.requests == []
