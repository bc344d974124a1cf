"""One server as it is reached: connected in the background, asked, and connected again where it was lost.

Everything happens on the loop that `start` was called on. A server that hangs, floods, ends or answers nonsense is the
error of a call, and its state; nothing else waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.tool import Tool, ToolContext
from cellwright.errors import ErrorCode, ToolError, log_fault
from cellwright.text import visible_line
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.installed_extras import extra_problem
from cellwright.tools.mcp.schema import shown_text
from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.mcp.transports import ENDED, Way, open_way, server_environment
from cellwright.version import VERSION

if TYPE_CHECKING:
    from httpx2 import Auth
    from mcp import Client, MCPError
    from mcp_types import ListResourcesResult, Resource
    from mcp_types import Tool as ToolDefinition

    from cellwright.tools.mcp.oauth import Challenge, ServerAuth
    from cellwright.tools.mcp.token_store import TokenStore

logger = logging.getLogger(__name__)

_NOT_ALLOWED = (401, 403)
ConnectionState = Literal["connecting", "connected", "failed", "lost", "needs sign-in", "closed"]

T = TypeVar("T")

_SESSION_GONE = "Session terminated"
"""The package's words for a server that knows the session no more (404)."""

_CLOSED = "Connection closed"
"""The package's words for requests that were under way, and for those that come until it is taken down."""

_SIGN_IN = "it wants you to sign in"

TRIES = 5
"""Times that a connection that was lost, or could not be made to an address, is tried before it is given up."""

FIRST_WAIT_SECONDS = 1.0

CLOSE_SECONDS = 5.0
LIST_SECONDS = 30.0
MAX_PAGES = 20
MAX_TOOLS = 500

Elicit = Callable[[ToolContext, str, Any], Awaitable[Any]]
"""Puts a server's question to the user, within a call: the context, the server's name, the SDK's parameters."""


class _SessionGone(Exception):
    """Raised for a request of a session that the server knows no more."""


class _UrlsRequired(Exception):
    """Raised for a call that wants the user to open addresses first; `data` is the error's."""

    def __init__(self, message: str, data: Any) -> None:
        super().__init__(message)
        self.data = data


class ServerPrompt(Struct, frozen=True):
    """A prompt of a server's: its name there, what it is for, its arguments with whether each must be given."""

    name: str
    description: str
    arguments: tuple[tuple[str, bool], ...]


class ServerConnection:
    """A server, connected as long as this is started. `changed` is called when its state or what it offers has changed."""

    def __init__(
        self,
        entry: ServerEntry,
        environ: Mapping[str, str],
        *,
        connect_seconds: float,
        roots: Callable[[], Sequence[str]],
        make_tools: Callable[[ServerConnection], Mapping[str, Tool]],
        elicit: Elicit | None = None,
        confinement: Confinement | None = None,
        tokens: TokenStore | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.entry = entry
        self.state: ConnectionState = "connecting"
        self.problem = ""
        """The reason that it is not connected, in words."""
        self.definitions: tuple[ToolDefinition, ...] = ()
        self.tools: Mapping[str, Tool] = {}
        """The tools by their names here, made by `make_tools`; those it had while it is connected again."""
        self.prompts: tuple[ServerPrompt, ...] = ()
        self.has_resources = False
        self.instructions = ""
        self.log: deque[str] = deque(maxlen=100)
        """The last lines that the server has logged, and that its program wrote beside."""
        self.settled = asyncio.Event()
        """Set while it is connected, or there is no hope that it soon will be."""
        self._environ = environ
        self._connect_seconds = connect_seconds
        self._roots = roots
        self._make_tools = make_tools
        self._elicit = elicit
        self._confinement = confinement
        self._tokens = tokens
        self._auth: ServerAuth | None = None
        self._changed = changed
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = asyncio.Event()
        self._relist = asyncio.Event()
        self._broken = asyncio.Event()
        self._ended = asyncio.Event()
        self._calls: list[ToolContext] = []
        self._mode: Literal["legacy", "auto"] = "legacy"

    def start(self) -> None:
        """Connect in the background."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_connected())
            # a script that ends leaves it behind, which is no fault to print; asyncio has no public word for that
            setattr(self._task, "_log_destroy_pending", False)  # noqa: B010

    async def close(self) -> None:
        """End the connection and the server's program."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_SECONDS)
        self._set("closed")

    def reconnect(self) -> None:
        """Try again now, also where it was given up."""
        self.settled.clear()
        if self._task is None or self._task.done():
            self._task = None
            self._set("connecting")
            self.start()
        else:
            self._again.set()

    @property
    def challenge(self) -> Challenge | None:
        """The server's words on what it wants signed in for, where it has said so."""
        return self._auth.challenge if self._auth is not None else None

    @property
    def _wants_user(self) -> bool:
        return self._auth is not None and self._auth.needed.is_set()

    async def call_tool(self, name: str, values: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the server's tool `name`; its `CallToolResult`. Raises ToolError."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            fraction = min(max(progress / total, 0.0), 1.0) if total else None
            context.progress(message=visible_line(message or f"{progress:g}", 300), fraction=fraction)

        async def call(client: Client) -> Any:
            return await client.call_tool(name, dict(values), progress_callback=on_progress)

        self._calls.append(context)
        try:
            try:
                return await self._ask(call, f"the tool {name}")
            except _UrlsRequired as required:
                await self._open_first(required.data, context)
            return await self._ask(call, f"the tool {name}")
        except _UrlsRequired as required:
            raise ToolError(f"{self.entry.name}: {required}", code=ErrorCode.EXECUTION_ERROR) from None
        finally:
            self._calls.remove(context)

    async def _open_first(self, data: Any, context: ToolContext) -> None:
        """Have the user open what a call was refused for. Raises ToolError where they do not."""
        with importing:
            from mcp_types import ElicitRequestURLParams
        from pydantic import ValidationError

        listed = data.get("elicitations") if isinstance(data, dict) else None
        try:
            # addresses that a user is asked to open for one call
            asked = [ElicitRequestURLParams.model_validate(each) for each in (listed or ())[:5]]
        except (ValidationError, TypeError):
            asked = []
        for params in asked:
            answer = None if self._elicit is None else await self._elicit(context, self.entry.name, params)
            if answer is None or answer.action != "accept":
                address = shown_text(params.url, 500)
                message = f"{self.entry.name}: the call needs the user to open {address} first, and they did not."
                raise ToolError(message, code=ErrorCode.EXECUTION_ERROR)
        if not asked:
            raise ToolError(f"{self.entry.name}: the call wants something opened, and says not what.")

    async def resources(self) -> list[Resource]:
        """The server's resources. Raises ToolError."""
        found: list[Resource] = []
        cursor: str | None = None

        async def next_page(client: Client) -> ListResourcesResult:
            return await client.list_resources(cursor=cursor)

        for _ in range(MAX_PAGES):
            page = await self._ask(next_page, "the list of resources")
            found += page.resources
            if not (cursor := page.next_cursor):
                break
        return found

    async def read_resource(self, uri: str) -> Any:
        """The SDK's `ReadResourceResult` for the resource at `uri`. Raises ToolError."""
        return await self._ask(lambda client: client.read_resource(uri), f"the resource {uri}")

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Any:
        """The SDK's `GetPromptResult` of a prompt. Raises ToolError."""
        return await self._ask(lambda client: client.get_prompt(name, dict(arguments)), f"the prompt {name}")

    async def _ask(self, ask: Callable[[Client], Awaitable[T]], what: str) -> T:
        """Ask the server, and ask it again where it knew the session no more: then it has done nothing."""
        try:
            return await self._ask_once(ask, what)
        except _SessionGone:
            self.reconnect()
        try:
            return await self._ask_once(ask, what)
        except _SessionGone:
            raise self._unreachable(what) from None

    async def _ask_once(self, ask: Callable[[Client], Awaitable[T]], what: str) -> T:
        """Ask the server. Everything that may go wrong with it becomes something that Claude can read."""
        with importing:
            from mcp import MCPError
        from pydantic import ValidationError

        if not self.settled.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.settled.wait(), self._connect_seconds)
        if (client := self._client) is None:
            raise self._unreachable(what)
        try:
            return await ask(client)
        except MCPError as error:
            raise await self._refusal(error, client, what) from None
        except ValidationError:
            message = f"MCP server {self.entry.name} sent an invalid response to {what}."
            raise ToolError(message, code=ErrorCode.EXECUTION_ERROR) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._unreachable(what) from None  # the connection was taken down under the call
        except Exception as error:  # noqa: BLE001
            if self._client is not client:
                raise self._unreachable(what) from None
            log_fault(logger, "the MCP server %s failed a request", self.entry.name, level=logging.INFO, foreign=True)
            message = f"The MCP server {self.entry.name} failed: {_words(error)}"
            raise ToolError(message, code=ErrorCode.EXECUTION_ERROR) from None

    async def _see_end(self, client: Client) -> None:
        """Have the connection be taken down now that it is known to be broken, and wait until it is known why."""
        if self._client is client:
            self._client = None
            self._set("lost", "the connection broke")
            self._broken.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), CLOSE_SECONDS)

    async def _refusal(self, error: MCPError, client: Client, what: str) -> Exception:
        """The error of a request that the server, or the package, has answered with one."""
        with importing:
            from mcp_types import URL_ELICITATION_REQUIRED

        message = error.error.message
        if message == _CLOSED:
            await self._see_end(client)
        if self._client is not client or self._wants_user:
            return self._unreachable(what)
        if message == _SESSION_GONE:
            return _SessionGone()
        if error.error.code == URL_ELICITATION_REQUIRED:
            return _UrlsRequired(shown_text(message, 500), error.error.data)
        return ToolError(f"{self.entry.name}: {shown_text(message, 2_000)}", code=ErrorCode.EXECUTION_ERROR)

    def _unreachable(self, what: str) -> ToolError:
        why = f": {self.problem}" if self.problem else ""
        remedy = "The user can see why with /mcp, and connect it again with /mcp reconnect."
        if self._wants_user:
            remedy = f"The user can sign in with /mcp login {self.entry.name}."
        message = (
            f"The MCP server {self.entry.name} is not connected ({self.state}){why}. Nothing came of {what}. {remedy}"
        )
        return ToolError(message, code=ErrorCode.MCP_CONNECTION_FAILED)

    def _set(self, state: ConnectionState, problem: str = "") -> None:
        self.state, self.problem = state, problem
        if state in ("connecting", "lost"):
            self.settled.clear()
        else:
            self.settled.set()
        self._changed()

    async def _keep_connected(self) -> None:
        tries = 0
        while True:
            self._again.clear()
            began = time.monotonic()
            problem, had_connected = await self._connect_once()
            # a connection that held so long is tried as often again
            tries = 0 if time.monotonic() - began > 60.0 else tries + 1
            # a program that does not start will not start by itself either
            hopeless = not had_connected and self.entry.transport == "stdio"
            if self._again.is_set():
                tries = 0
                self._set("connecting")
                continue
            if self._wants_user or hopeless or tries >= TRIES:
                self._set("needs sign-in" if self._wants_user else "failed", problem)
                await self._again.wait()
                tries = 0
            else:
                self._set("lost" if had_connected else "failed", problem)
                pause = min(FIRST_WAIT_SECONDS * 2 ** (tries - 1), 30.0) if tries else FIRST_WAIT_SECONDS
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._again.wait(), pause)
            self._set("connecting")

    async def _connect_once(self) -> tuple[str, bool]:
        """One connection from its beginning to its end: why it ended, and whether it ever stood."""
        stood = False
        way: Way | None = None
        self._broken.clear()
        self._ended.clear()
        problem = ""
        try:
            # it takes a second, in which the loop is to serve others
            await asyncio.to_thread(load_package)
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self._connect_seconds):
                    opening = open_way(self.entry, self._environ, self._confinement, self._make_auth())
                    way = await stack.enter_async_context(opening)
                    client = await stack.enter_async_context(self._client_of(way))
                    await self._list(client)
                self._again.clear()  # whoever wanted a new connection meanwhile has it
                self._client, stood = client, True
                self._set("connected")
                await self._until_lost(client, way)
                self._client, problem = None, "the connection ended"
                if self._wants_user:
                    problem = _SIGN_IN
                self._set("needs sign-in" if self._wants_user else "lost", problem)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            problem = "the connection broke"
        except Exception as error:  # noqa: BLE001
            log_fault(
                logger, "the MCP server %s cannot be connected", self.entry.name, level=logging.INFO, foreign=True
            )
            self._try_modern(error)
            problem = self._problem(error)
        finally:
            self._client = None
            if way is not None:
                self.log.extend(way.errors)
        if way is not None and way.errors:
            # the last line that the program wrote, and with which exit code it ended
            last = list(way.errors)[-2 if way.errors[-1].startswith(ENDED) else -1 :]
            problem = f"{problem}; it wrote: {visible_line(' '.join(last), 300)}"
        # the package's own words do not say that it was the token
        if way is not None and not stood and not self._wants_user and way.statuses and way.statuses[-1] in _NOT_ALLOWED:
            problem = f"HTTP {way.statuses[-1]}: it does not accept the token or header that it was sent. Renew it."
        self.problem = problem
        self._ended.set()
        return problem, stood

    def _make_auth(self) -> Auth | None:
        """The authorization of requests to an address; each connection begins with what is kept by then."""
        self._auth = None
        if self.entry.headers_helper:
            from cellwright.tools.mcp.http_client import helper_auth

            environ = server_environment(self.entry, self._environ, self.entry.cwd)
            return helper_auth(self.entry, environ, self._confinement)
        if self._tokens is not None and self.entry.may_sign_in:
            with importing:
                from cellwright.tools.mcp.oauth import ServerAuth

            self._auth = ServerAuth(self.entry, self._tokens)
        return self._auth

    def _problem(self, error: BaseException) -> str:
        if self._wants_user:
            return _SIGN_IN
        if isinstance(_first(error), TimeoutError):
            return f"it did not answer within {self._connect_seconds:g} s (MCP_TIMEOUT)"
        return _words(error)

    def _try_modern(self, error: BaseException) -> None:
        """Speak the newer protocol with a server that knows no other.

        The older is first: it has questions to the user, news of changes and logs, which SDKs do not offer in the newer yet.
        """
        with importing:
            from mcp import MCPError
            from mcp_types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

        first = _first(error)
        others = (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION)
        if self._mode == "legacy" and isinstance(first, MCPError) and first.error.code in others:
            self._mode = "auto"
            self._again.set()

    def _client_of(self, way: Way) -> Client:
        with importing:
            from mcp import Client
            from mcp_types import Implementation

        return Client(
            _Opened(way.streams),
            client_info=Implementation(name="cellwright", version=VERSION),
            list_roots_callback=self._list_roots,
            logging_callback=self._note_log,
            message_handler=self._on_message,
            elicitation_callback=None if self._elicit is None else self._on_elicitation,
            cache=None,
            mode=self._mode,
        )

    async def _until_lost(self, client: Client, way: Way) -> None:
        """Wait for the end of the connection, and list anew what the server says has changed."""
        async with asyncio.TaskGroup() as group:
            ends = [way.lost, self._broken, self._again, *([self._auth.needed] if self._auth is not None else [])]
            waits = [group.create_task(event.wait()) for event in ends]
            beside = [group.create_task(self._list_again(client)), group.create_task(self._listen(client))]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in (*waits, *beside):
                task.cancel()

    async def _listen(self, client: Client) -> None:
        """Hear of changes where the protocol has them asked for; older servers tell them unasked."""
        with importing:
            from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            async with client.listen(tools_list_changed=True, prompts_list_changed=True) as events:
                async for _ in events:
                    self._relist.set()
        except Exception:  # noqa: BLE001
            log_fault(
                logger, "the MCP server %s tells nothing of changes", self.entry.name, level=logging.INFO, foreign=True
            )

    async def _list_again(self, client: Client) -> None:
        while True:
            await self._relist.wait()
            self._relist.clear()
            try:
                async with asyncio.timeout(LIST_SECONDS):
                    await self._list(client)
            except Exception as error:  # noqa: BLE001  the package's many; what was listed before stands
                self.log.append(f"(its lists could not be read again: {_words(error)})")
            self._changed()
            await asyncio.sleep(1)  # one that says so all the time is asked once a second

    async def _list(self, client: Client) -> None:
        capabilities = client.server_capabilities
        # of what a server says of itself, as in Claude Code
        self.instructions = shown_text(client.instructions or "", 2_000)
        self.has_resources = capabilities.resources is not None
        found: list[ToolDefinition] = []
        cursor: str | None = None
        if capabilities.tools is not None:
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                found += page.tools
                if not (cursor := page.next_cursor) or len(found) >= MAX_TOOLS:
                    break
        self.definitions = tuple(found[:MAX_TOOLS])
        # schemas are checked, for which a library is loaded
        self.tools = await asyncio.to_thread(self._make_tools, self)
        if capabilities.prompts is not None:
            await self._list_prompts(client)

    async def _list_prompts(self, client: Client) -> None:
        with importing:
            from mcp import MCPError
        from pydantic import ValidationError

        try:
            prompts = (await client.list_prompts()).prompts[:MAX_TOOLS]
        except (MCPError, ValidationError) as error:  # its tools are good all the same
            self.log.append(f"(its prompts could not be read: {_words(error)})")
            return
        self.prompts = tuple(
            ServerPrompt(
                each.name,
                shown_text(each.description or each.title or "", 500),
                tuple((argument.name, bool(argument.required)) for argument in (each.arguments or ())[:50]),
            )
            for each in prompts
        )

    async def _list_roots(self, context: Any) -> Any:  # the SDK calls it so
        with importing:
            from mcp_types import ListRootsResult, Root

        return ListRootsResult(roots=[Root(uri=uri) for uri in self._roots()])  # type: ignore[arg-type]

    async def _note_log(self, params: Any) -> None:
        self.log.append(shown_text(f"{params.level}: {params.data}", 500))

    async def _on_message(self, message: Any) -> None:
        if getattr(message, "method", "").endswith("/list_changed"):
            self._relist.set()

    async def _on_elicitation(self, context: Any, params: Any) -> Any:
        with importing:
            from mcp_types import ElicitResult

        # a question outside of a call reaches nobody; of several calls the newest is the likeliest
        if not self._calls or self._elicit is None:
            return ElicitResult(action="decline")
        return await self._elicit(self._calls[-1], self.entry.name, params)


class _Opened:
    """Streams that are open already, as the package takes a transport."""

    def __init__(self, streams: Any) -> None:
        self._streams = streams

    async def __aenter__(self) -> Any:
        return self._streams

    async def __aexit__(self, *_error: object) -> None:
        return None


def load_package() -> None:
    """Import what speaks with servers and checks their schemas, which takes a second. Raises ImportError."""
    if "mcp" not in sys.modules and (problem := extra_problem("mcp")):
        raise ImportError(problem)
    importlib.import_module("mcp")
    importlib.import_module("jsonschema")
    # it logs what goes wrong with servers as errors, which would stand in the user's notebook; we tell it ourselves
    logging.getLogger("mcp").addHandler(logging.NullHandler())


def _first(error: BaseException) -> BaseException:
    """Of several errors at once the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _words(error: BaseException) -> str:
    """Say what went wrong, in one line."""
    error = _first(error)
    if type(error) is ImportError:  # ours: it says what is wrong with the package
        return visible_line(str(error), 500)
    if isinstance(error, FileNotFoundError) and error.filename:
        return visible_line(f"{error.filename} was not found", 500)
    if type(error).__name__ == "ValidationError":  # pydantic's, of what the protocol says
        found: Any = error
        first = found.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        return visible_line(f"it sent an answer that the protocol does not know ({field}: {first['msg']})", 500)
    if type(error).__name__ in ("MCPError", "RuntimeError") and str(error):  # its message is the server's, or as good
        return visible_line(str(error), 500)
    return visible_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 500)
