"""GitHub's MCP server over HTTP as far as a client meets it: its path, the check of the token, headers, names of tools.

It runs in a thread of the tests, and keeps one repository in memory.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)


class GitHubServer:
    """The server, the token that it takes, and what it was asked: `headers` of each request, `opened` pull requests."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.headers: list[dict[str, str]] = []
        self.opened: list[dict[str, str]] = []
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/mcp/"
        self._apps: dict[bool, Any] = {reads: self._served(only_reads=reads) for reads in (True, False)}
        self._server = uvicorn.Server(uvicorn.Config(self._answer, interface="asgi3", log_level="critical"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(60)
        self._socket.close()

    def _served(self, *, only_reads: bool) -> Any:
        server = MCPServer("github-mcp-server", version="1.0")

        @server.tool(annotations=READS)
        def issue_read(method: str, owner: str, repo: str, issue_number: int) -> str:
            """Get information about a specific issue."""
            return json.dumps({"number": issue_number, "title": "Saving loses the last row", "repo": f"{owner}/{repo}"})

        @server.tool(annotations=READS)
        def get_file_contents(owner: str, repo: str, path: str) -> str:
            """Get the contents of a file or directory."""
            return "return rows[:-1]"

        if only_reads:
            return server.streamable_http_app(streamable_http_path="/mcp/", stateless_http=True)

        @server.tool()
        def create_pull_request(owner: str, repo: str, title: str, body: str, head: str, base: str) -> str:
            """Create a new pull request."""
            self.opened.append({"title": title, "body": body, "head": head, "base": base})
            return json.dumps({"number": 3, "url": f"https://github.com/{owner}/{repo}/pull/3"})

        @server.tool()
        def merge_pull_request(owner: str, repo: str, pullNumber: int) -> str:
            """Merge a pull request."""
            return "merged"

        return server.streamable_http_app(streamable_http_path="/mcp/", stateless_http=True)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            async with contextlib.AsyncExitStack() as running:
                for app in self._apps.values():
                    await running.enter_async_context(app.router.lifespan_context(app))
                await receive()
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.headers.append(headers)
        if headers.get("authorization") != f"Bearer {self.token}":
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"unauthorized: invalid token"})
            return
        only_reads = headers.get("x-mcp-readonly", "").strip().casefold() not in (
            "",
            "false",
            "f",
            "no",
            "n",
            "0",
            "off",
        )
        await self._apps[only_reads](scope, receive, send)


@contextlib.contextmanager
def github_server(token: str) -> Iterator[GitHubServer]:
    made = GitHubServer(token)
    try:
        yield made
    finally:
        made.close()
