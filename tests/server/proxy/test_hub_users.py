"""The proxy as a service of a Hub: whom it lets in, and what it does without one. The Hub here answers one question."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from proxy_calls import error_of, message, send

from cellwright.conversation.core import Host
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.conversation import Conversation
from cellwright.testing import say

KEY = "sk-ant-local-0000"
USERS = {
    "token-of-ada": {"kind": "user", "name": "ada", "scopes": ["access:servers!server=ada/", "users:activity!user"]},
    "token-of-bob": {"kind": "user", "name": "bob", "scopes": ["access:services!service=cellwright"]},
    "narrow-token": {"kind": "user", "name": "ada", "scopes": ["read:users:name!user=ada"]},
    "token-of-a-service": {"kind": "service", "name": "culler", "scopes": ["access:servers"]},
    "odd-token": ["no", "user"],
}


class HubApi(BaseHTTPRequestHandler):
    """`GET /hub/api/user`, as the Hub answers it."""

    asked: list[str]

    def do_GET(self) -> None:
        token = self.headers["Authorization"].removeprefix("token ")
        self.asked.append(token)
        known = USERS.get(token)
        body = json.dumps(known if known is not None else {"status": 403}).encode()
        self.send_response(200 if known is not None and self.path == "/hub/api/user" else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Api", (HubApi,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hub/api", asked
    server.shutdown()
    thread.join(60)
    server.server_close()


@pytest.fixture
def start_service(tmp_path: Path, hub, messages_server):
    """Starts the service as the Hub does; gives its process and the API behind it."""
    running: list[subprocess.Popen[str]] = []

    def start(config: str = "", **environ: str):
        api = messages_server(lambda _body: say("from the hub"))
        file = tmp_path / "config.py"
        file.write_text(f"c.HubProxy.proxy_folder = {str(tmp_path / 'proxy')!r}\nc.HubProxy.log_level = 20\n{config}")
        places = {
            "JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:0",
            "JUPYTERHUB_SERVICE_PREFIX": "/services/cellwright/",
            "JUPYTERHUB_API_URL": hub[0],
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": api.url,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "cellwright.server.hub_proxy", "--config", str(file)],
            env={**os.environ, **places, **environ},
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process, api

    yield start
    for process in running:
        process.kill()
        process.communicate(timeout=60)


def listening(process: subprocess.Popen[str]) -> str:
    """Its URL, when it listens."""
    said = ""
    assert process.stderr is not None
    for line in process.stderr:
        said += line
        if found := re.search(r"port (\d+): requests for messages go to", line):
            assert KEY not in said
            return f"http://127.0.0.1:{found[1]}/services/cellwright/anthropic"
    raise AssertionError(said)


def log_of(file: Path, n: int) -> list[str]:
    """Whose requests went through, when there are `n` of them in the log: a line is written after its answer."""
    waiting = threading.Event()
    for _ in range(6000):
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        users = [line["user"] for line in lines if line["status"] == 200]
        if len(users) >= n:
            return users
        waiting.wait(0.01)
    raise TimeoutError(str(lines))


def test_users_of_the_hub_are_let_in_by_tokens_that_open_something(start_service, hub, tmp_path):
    process, api = start_service()
    url = listening(process)
    for token, status in (
        *(("token-of-ada", 200), ("token-of-bob", 200), ("narrow-token", 401), ("token-of-a-service", 401)),
        *(("odd-token", 401), ("nobody's", 401), (KEY, 401)),
    ):
        assert send(url, token=token).status_code == status, token
    assert [request.headers["authorization"] for request in api.requests] == [f"Bearer {KEY}"] * 2
    asked = len(hub[1])
    assert send(url, token="token-of-ada").status_code == 200
    assert send(url, token="nobody's").status_code == 401
    assert len(hub[1]) == asked  # remembered for a while, good or bad
    assert log_of(tmp_path / "proxy" / "egress.jsonl", 3) == ["ada", "bob", "ada"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_its_traits_are_those_of_users_servers(start_service):
    process, api = start_service("c.HubProxy.allowed_models = ['sonnet']\nc.HubProxy.budget_usd_per_day = 0.0")
    url = listening(process)
    assert send(url).status_code == 403
    refused = send(url, message(model="claude-sonnet-5-5"))
    assert error_of(refused)["details"]["error_code"] == "cellwright_budget_exceeded"
    assert api.requests == []


def test_a_hub_that_does_not_answer_lets_nobody_in(start_service, hub):
    process, _ = start_service(JUPYTERHUB_API_URL="http://127.0.0.1:9/hub/api")
    url = listening(process)
    assert send(url).status_code == 401


def test_other_paths_are_not_there(start_service):
    process, _ = start_service()
    url = listening(process)
    for path in ("", "/../", "/.env"):
        assert httpx2.get(url.removesuffix("/anthropic") + path, timeout=60).status_code == 404


@pytest.mark.parametrize(
    ("config", "environ", "words"),
    [
        ("", {"ANTHROPIC_API_KEY": ""}, "key is missing"),
        ("", {"ANTHROPIC_BASE_URL": "ftp://x"}, "must begin with https"),
        ("", {"CLAUDE_CODE_USE_BEDROCK": "1"}, "CLAUDE_CODE_USE_BEDROCK"),
        ("", {"CLAUDE_CODE_USE_VERTEX": "true", "ANTHROPIC_API_KEY": ""}, "CLAUDE_CODE_USE_VERTEX"),
        ("", {"ANTHROPIC_API_KEY": "", "ANTHROPIC_PROFILE": "work"}, "the SDK's sign-in"),
        ("", {"ANTHROPIC_API_KEY": "", "ANTHROPIC_CUSTOM_HEADERS": "x-api-key: k"}, "ANTHROPIC_CUSTOM_HEADERS"),
        ("c.HubProxy.anthropic_key_file = '/no/such/key'", {}, "/no/such/key"),
        ("c.HubProxy.budget_usd_per_kernel = 1.0", {}, "no kernels"),
        ("c.HubProxy.bash_policy = 'force-of'", {}, "bash_policy"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_served(start_service, config, environ, words):
    process, _ = start_service(config, **environ)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert words in said
    assert KEY not in said


def test_it_says_that_a_hub_has_to_start_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "cellwright.server.hub_proxy"],
        env={name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB_")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "service of JupyterHub" in done.stderr


def test_a_kernel_has_the_same_tools_with_the_proxy_as_without(start_service, tmp_path):
    """Where the proxy leads to Anthropic's own API, the kernel can rely on what that can do."""

    def tools(address: str) -> list[tuple[str, bool]]:
        environ = {"ANTHROPIC_API_KEY": "token-of-ada", "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": address}
        conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
        try:
            return [(tool.name, tool.defer_loading) for tool in conversation.tools.of(RunOptions())]
        finally:
            conversation.close()

    process, api = start_service(ANTHROPIC_BASE_URL="https://api.anthropic.com")
    without = tools("")
    assert tools(listening(process)) == without
    assert any(deferred for _, deferred in without)
    process, api = start_service()
    through_gateway = tools(listening(process))
    assert through_gateway == tools(api.url) != without, "what the proxy does not lead to is not relied on"
