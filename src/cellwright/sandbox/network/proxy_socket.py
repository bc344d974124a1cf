"""The one way out of a sandbox that may reach named hosts: a socket in its own network, answered by the proxy outside.

The command's network has nothing but itself. Before the command begins, a socket is opened there, on the proxy's port,
and handed out to us; who connects to it is connected to the proxy, which decides about the host. Nothing runs inside for
that, and nothing inside could leave it out. A port would bound nothing: whoever listens on it, anywhere, could be reached.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import socket
import sys
import threading

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
