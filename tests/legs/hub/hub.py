"""A JupyterHub of a test's own: its processes, its users' servers, and how a user's browser and programs reach them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import websocket

SECONDS = 120.0
PASSWORD = "the-password-of-tests"
CONFIG = """
import os, sys
c.JupyterHub.bind_url = os.environ["TEST_PUBLIC"]
c.JupyterHub.hub_bind_url = os.environ["TEST_HUB"]
c.ConfigurableHTTPProxy.api_url = os.environ["TEST_PROXY_API"]
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = os.environ["TEST_PASSWORD"]
c.Authenticator.allowed_users = {"alice", "bob", "carol"}
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = os.environ["TEST_HOMES"] + "/{username}"
c.Spawner.args = ["--allow-root", "--ServerApp.jpserver_extensions={'cellwright': True, 'jupyterlab': True}"]
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.Spawner.env_keep = ["PATH", "PYTHONPATH", "LANG", "PYTHONDONTWRITEBYTECODE"]
c.JupyterHub.load_roles = [{"name": "user", "scopes": ["self"]}]

# the key is the Hub's; what users' servers get leads to the Hub's proxy, with the user's own token
c.JupyterHub.services = [
    {
        "name": "cellwright",
        "url": os.environ["TEST_SERVICE"],
        "command": [sys.executable, "-m", "cellwright.server.hub_proxy", "--config", "hub_proxy.py"],
        "environment": {
            "ANTHROPIC_API_KEY": os.environ["TEST_KEY"],
            "ANTHROPIC_BASE_URL": os.environ["TEST_UPSTREAM"],
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
    }
]
c.Spawner.environment = {
    "ANTHROPIC_BASE_URL": os.environ["TEST_SERVICE"] + "/services/cellwright/anthropic",
    "ANTHROPIC_API_KEY": lambda spawner: spawner.api_token,
}
c.Spawner.args += ["--CellwrightApp.anthropic_proxy=True", "--CellwrightApp.bash_policy=force-off"]
"""
PROXY_CONFIG = """
c.HubProxy.proxy_folder = "proxy"
c.HubProxy.allowed_models = ["claude-haiku-*"]
c.HubProxy.budget_usd_per_day = 0.01
"""


@dataclass
class User:
    """Somebody who has logged in, and whose server runs."""

    hub: Hub
    name: str
    browser: httpx2.Client
    token: str
    home: Path

    def get(self, path: str, *, of: str = "") -> httpx2.Response:
        """Ask a server with this user's token: their own, or that `of` another."""
        headers = {"authorization": f"token {self.token}"}
        return httpx2.get(f"{self.hub.url}/user/{of or self.name}/{path}", headers=headers, timeout=SECONDS)

    def kernel(self) -> str:
        headers = {"authorization": f"token {self.token}"}
        answer = httpx2.post(f"{self.hub.url}/user/{self.name}/api/kernels", headers=headers, json={}, timeout=SECONDS)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def run(self, kernel: str, code: str) -> str:
        """Run code in a kernel as a notebook does; what it prints."""
        place = f"{self.hub.url.replace('http', 'ws')}/user/{self.name}/api/kernels/{kernel}/channels"
        link = websocket.create_connection(place, header={"Authorization": f"token {self.token}"}, timeout=SECONDS)
        header = {"msg_id": f"m-{time.monotonic_ns()}", "msg_type": "execute_request", "session": "test"}
        content = {"code": f"{code}\nprint('FINIS' + 'HED')", "silent": False, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        link.send(json.dumps(message))
        text = ""
        with contextlib.closing(link):
            while "FINISHED" not in text:
                came = json.loads(link.recv())
                if came["parent_header"].get("msg_id") != header["msg_id"]:
                    continue
                if came["msg_type"] == "stream":
                    text += came["content"]["text"]
                assert came["msg_type"] != "error", came["content"]["traceback"]
        return text


@dataclass
class Hub:
    """A running hub. `url` is where browsers reach it, `service` where users' servers reach the proxy."""

    url: str
    service: str
    folder: Path
    users: dict[str, User] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return (self.folder / "hub.log").read_text()

    def log_in(self, name: str) -> User:
        """As a person does it: the form, then their server."""
        browser = httpx2.Client(base_url=self.url, follow_redirects=True, timeout=SECONDS)
        page = browser.get("/hub/login")
        xsrf = re.search(r'name="_xsrf"\s+value="([^"]+)"', page.text)
        assert xsrf, page.text
        form = {"username": name, "password": PASSWORD, "_xsrf": xsrf[1]}
        entered = browser.post("/hub/login?next=%2Fhub%2Fhome", data=form)
        assert entered.status_code == 200, entered.text
        mine = {"x-xsrftoken": browser.cookies.get("_xsrf", path="/hub/") or browser.cookies["_xsrf"]}
        mine |= {"referer": f"{self.url}/hub/home"}
        started = browser.post(f"/hub/api/users/{name}/server", headers=mine)
        assert started.status_code in (201, 202), started.text
        made = browser.post(f"/hub/api/users/{name}/tokens", headers=mine, json={})
        assert made.status_code == 201, made.text
        user = User(self, name, browser, made.json()["token"], self.folder / "homes" / name)
        wait_for(lambda: user.get("api/status").status_code == 200, f"the server of {name}", self)
        self.users[name] = user
        return user


def wait_for(what: Any, why: str, hub: Hub) -> None:
    """Ask until it is so."""
    deadline = time.monotonic() + SECONDS
    while not what():
        if time.monotonic() > deadline:
            raise AssertionError(f"{why}\n{hub.log[-5000:]}")
        time.sleep(0.1)  # other processes: they can only be asked


@contextlib.contextmanager
def running_hub(folder: Path, upstream: str, key: str) -> Iterator[Hub]:
    """A hub whose proxy asks `upstream`."""
    (folder / "homes").mkdir(parents=True)
    (folder / "jupyterhub_config.py").write_text(CONFIG)
    (folder / "hub_proxy.py").write_text(PROXY_CONFIG)
    for _ in range(5):  # a port that was free may be taken when it is used
        public, inner, api, service = (f"http://127.0.0.1:{port}" for port in free_ports(4))
        environ = {
            **os.environ,
            "HOME": str(folder),
            "TEST_PUBLIC": public,
            "TEST_HUB": inner,
            "TEST_PROXY_API": api,
            "TEST_SERVICE": service,
            "TEST_HOMES": str(folder / "homes"),
            "TEST_PASSWORD": PASSWORD,
            "TEST_KEY": key,
            "TEST_UPSTREAM": upstream,
        }
        with (folder / "hub.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "--config", "jupyterhub_config.py"],
                cwd=folder,
                env=environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            hub = Hub(public, service, folder)
            if _is_up(hub, process):
                yield hub
                return
        finally:
            _end(process)
    raise RuntimeError(f"JupyterHub did not start (5 times):\n{hub.log[-5000:]}")


def free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _is_up(hub: Hub, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx2.HTTPError):
            proxied = httpx2.get(f"{hub.service}/services/cellwright/anthropic/v1/models", timeout=60)
            if proxied.status_code == 401 and httpx2.get(f"{hub.url}/hub/api", timeout=60).status_code == 200:
                return True
        time.sleep(0.1)  # as above
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """The hub ends its proxy, its service and its users' servers; what is left goes with its group."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
