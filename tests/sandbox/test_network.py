"""The proxy of confined commands, over real HTTP and TLS on this machine, with curl as the command."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from cellwright.agent.calls.approval import Confinement
from cellwright.permissions.rules.domain_pattern import Address, AddressProblem, read_host
from cellwright.sandbox.network import HostBounds, NetworkProxy, ProxyAccess
from cellwright.sandbox.resolved_bounds import ConfinementError
from confined import Confined
from eventual import eventually
from row_tables import for_each_row

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")

FETCH = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
"""


@dataclass
class Web:
    """Servers of this machine that the names of the test lead to; `seen` are the requests they got."""

    http_port: int
    https_port: int
    certificate: Path
    seen: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)

    async def resolve(self, host: str, _port: int) -> list[str]:
        self.resolved.append(host)
        return [self.addresses.get(host, "127.0.0.1")]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    seen: list[tuple[str, str, Mapping[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            seen.append((self.command, self.path, dict(self.headers), body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"tide " * 100_000 if self.path == "/long" else b"tide")

        do_POST = do_GET

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("a.example").configure_cert(context)
    servers[1].socket = context.wrap_socket(servers[1].socket, server_side=True)
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    http_port, https_port = (server.server_address[1] for server in servers)
    yield Web(http_port, https_port, tmp_path / "authority.pem", seen)
    for server in servers:
        server.shutdown()
        server.server_close()


def on_this_machine(address: Address) -> bool:
    """Take what the tests serve for the public internet."""
    return str(address) == "127.0.0.1"


async def curl(access: ProxyAccess, *arguments: str) -> tuple[int, str]:
    """The exit code of curl, and what it printed: the body and the status."""
    environ = {"PATH": "/usr/bin:/bin", **access.environ}
    process = await asyncio.create_subprocess_exec(
        *("curl", "-sS", "-m", "20", "-w", "|%{http_code}", *arguments),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 60))


def test_an_allowed_host_is_reached_in_the_clear_and_encrypted(web: Web) -> None:
    async def scene() -> None:
        proxy = NetworkProxy(web.resolve, on_this_machine)
        access = await proxy.admit(HostBounds.of(["a.example", "*.b.example"], [], None))
        assert await curl(access, f"http://x.b.example:{web.http_port}/page?q=1") == (0, "tide|200")
        assert await curl(access, "-d", "salt", f"http://a.example:{web.http_port}") == (0, "tide|200")
        encrypted = f"https://a.example:{web.https_port}/long"
        assert (await curl(access, "--cacert", str(web.certificate), encrypted)) == (0, "tide " * 100_000 + "|200")
        access.close()

    play(scene)
    (method, path, headers, _), (posted, _, _, body), (_, long, _, _) = web.seen
    assert (method, path, posted, body, long) == ("GET", "/page?q=1", "POST", b"salt", "/long")
    assert headers["Host"] == f"x.b.example:{web.http_port}"
    assert not [name for name in headers if name.lower().startswith("proxy-")]


@for_each_row(
    ("allowed", "denied", "host"),
    [
        (["a.example"], [], "b.example"),
        (["a.example"], [], "sub.a.example"),
        (["*.example"], ["b.example"], "b.example"),
        (["*.a.example"], [], "a.example"),
        (["a.example:1"], [], "a.example"),
        ([], [], "a.example"),
    ],
)
def test_other_hosts_are_refused_and_their_names_not_looked_up(
    web: Web, allowed: list, denied: list, host: str
) -> None:
    async def scene() -> None:
        proxy = NetworkProxy(web.resolve, on_this_machine)
        access = await proxy.admit(HostBounds.of(allowed, denied, None))
        code, output = await curl(access, f"http://{host}:{web.http_port}/")
        assert (code, output[-4:]) == (0, "|403")
        assert f"{host}:{web.http_port} was not reached" in output
        code, output = await curl(access, f"https://{host}:{web.https_port}/")
        assert code == 56
        assert access.refused == [f"{host}:{web.http_port}", f"{host}:{web.https_port}"]
        access.close()

    before = len(web.resolved)
    play(scene)
    assert len(web.resolved) == before
    assert web.seen == []


def test_a_new_host_is_asked_about_once_in_a_command(web: Web) -> None:
    asked: list[tuple[str, int]] = []

    async def ask(host: str, port: int) -> bool:
        asked.append((host, port))
        await asyncio.sleep(0)
        return host == "yes.example"

    async def scene() -> None:
        proxy = NetworkProxy(web.resolve, on_this_machine)
        access = await proxy.admit(HostBounds.of(["a.example"], ["never.example"], ask))
        yes, no, never = (f"http://{host}.example:{web.http_port}/" for host in ("yes", "no", "never"))
        answers = await asyncio.gather(*(curl(access, yes) for _ in range(3)))
        assert answers == [(0, "tide|200")] * 3
        assert [output[-3:] for _, output in [await curl(access, no), await curl(access, no)]] == ["403", "403"]
        assert (await curl(access, never))[1].endswith("403")
        access.close()

    play(scene)
    assert asked == [("yes.example", web.http_port), ("no.example", web.http_port)]


@for_each_row(
    ("allowed", "host", "reached"),
    [
        ("inner.example", "inner.example", False),
        ("*.example", "inner.example", False),
        ("*", "127.0.0.1", False),
        ("inner.example:PORT", "inner.example", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("localhost", "localhost", True),
        ("localhost:PORT", "LOCALHOST.", True),
    ],
)
def test_what_is_private_is_reached_where_it_is_named_plainly(web: Web, allowed: str, host: str, reached: bool) -> None:
    async def scene() -> None:
        proxy = NetworkProxy(web.resolve)
        bounds = HostBounds.of([allowed.replace("PORT", str(web.http_port))], [], None)
        access = await proxy.admit(bounds)
        _, output = await curl(access, f"http://{host}:{web.http_port}/")
        assert output.endswith("200" if reached else "403"), output
        assert reached or "not on the public internet" in output
        access.close()

    play(scene)


def test_nobody_else_can_use_it_and_it_ends_with_the_last_command(web: Web) -> None:
    async def scene() -> None:
        proxy = NetworkProxy(web.resolve, on_this_machine)
        first = await proxy.admit(HostBounds.of(["a.example"], [], None))
        second = await proxy.admit(HostBounds.of(["b.example"], [], None))
        assert first.port == second.port
        target = f"http://a.example:{web.http_port}/"
        bare = f"http://127.0.0.1:{first.port}"
        assert (await curl(first, "--proxy", bare, target))[1].endswith("407")
        assert (await curl(first, "--proxy", bare, "--proxy-user", "command:guess", target))[1].endswith("407")
        assert (await curl(second, target))[1].endswith("403")
        first.close()
        assert (await curl(first, target))[1].endswith("407")
        assert proxy.listens
        second.close()
        assert not proxy.listens
        assert (await curl(second, target))[0] == 7
        again = await proxy.admit(HostBounds.of(["a.example"], [], None))
        assert await curl(again, target) == (0, "tide|200")
        again.close()

    play(scene)


def test_the_end_of_a_command_ends_its_connections_and_its_question(web: Web) -> None:
    async def scene() -> None:
        asked, withdrawn = asyncio.Event(), asyncio.Event()

        async def ask(_host: str, _port: int) -> bool:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()
            return True

        reached = asyncio.Event()

        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            reached.set()
            await reader.read()
            writer.close()

        silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        proxy = NetworkProxy(web.resolve, on_this_machine)
        access = await proxy.admit(HostBounds.of(["a.example"], [], ask))
        open_one = asyncio.ensure_future(curl(access, f"http://a.example:{port}/"))
        await reached.wait()
        waiting = asyncio.ensure_future(curl(access, f"http://b.example:{web.http_port}/"))
        await asked.wait()
        access.close()
        assert [code for code, _ in (await waiting, await open_one)] == [52, 52]
        await withdrawn.wait()
        silent.close()

    play(scene)


@for_each_row(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET https://a.example/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET ftp://a.example/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://u@a.example/ HTTP/1.1\r\n\r\n", b"400"),
        (b"CONNECT a.example:99999 HTTP/1.1\r\n\r\n", b"400"),
        (b"CONNECT a.example/x:443 HTTP/1.1\r\n\r\n", b"400"),
        (b"CONNECT 0x7f000001:443 HTTP/1.1\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"GET http://a.example/ HTTP/3\r\n\r\n", b"505"),
        (b"GET http://a.example/ HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET http://a.example/ HTTP/1.1\r\nProxy-Authorization: Basic !!\r\n\r\n", b"407"),
        (b"GET http://a.example/ HTTP/1.1\r\nProxy-Authorization: Bearer x\r\n\r\n", b"407"),
    ],
)
def test_what_is_no_request_of_a_command_is_answered_and_goes_nowhere(sent: bytes, status: bytes) -> None:
    async def scene() -> None:
        proxy = NetworkProxy()
        access = await proxy.admit(HostBounds.of(["*"], [], None))
        reader, writer = await asyncio.open_connection("127.0.0.1", access.port)
        writer.write(sent)
        answer = await reader.readline()
        assert answer.split(b" ")[1] == status
        writer.close()
        access.close()

    play(scene)


def test_a_host_that_does_not_answer_or_has_no_name_is_a_bad_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def nowhere(host: str, _port: int) -> list[str]:
        if host == "none.example":
            raise OSError("no such name")
        return ["127.0.0.1"]

    async def scene() -> None:
        proxy = NetworkProxy(nowhere, on_this_machine)
        access = await proxy.admit(HostBounds.of(["*"], [], None))
        for host, why in (("none.example", "cannot be resolved"), ("a.example", "cannot be reached")):
            _, output = await curl(access, f"http://{host}:{port}/")
            assert why in output
            assert output.endswith("502")
        access.close()

    play(scene)


@for_each_row(
    ("text", "host", "port", "matches"),
    [
        ("a.example", "a.example", 1, True),
        ("A.Example.", "a.example", 1, True),
        ("a.example:443", "a.example", 443, True),
        ("a.example:443", "a.example", 80, False),
        ("*.a.example", "b.c.a.example", 80, True),
        ("*.a.example", "xa.example", 80, False),
        ("*", "a.example", 80, True),
        ("[::1]:80", "[::1]", 80, True),
        ("10.0.0.1", "10.0.0.1", 80, True),
        ("bücher.example", "xn--bcher-kva.example", 80, True),
    ],
)
def test_hosts_are_compared_label_by_label(text: str, host: str, port: int, matches: bool) -> None:
    assert read_host(text).matches(host, port) is matches


@pytest.mark.parametrize(
    "text", ["", "https://a.example", "a.example/x", "a.example:0", "a.example:x", "u@a.example", "a b"]
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(AddressProblem):
        read_host(text)


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
