"""The network of commands that may reach named hosts alone: an HTTP proxy outside, and one way to it out of the sandbox.

The proxy listens on 127.0.0.1 while a command runs that may use it. Each command has a secret of its own in the address of
its proxy, so that other programs of this machine cannot use it, and the proxy knows whose bounds hold. Names are resolved
here, after they were judged, and the connection goes to the address that was judged. What is encrypted is not opened: the
bound is on machines, not on what is said to them.

The command's network has nothing but itself. Before the command begins, a socket is opened there, on the proxy's port,
and handed out to us; who connects to it is connected to the proxy, which decides about the host. Nothing runs inside for
that, and nothing inside could leave it out. A port would bound nothing: whoever listens on it, anywhere, could be reached.
"""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import hmac
import ipaddress
import secrets
import socket
import sys
import threading
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.permissions.rules.domain_pattern import (
    Address,
    AddressProblem,
    HostPattern,
    is_public,
    names_itself,
    normal_host,
    read_host,
)

LOCALHOST = "127.0.0.1"

_HOP_BY_HOP = frozenset({b"proxy-authorization", b"proxy-connection", b"connection", b"keep-alive"})
_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

AskHost = Callable[[str, int], Awaitable[bool]]

_OPEN_SOCKET = """
import array, os, socket, sys
to_us, port = (int(word) for word in sys.argv[1:3])
listening = socket.create_server(("127.0.0.1", port))
rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listening.fileno()]))
with socket.socket(fileno=os.dup(to_us)) as outside:
    outside.sendmsg([b"."], [rights])
listening.close()
os.set_inheritable(to_us, True)
os.execvp(sys.argv[3], sys.argv[3:])
"""

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class HostBounds(Struct, frozen=True):
    """The hosts that a command may reach.

    `ask` is asked about those that no list names, and about those among `asked`; None: nobody is.
    """

    allowed: tuple[HostPattern, ...] = ()
    denied: tuple[HostPattern, ...] = ()
    asked: tuple[HostPattern, ...] = ()
    ask: AskHost | None = None

    @classmethod
    def of(
        cls, allowed: Sequence[str], denied: Sequence[str], ask: AskHost | None, asked: Sequence[str] = ()
    ) -> HostBounds:
        """The bounds that the lists of a confinement name. Raises AddressProblem."""
        return cls(tuple(map(read_host, allowed)), tuple(map(read_host, denied)), tuple(map(read_host, asked)), ask)


Resolve = Callable[[str, int], Awaitable[list[str]]]


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as this machine resolves it. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class _Refusal(Exception):
    """An answer of the proxy's own to a request: its status, and why."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class ProxyAccess:
    """One command's access to the proxy, from `NetworkProxy.admit` to `close`.

    `refused` are the places that it wanted to reach and could not, each once.
    """

    def __init__(self, proxy: NetworkProxy, bounds: HostBounds, port: int) -> None:
        self.port = port
        self.refused: list[str] = []
        self.secret = secrets.token_urlsafe(24)
        self.writers: set[asyncio.StreamWriter] = set()
        self._proxy = proxy
        self._bounds = bounds
        self._answers: dict[tuple[str, int], asyncio.Future[bool]] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables that lead a program to the proxy."""
        url = f"http://command:{self.secret}@{LOCALHOST}:{self.port}"
        names = [spelled for name in _VARIABLES for spelled in (name, name.lower())]
        return {**dict.fromkeys(names, url), "NO_PROXY": "", "no_proxy": ""}

    def stop_asking(self) -> None:
        """From now on nobody is asked: the command goes on, and what it was a part of is over."""
        self._bounds = replace(self._bounds, ask=None)
        for answer in self._answers.values():
            answer.cancel()

    def close(self) -> None:
        """End the access and its connections; the proxy ends with the last one's."""
        self._proxy.dismiss(self)
        self.stop_asking()
        for writer in tuple(self.writers):
            writer.close()

    async def check(self, host: str, port: int) -> bool:
        """Judge a host; True where it is named so plainly that it may be a private address. Raises _Refusal."""
        bounds = self._bounds
        if any(pattern.matches(host, port) for pattern in bounds.denied):
            raise self.refusal(host, port, "the settings deny it to commands")
        if (answer := self._answers.get((host, port))) and answer.done() and not answer.cancelled() and answer.result():
            return names_itself(host)
        named = [pattern for pattern in bounds.allowed if pattern.matches(host, port)]
        if named and not any(pattern.matches(host, port) for pattern in bounds.asked):
            return any(pattern.exact for pattern in named)
        if bounds.ask is None:
            raise self.refusal(host, port, "it is not among the hosts that this command may reach")
        ask = bounds.ask
        place = (host, port)
        # once in a command, however many connections it opens
        if place not in self._answers:
            self._answers[place] = asyncio.ensure_future(ask(host, port))
        if not await asyncio.shield(self._answers[place]):
            raise self.refusal(host, port, "it was not allowed")
        return names_itself(host)

    def refusal(self, host: str, port: int, why: str) -> _Refusal:
        place = f"{host}:{port}"
        if place not in self.refused:
            self.refused.append(place)
        return _Refusal("403 Forbidden", f"{place} was not reached: {why}.")


class NetworkProxy(Struct):
    """The proxy of one session's commands. `admit` and what it gives belong to one loop.

    `resolve` finds a name's addresses, `reachable` says which of them may be meant where only a name is allowed.
    """

    resolve: Resolve = resolve
    reachable: Callable[[Address], bool] = is_public
    _accesses: dict[str, ProxyAccess] = field(default_factory=dict)
    _server: asyncio.Server | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def admit(self, bounds: HostBounds) -> ProxyAccess:
        """Let a command reach the hosts within `bounds`; the proxy is started with the first. Raises OSError."""
        async with self._starting:
            if self._server is None:
                self._server = await asyncio.start_server(self._serve, LOCALHOST, 0, limit=64_000)
            access = ProxyAccess(self, bounds, self._server.sockets[0].getsockname()[1])
            self._accesses[access.secret] = access
            return access

    def dismiss(self, access: ProxyAccess) -> None:
        """Forget an access: its secret opens nothing more."""
        self._accesses.pop(access.secret, None)
        if not self._accesses and self._server is not None:
            server, self._server = self._server, None
            server.close()

    @property
    def listens(self) -> bool:
        """True while a command may use it."""
        return self._server is not None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except _Refusal as refusal:
            writer.write(_answer_text(refusal))
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):  # either side has gone
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read_request(reader)
        access = self._access(request)
        access.writers.add(writer)
        try:
            explicit = await access.check(request.host, request.port)
            address = await self._address(access, request, explicit=explicit)
            await _forward(request, address, reader, writer, access)
        finally:
            access.writers.discard(writer)

    def _access(self, request: _Request) -> ProxyAccess:
        given = request.secret
        for secret, access in self._accesses.items():
            if hmac.compare_digest(secret.encode(), given):
                return access
        raise _Refusal("407 Proxy Authentication Required", "This proxy is for the commands of one session.")

    async def _address(self, access: ProxyAccess, request: _Request, *, explicit: bool) -> str:
        """The address to connect to. Raises _Refusal for a name without one, or with any that is not public."""
        host, port = request.host, request.port
        try:
            found = [ipaddress.ip_address(each) for each in await self.resolve(host.strip("[]"), port)]
        except (OSError, ValueError) as error:
            raise _Refusal("502 Bad Gateway", f"{host} cannot be resolved: {error}.") from error
        if not found:
            raise _Refusal("502 Bad Gateway", f"{host} has no address.")
        private = [str(address) for address in found if not self.reachable(address)]
        if private and not explicit:
            way = f"`{host}:{port}` in `sandbox.network.allowedDomains` allows it"
            raise access.refusal(host, port, f"it is {private[0]}, which is not on the public internet; {way}")
        return str(found[0])


class _Request(Struct, frozen=True):
    """The head of a request: where it goes, what is passed on of it (nothing of a CONNECT), the secret it came with."""

    host: str
    port: int
    passed_on: bytes
    secret: bytes

    @property
    def is_tunnel(self) -> bool:
        return not self.passed_on


async def _read_request(reader: asyncio.StreamReader) -> _Request:
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30.0)
    except asyncio.LimitOverrunError as error:
        raise _Refusal("431 Request Header Fields Too Large", "The head of the request is too long.") from error
    line, *fields = head[:-4].split(b"\r\n")
    try:
        method, target, version = line.split(b" ")
        authority, path = _parts(method, target)
        named_port = urllib.parse.urlsplit(f"//{authority}").port  # raises ValueError
        if named_port is not None and not authority.endswith("]"):
            authority = authority.rpartition(":")[0]
        host = normal_host(authority.removesuffix(":"))
        port = (443 if method == b"CONNECT" else 80) if named_port is None else named_port
    except (ValueError, UnicodeError, AddressProblem) as error:
        raise _Refusal("400 Bad Request", "This is a proxy for http and https alone.") from error
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise _Refusal("505 HTTP Version Not Supported", "This proxy speaks HTTP/1.1.")
    secret = next((_secret(each) for each in fields if each.lower().startswith(b"proxy-authorization:")), b"")
    if method == b"CONNECT":
        return _Request(host, port, b"", secret)
    # one request a connection: the next one on it might be for another host
    kept = [each for each in fields if each.partition(b":")[0].strip().lower() not in _HOP_BY_HOP]
    lines = [b" ".join((method, path, version)), *kept, b"Connection: close", b"", b""]
    return _Request(host, port, b"\r\n".join(lines), secret)


def _parts(method: bytes, target: bytes) -> tuple[str, bytes]:
    """The host and port of a request's target, and its path. Raises ValueError."""
    if method == b"CONNECT":
        return target.decode("ascii"), b""
    scheme, separator, rest = target.partition(b"://")
    if scheme.lower() != b"http" or not separator:
        raise ValueError(target)
    end = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    if b"@" in authority:
        raise ValueError(target)
    return authority.decode("ascii"), path if path.startswith(b"/") else b"/" + path


def _secret(line: bytes) -> bytes:
    scheme, _, encoded = line.partition(b":")[2].strip().partition(b" ")
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _answer_text(refusal: _Refusal) -> bytes:
    body = f"{refusal}\n".encode()
    lines = [
        f"HTTP/1.1 {refusal.status}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(['Proxy-Authenticate: Basic realm="sandbox"'] if refusal.status.startswith("407") else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _forward(
    request: _Request, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, access: ProxyAccess
) -> None:
    """Connect to the host and pass on what both sides say, until either has gone."""
    try:
        connecting = asyncio.open_connection(address, request.port)
        from_host, to_host = await asyncio.wait_for(connecting, 30.0)
    except (OSError, TimeoutError) as error:
        why = str(error) or "it does not answer"
        raise _Refusal("502 Bad Gateway", f"{request.host}:{request.port} cannot be reached: {why}.") from error
    access.writers.add(to_host)
    try:
        if request.is_tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            to_host.write(request.passed_on)
        await asyncio.gather(_pump(reader, to_host), _pump(from_host, writer))
    finally:
        access.writers.discard(to_host)
        to_host.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass on what `source` says until it ends, and then its end."""
    while chunk := await source.read(65_536):
        sink.write(chunk)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


def proxied(arguments: list[str], outside: int, port: int) -> list[str]:
    """The arguments that open the socket on `port`, hand it out by the descriptor `outside`, and become the command."""
    return [sys.executable, "-I", "-S", "-c", _OPEN_SOCKET, str(outside), str(port), *arguments]


def proxy_environment(port: int) -> dict[str, str]:
    """The variables by which programs find the proxy."""
    return {**dict.fromkeys(PROXY_VARIABLES, f"http://127.0.0.1:{port}"), "NO_PROXY": "", "no_proxy": ""}


class WayOut:
    """Serves the socket of one sandbox in a thread, until nothing in the sandbox runs any more, or it is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ours, self.theirs = socket.socketpair()
        threading.Thread(target=self._serve, name="cellwright-network", daemon=True).start()

    def started(self) -> None:
        """Leave the other end to the command, or to nobody where it could not be started."""
        self.theirs.close()

    def close(self) -> None:
        """End what is still connected."""
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with self._ours:
            message, rights, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(array.array("i").itemsize))
            if not (message and rights):
                return
            descriptors = array.array("i")
            descriptors.frombytes(rights[0][2])
            with socket.socket(fileno=descriptors[0]) as listening:
                asyncio.run(self._accept(listening))

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._ours.setblocking(False)
        server = await asyncio.start_server(self._connect, sock=listening)
        async with server:
            while await loop.sock_recv(self._ours, 1):  # nothing is said: it ends when all in the sandbox has ended
                pass

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:  # the proxy has ended
                return
            with contextlib.closing(far_writer):
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(64 * 1024):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
