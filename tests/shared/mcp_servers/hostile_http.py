"""An MCP server over HTTP that does what none should, by the name of the tool that is called; written without the SDK."""

import asyncio
import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

CHUNK = b"x" * 65_536
TOOLS = ("good", "flood", "event_flood", "comments", "bomb", "silent", "drop", "nonsense")


class HostileServer:
    """The server, in a thread. `sent` counts the bytes that it got rid of; `wants` is the token that it takes, if any."""

    def __init__(self) -> None:
        self.sent = 0
        self.wants = ""
        self.sessions = 0
        self.known: set[str] = set()
        self.seen: list[dict[str, str]] = []
        self.port = 0
        self.begin()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def begin(self) -> None:
        """Listen, at the port it had."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", self.port))
        self._socket.listen()
        self.port = self._socket.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(self._answer, interface="asgi3", log_level="critical"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(60)
        self._socket.close()
        self.known.clear()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append(headers)

        async def reply(
            status: int, body: bytes, *more: tuple[bytes, bytes], kind: bytes = b"application/json"
        ) -> None:
            await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *more]})
            await send({"type": "http.response.body", "body": body})

        if self.wants and headers.get("authorization") != self.wants:
            await reply(401, b"{}")
            return
        if scope["method"] != "POST":
            await reply(405, b"")
            return
        message = json.loads((await receive())["body"])
        if "id" not in message:
            await reply(202, b"")
            return
        method, number = message["method"], message["id"]

        def result(value: Any) -> bytes:
            return json.dumps({"jsonrpc": "2.0", "id": number, "result": value}).encode()

        if method == "initialize":
            self.sessions += 1
            self.known.add(session := f"session-{self.sessions}")
            version = message["params"]["protocolVersion"]
            about = {"name": "hostile", "version": "1"}
            value = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            await reply(200, result(value), (b"mcp-session-id", session.encode()))
        elif headers.get("mcp-session-id") not in self.known:
            await reply(404, b"")
        elif method == "tools/list":
            await reply(200, result({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}))
        else:
            text = result({"content": [{"type": "text", "text": f"good of {headers['mcp-session-id']}"}]})
            await self._misbehave(message["params"]["name"], text, reply, receive, send)

    async def _misbehave(self, tool: str, text: bytes, reply: Any, receive: Any, send: Any) -> None:
        if tool == "good":
            await reply(200, text)
        elif tool == "nonsense":
            await reply(200, b"this is not valid JSON {")
        elif tool == "bomb":
            body = gzip.compress(b" " * 1_000_000 + text)
            await reply(200, body, (b"content-encoding", b"gzip"))
        elif tool == "silent":
            await receive()
        elif tool == "drop":
            raise ConnectionError
        else:
            kind = b"application/json" if tool == "flood" else b"text/event-stream"
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
            start, each = {
                "flood": (b'"', CHUNK),
                "event_flood": (b"data: ", CHUNK),
                "comments": (b"", b": ping\n\n" * 8_000),
            }[tool]
            await send({"type": "http.response.body", "body": start, "more_body": True})
            gone = asyncio.ensure_future(receive())
            while not gone.done():
                await send({"type": "http.response.body", "body": each, "more_body": True})
                self.sent += len(each)
                await asyncio.sleep(0)


@contextlib.contextmanager
def hostile_server() -> Iterator[HostileServer]:
    """A server for one test."""
    made = HostileServer()
    try:
        yield made
    finally:
        made.end()
