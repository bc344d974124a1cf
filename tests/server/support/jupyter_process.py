"""A real Jupyter Server in a process of its own, with kernels whose model is the strict local server."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import websocket

from forked.forked_python import jupyter_place, program_in

TOKEN = "a-token-of-tests"
SECONDS = 60.0
NUDGE_SECONDS = 1.0
QUIET_EXTENSIONS = dict.fromkeys(
    ("jupyterlab", "notebook", "jupyter_lsp", "notebook_shim", "jupyter_server_fileid", "jupyter_server_ydoc"), False
)
"""What the environment enables besides, and these tests do not need."""


@dataclass
class Reply:
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class EventReader:
    """Reads Server-Sent Events from an open answer, one by one."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.comments = 0
        self.events: list[dict[str, Any]] = []
        self._connection = connection
        self._response = response

    @property
    def run(self) -> str:
        return self.headers["cellwright-run"]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        fields: dict[str, str] = {}
        for raw in iter(self._response.readline, b""):
            line = raw.decode().rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                event = json.loads(fields["data"])
                assert (fields["event"], fields.get("id")) == (event["type"], str(event["id"]))
                self.events.append(event)
                fields = {}
                yield event

    def until(self, kind: str) -> dict[str, Any]:
        """The next event of that type."""
        for event in self:
            if event["type"] == kind:
                return event
        raise AssertionError(f"no {kind} among {[event['type'] for event in self.events]}")

    def rest(self) -> list[dict[str, Any]]:
        """All events, up to the end of the stream."""
        for _ in self:
            pass
        self.close()
        return self.events

    def read_comment(self) -> None:
        """Wait for a heartbeat."""
        while not (line := self._response.readline()).startswith(b":"):
            assert line, "the stream has ended"
        self.comments += 1

    def close(self) -> None:
        """Leave."""
        self._response.close()
        self._connection.close()


@dataclass
class JupyterServer:
    """A running server. `url` ends without a slash; paths are below its base URL."""

    url: str
    root: Path
    home: Path
    process: subprocess.Popen[bytes]
    log: Path
    readers: list[EventReader] = field(default_factory=list)

    @property
    def host(self) -> str:
        return str(urlsplit(self.url).netloc)

    def open(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str | None] | None = None
    ) -> tuple[HTTPConnection, HTTPResponse]:
        connection = HTTPConnection(self.host, timeout=SECONDS)
        said = {"Authorization": f"token {TOKEN}", **(headers or {})}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        place = f"{urlsplit(self.url).path}/{path}"
        connection.request(method, place, data, {name: value for name, value in said.items() if value is not None})
        return connection, connection.getresponse()

    def request(self, method: str, path: str, body: Any = None, **headers: str | None) -> Reply:
        """A request and the whole answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection, response = self.open(method, path, body, named)
        with contextlib.closing(connection):
            return Reply(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )

    def api(self, method: str, path: str, body: Any = None, **headers: str | None) -> Reply:
        """A request of Cellwright's interface."""
        return self.request(method, f"cellwright/api/{path}", body, **{"Accept": "application/json", **headers})

    def stream(self, method: str, path: str, body: Any = None, **headers: str | None) -> EventReader:
        """An event stream of Cellwright's interface."""
        named = {"Accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
        reader = EventReader(*self.open(method, f"cellwright/api/{path}", body, named))
        if reader.status != 200:
            raise AssertionError(f"{reader.status}: {reader._response.read()!r}")
        self.readers.append(reader)
        return reader

    def kernel(self, name: str = "python3", folder: str = "") -> str:
        """A new kernel of the server; its id."""
        reply = self.request("POST", "api/kernels", {"name": name, "path": folder})
        assert reply.status == 201, reply.body
        return str(reply.json()["id"])

    def execute(self, kernel: str, code: str, *, wait: bool = True) -> Execution:
        """Run code in a kernel as a notebook does: over the server's websocket."""
        execution = Execution(self, kernel, code)
        if wait:
            execution.wait()
        return execution

    def stop(self) -> None:
        """End it, before the block does."""
        for reader in self.readers:
            reader.close()
        _end(self.process)

    def wait_for(self, what: Callable[[], Any], why: str) -> Any:
        """Ask until it is so."""
        deadline = time.monotonic() + SECONDS
        while not (found := what()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{why}\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)  # another process: it can only be asked
        return found


class Execution:
    """Code on its way in a kernel.

    First the kernel is asked for its info until it has answered and what it publishes arrives. Jupyter Server does not
    wait for the latter where it takes a kernel to be busy, and ipykernel 7.0 to 7.3 leaves a request unread that comes
    while it answers another one, as those of Jupyter Server, until the next one comes (ipython/ipykernel#1554).
    """

    def __init__(self, server: JupyterServer, kernel: str, code: str) -> None:
        path = urlsplit(server.url).path
        self._server = server
        # as each page has: with the session of a connection that is just closing it would get that one's sockets
        self._session = uuid.uuid4().hex
        self._socket = websocket.create_connection(
            f"ws://{server.host}{path}/api/kernels/{kernel}/channels?session_id={self._session}",
            header={"Authorization": f"token {TOKEN}"},
            timeout=SECONDS,
        )
        self._wait_for_kernel()
        content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        self._id = self._send("execute_request", content)
        self._status = ""
        self.text = ""

    def printed(self, words: str) -> None:
        """Wait until the code has printed that."""
        while words not in self.text:
            self._next()

    def wait(self) -> str:
        """Wait until it has run, and leave; "ok" or "error"."""
        self.wait_reply()
        self._socket.close()
        return self._status

    def wait_reply(self) -> None:
        """Wait until it has run, and stay connected."""
        while not self._status:
            self._next()

    def _wait_for_kernel(self) -> None:
        asked, came = {self._send("kernel_info_request", {})}, set[tuple[str, str]]()
        while not (
            asked <= {parent for kind, parent in came if kind == "kernel_info_reply"} and "status" in dict(came)
        ):
            if select.select([self._socket.sock], [], [], NUDGE_SECONDS)[0]:
                message = self._read()
                came.add((message["msg_type"], message["parent_header"].get("msg_id", "")))
            else:
                asked.add(self._send("kernel_info_request", {}))

    def _send(self, kind: str, content: dict[str, Any]) -> str:
        header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": self._session}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self._socket.send(json.dumps(message))
        return header["msg_id"]

    def _read(self) -> dict[str, Any]:
        try:
            message: dict[str, Any] = json.loads(self._socket.recv())
        except (OSError, websocket.WebSocketException) as error:
            log = self._server.log.read_text()[-3000:]
            raise AssertionError(f"the websocket of the kernel ended: {error!r}\n{log}") from error
        return message

    def _next(self) -> None:
        message = self._read()
        if message["parent_header"].get("msg_id") != self._id:
            return
        if message["msg_type"] == "stream":
            self.text += message["content"]["text"]
        elif message["msg_type"] == "execute_reply":
            self._status = message["content"]["status"]


@contextlib.contextmanager
def jupyter_server(
    folder: Path,
    arguments: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    base_url: str = "/",
    extensions: Mapping[str, bool] = QUIET_EXTENSIONS,
) -> Iterator[JupyterServer]:
    """A server for as long as the block lasts."""
    root, home, log = folder / "root", folder / "home", folder / "server.log"
    root.mkdir(parents=True)
    home.mkdir()
    runtime = Path(tempfile.mkdtemp(prefix="jupyter-"))  # a socket's path has 107 bytes at most
    known = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER_", "JPY_"))}
    command = [
        *(program_in(os.environ), "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.port=0"),
        f"--ServerApp.jpserver_extensions={dict(extensions)}",
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.base_url={base_url}",
        f"--ServerApp.root_dir={root}",
        # files, since a port that is free may be another process's by the time the kernel has started
        "--KernelManager.transport=ipc",
        *arguments,
    ]
    places = {
        "HOME": str(home),
        "CELLWRIGHT_HOME": str(home / "state"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "IPYTHONDIR": str(home / "ipython"),
        **jupyter_place(os.environ),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=root,
            env={**known, **places, **(environ or {})},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        server = JupyterServer(_url(runtime, process, log), root, home, process, log)
        yield server
    finally:
        if "server" in locals():
            server.stop()
        else:
            _end(process)
        shutil.rmtree(runtime, ignore_errors=True)  # a kernel of a server that was killed may still write there


def _url(runtime: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        for info in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(OSError, ValueError):
                url = str(json.loads(info.read_text())["url"]).rstrip("/")
                connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
                connection.request("GET", f"{urlsplit(url).path}/api")
                if connection.getresponse().status == 200:
                    connection.close()
                    return url
        time.sleep(0.05)  # another process: there is nothing to wait on but its file
    raise RuntimeError(f"Jupyter Server did not start:\n{log.read_text()[-5000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None:  # it was stopped before
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
