"""Named hosts are reached by the proxy, and nothing else is: the command's network has nothing but one socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cellwright.agent.calls.confinement import Confinement
from cellwright.sandbox.resolved_bounds import ConfinementError
from confined import Confined
from eventual import eventually

FETCH = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
"""


class Answer(BaseHTTPRequestHandler):
    """Answers as a proxy would, with what it was asked for."""

    def do_GET(self) -> None:
        body = f"asked for {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def elsewhere() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        yield server.server_port


def hosts(confined: Confined) -> Confinement:
    return Confinement(read=(str(confined.root),), hosts=("example.org",))


def test_hosts_are_reached_by_the_proxy_alone(mounted: Confined, proxy_port: int, elsewhere: int) -> None:
    (mounted.root / "fetch.py").write_text(FETCH, "utf-8")
    script = (
        "python fetch.py http://example.org/a; python fetch.py http://example.org/b; "
        f"no_proxy='*' python fetch.py http://127.0.0.1:{elsewhere}/c; no_proxy='*' python fetch.py http://1.1.1.1/d"
    )
    ended = mounted.bash(script, hosts(mounted), proxy_port=proxy_port)
    assert "asked for http://example.org/a" in ended.output
    assert "asked for http://example.org/b" in ended.output
    assert "/c\n" not in ended.output
    assert "unreachable" in ended.output
    eventually(lambda: "cellwright-network" not in [thread.name for thread in threading.enumerate()])


def test_hosts_are_reached_where_changes_are_staged(mounted: Confined, proxy_port: int) -> None:
    if not mounted.sandbox.stages:
        pytest.skip("NO STAGING")
    (mounted.root / "fetch.py").write_text(FETCH, "utf-8")
    bounds = replace(hosts(mounted), write=(str(mounted.root),), protects=lambda path: path.endswith(".lock"))
    for name, made in {"page.txt": True, "page.lock": False}.items():
        ended = mounted.bash(f"python fetch.py http://example.org/a | tee {name}", bounds, proxy_port=proxy_port)
        assert "asked for http://example.org/a" in ended.output
        assert (mounted.root / name).exists() is made


def test_without_a_proxy_it_is_not_started(mounted: Confined) -> None:
    with pytest.raises(ConfinementError, match="proxy"):
        mounted.bash("true", hosts(mounted))


def test_a_program_that_is_not_there_is_told(mounted: Confined, proxy_port: int) -> None:
    ended = mounted.run(["no-such-program"], hosts(mounted), proxy_port=proxy_port)
    assert ended.code != 0
