"""`/cellwright/mcp`: files, notebooks and kernels of this server for MCP clients, over streamable HTTP.

Each request stands for itself. Who may ask is Jupyter's to say, as for every route; each user has a server of their own,
since what was read and allowed is one user's.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tornado.iostream import StreamClosedError
from tornado.web import authenticated

from cellwright.server.api_error import RouteError
from cellwright.server.routes.base_handler import CellwrightRoute, may_execute, may_read
from cellwright.server.runs.kernel_calls import CallsInKernels, KernelAccess, UnsavedDocuments
from cellwright.server.runs.runs import ClientRuns, RequestsAtOnce
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.kernel_tools import KERNEL_TOOLS, SERVED_TOOLS

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from cellwright.conversation.runs.without_a_run import ServedCalls
    from cellwright.features.conversation import Conversation

logger = logging.getLogger(__name__)

PATTERN = r"/cellwright/mcp"
DOCUMENTS = r"/cellwright/mcp/documents"
MAX_USERS = 100

REQUEST_SECONDS = 2 * 3_600.0
"""A call of a tool may take an hour, and wait for a person before."""

KEPT_FROM_THE_SDK = ("authorization", "cookie", "x-xsrftoken")
"""Headers by which Jupyter knows its users."""


class _UsersServer:
    """The MCP server of one user, at work from `start` to `close`."""

    def __init__(self, access: KernelAccess) -> None:
        with importing:
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from cellwright.conversation.core import Host
        from cellwright.conversation.runs.run_options import RunOptions
        from cellwright.features.conversation import Conversation
        from cellwright.tools.mcp.mcp_server import make_server

        self._conversation: Conversation = Conversation(
            Host(cwd=access.root, interface="an MCP client", is_unsaved=access.unsaved.is_unsaved)
        )
        try:
            options = RunOptions(builtin_tools=False, tool_names=SERVED_TOOLS)
            self._calls: ServedCalls = self._conversation.served_calls(options, logger.warning)
        except BaseException:
            self._conversation.close()
            raise
        names = [name for name in KERNEL_TOOLS if self._calls.allows(name)]
        server = make_server(self._calls, access.root, CallsInKernels(access, secrets.token_hex(16), names))
        self.for_results: StreamableHTTPSessionManager = StreamableHTTPSessionManager(
            server, stateless=True, json_response=True
        )
        self.for_events: StreamableHTTPSessionManager = StreamableHTTPSessionManager(server, stateless=True)
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        ready = asyncio.Event()

        async def hold() -> None:
            async with self.for_results.run(), self.for_events.run():
                ready.set()
                await self._leave.wait()

        self._task = asyncio.create_task(hold())
        await ready.wait()

    async def close(self) -> None:
        self._leave.set()
        if self._task is not None:
            await self._task
        self._calls.close()
        await asyncio.to_thread(self._conversation.close)


class UsersMcpServers:
    """The MCP servers of this Jupyter Server's users, each made with its user's first request."""

    def __init__(self, access: KernelAccess) -> None:
        self._access = access
        self._servers: dict[str, _UsersServer] = {}
        self._making = asyncio.Lock()
        # of one user: at once, and in a minute
        self.requests = RequestsAtOnce(32, 600)

    async def of(self, owner: str, *, events: bool) -> StreamableHTTPSessionManager:
        """The way to the server of `owner`, for results alone or for `events` before them.

        Raises RouteError, and CellwrightError where the root's settings forbid it.
        """
        async with self._making:
            if owner not in self._servers:
                if len(self._servers) >= MAX_USERS:
                    raise RouteError(429, "TOO_MANY_REQUESTS", f"More than {MAX_USERS} users of MCP on this server.")
                # the first imports the SDK, which takes a second
                server = await asyncio.to_thread(_UsersServer, self._access)
                await server.start()
                self._servers[owner] = server
            server = self._servers[owner]
            return server.for_events if events else server.for_results

    async def close(self) -> None:
        """End all of them."""
        servers, self._servers = self._servers, {}
        for server in servers.values():
            await server.close()


class DocumentsRoute(CellwrightRoute):
    """`POST /cellwright/mcp/documents`: a page says which of its documents are unsaved (docs/protocol/documents.md)."""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs, **settings)
        self._unsaved: UnsavedDocuments = settings["unsaved"]

    @authenticated
    @may_read
    async def post(self) -> None:
        body = self.body("UnsavedDocuments")
        self._unsaved.take(self.owner, body["page"], body["paths"])
        self.answer({})


class UnavailableMcpRoute(CellwrightRoute):
    """The same path where the package for MCP is missing, or of a version that does not fit: it says so."""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs, **settings)
        self._problem: str = settings["problem"]

    @authenticated
    @may_read
    async def post(self) -> None:
        raise RouteError(503, "CONFIG_INVALID", self._problem)


class McpRoute(CellwrightRoute):
    """`POST /cellwright/mcp`"""

    drained_bytes = 200_000_000

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs, **settings)
        self._servers: UsersMcpServers = settings["servers"]
        self._content_type = "application/json"

    async def prepare(self) -> None:  # type: ignore[override]  # as APIHandler does
        await super().prepare()
        # held against Jupyter's settings also with a token, with which Jupyter lets every page in
        origin = self.request.headers.get("Origin", "").lower()
        is_ours = not origin or urlsplit(origin).netloc == self.request.host or self.allow_origin in ("*", origin)
        if not is_ours and not (self.allow_origin_pat and re.fullmatch(self.allow_origin_pat, origin)):
            raise RouteError(403, "PERMISSION_DENIED", "A page of another origin asks; allow_origin does not name it.")

    @authenticated
    @may_execute
    async def post(self) -> None:
        if self._too_large:
            self._refuse_size()
        # news of a call come in a stream before its result
        wants_news = b'"progressToken"' in self._body and "text/event-stream" in self.request.headers.get("Accept", "")
        with self._servers.requests.taken(self.owner):
            await self._handle(await self._servers.of(self.owner, events=wants_news))

    async def _handle(self, manager: StreamableHTTPSessionManager) -> None:
        work = asyncio.ensure_future(manager.handle_request(self._scope(), self._receiver(), self._send))
        left = asyncio.ensure_future(self.disconnected.wait())
        try:
            await asyncio.wait({work, left}, timeout=REQUEST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            too_long = not (work.done() or left.done())
        finally:
            left.cancel()
            if not work.done():  # nobody waits for what it comes to
                work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        if too_long:
            message = f"The call took longer than {REQUEST_SECONDS:g} s, and was stopped."
            raise RouteError(504, "EXECUTION_TIMEOUT", message)
        if not work.cancelled() and (error := work.exception()) is not None:
            raise error

    def _scope(self) -> dict[str, Any]:
        request = self.request
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.get_all()
            if name.lower() not in KEPT_FROM_THE_SDK
        ]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.protocol,
            "path": request.path,
            "raw_path": request.path.encode("latin-1"),
            "root_path": "",
            "query_string": request.query.encode("latin-1"),
            "headers": headers,
            "client": None,
            "server": None,
        }

    def _receiver(self) -> Any:
        messages = [{"type": "http.request", "body": bytes(self._body), "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await self.disconnected.wait()
            return {"type": "http.disconnect"}

        return receive

    async def _send(self, message: Mapping[str, Any]) -> None:
        try:
            if message["type"] == "http.response.start":
                self.set_status(message["status"])
                for raw_name, raw_value in message.get("headers", ()):
                    name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
                    if name == "content-type":
                        self._content_type = value
                    if name != "content-length":  # tornado counts itself
                        self.set_header(name, value)
            elif message.get("more_body"):
                self.write(message.get("body", b""))
                await self.flush()
            else:
                await self.finish(message.get("body", b"") or None, set_content_type=self._content_type)
        except StreamClosedError:
            self.disconnected.set()
