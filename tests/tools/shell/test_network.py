"""A confined command's way to the network: the hosts it may reach, asked about while it runs, and no others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.sandbox.mechanisms import find_sandbox
from cellwright.tools.code.project_programs import ProgramExit, run_program
from cellwright.tools.process.child_processes import ChildProcesses
from cellwright.tools.shell.bash import bash_tool

SANDBOX = find_sandbox()

pytestmark = pytest.mark.skipif(SANDBOX is None or not SANDBOX.abilities.hosts, reason="hosts cannot be bounded here")


@pytest.fixture
def port() -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"tide")

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@dataclass(frozen=True)
class Outcome:
    """What Claude got of a command, and the places that the user was asked about."""

    text: str
    asked: list[str]


def run(folder: Path, command: str, *, answer: bool = False, hosts: tuple[str, ...] = (), **bounds: Any) -> Outcome:
    asked: list[str] = []

    async def may_reach(host: str, at: int) -> bool:
        asked.append(f"{host}:{at}")
        return answer

    async def scene() -> str:
        children = ChildProcesses()
        bash = bash_tool(folder, environ={"PATH": "/usr/bin:/bin", "HOME": str(folder)}, children=children)
        confinement = Confinement(read=(str(folder),), write=(str(folder),), hosts=hosts, **bounds)
        ctx = ToolContext(
            "toolu_1", lambda **_: None, session_id=str(folder), confinement=confinement, may_reach=may_reach
        )
        result = await bash.call({"command": command}, ctx)
        children.stop()
        assert isinstance(result, ToolResult)
        text = str(result.content)
        return text.partition("\n[Something of this command runs on")[0]  # a sandbox may end a moment after its command

    return Outcome(asyncio.run(asyncio.wait_for(scene(), 60)), asked)


def test_a_host_that_is_named_is_reached_and_nothing_else(tmp_path: Path, port: int) -> None:
    fetch = f"curl -sS -m 20 http://localhost:{port}/"
    reached = run(tmp_path, fetch, hosts=(f"localhost:{port}",))
    assert reached == Outcome("tide", [])
    around = run(tmp_path, f"curl -sS -m 5 --noproxy '*' http://127.0.0.1:{port}/", hosts=(f"localhost:{port}",))
    assert "Couldn't connect" in around.text or "Failed to connect" in around.text
    denied = run(tmp_path, fetch, hosts=("localhost",), denied_hosts=(f"localhost:{port}",), answer=True)
    assert "was not reached" in denied.text
    allowed = {"hosts": ("localhost",), "asked_hosts": (f"localhost:{port}",)}
    assert run(tmp_path, fetch, **allowed, answer=True) == Outcome("tide", [f"localhost:{port}"])
    assert "was not reached" in run(tmp_path, fetch, **allowed, asks_hosts=False).text


def test_a_new_host_is_asked_about_while_the_command_runs(tmp_path: Path, port: int) -> None:
    fetch = f"curl -sS -m 20 http://localhost:{port}/ && curl -sS -m 20 http://localhost:{port}/"
    yes = run(tmp_path, fetch, answer=True)
    assert yes == Outcome("tidetide", [f"localhost:{port}"])
    no = run(tmp_path, fetch)
    assert no.asked == [f"localhost:{port}"]
    assert f"localhost:{port}." in no.text


def test_where_nobody_is_to_be_asked_nobody_is(tmp_path: Path, port: int) -> None:
    strict = run(tmp_path, f"curl -sS -m 20 http://localhost:{port}/", answer=True, asks_hosts=False)
    assert strict.asked == []
    assert "was not reached" in strict.text


def test_what_goes_on_in_the_background_asks_nobody(tmp_path: Path, port: int) -> None:
    command = f"sleep 0.3; curl -sS -m 20 http://localhost:{port}/ > got; touch done"
    asked: list[str] = []

    async def may_reach(host: str, _port: int) -> bool:
        asked.append(host)
        return True

    async def scene() -> str:
        children = ChildProcesses()
        bash = bash_tool(tmp_path, environ={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, children=children)
        confinement = Confinement(read=(str(tmp_path),), write=(str(tmp_path),), hosts=())
        ctx = ToolContext(
            "toolu_1", lambda **_: None, session_id=str(tmp_path), confinement=confinement, may_reach=may_reach
        )
        await bash.call({"command": command, "run_in_background": True}, ctx)
        while not (tmp_path / "done").exists():
            await asyncio.sleep(0.01)
        children.stop()
        return (tmp_path / "got").read_text("utf-8")

    assert "was not reached" in asyncio.run(asyncio.wait_for(scene(), 60))
    assert asked == []


def test_programs_without_a_way_to_hosts_have_no_network(tmp_path: Path, port: int) -> None:
    fetch = ["curl", "-sS", "-m", "5", f"http://localhost:{port}/"]
    confinement = Confinement(read=(str(tmp_path),), write=(str(tmp_path),), hosts=(f"localhost:{port}",))

    async def scene() -> ProgramExit:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        program = run_program(
            fetch, cwd=tmp_path, environ=environ, seconds=60, progress=lambda **_: None, confinement=confinement
        )
        return await program

    ended = asyncio.run(scene())
    assert ended.exit_code == 7
