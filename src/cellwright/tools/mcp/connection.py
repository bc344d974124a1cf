"""One server as it is reached: connected in the background, asked, and connected again where it was lost.

Everything happens on the loop that `start` was called on. A server that hangs, floods, ends or answers nonsense is the
error of a call, and its state; nothing else waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from cellwright.agent.calls.confinement import Confinement
from cellwright.agent.tool import Tool, ToolContext
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import visible_line
from cellwright.tools.mcp.schema import shown_text
from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.mcp.transports import Way, open_way
from cellwright.version import VERSION

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ListResourcesResult, Prompt, Resource
    from mcp_types import Tool as ToolDefinition

logger = logging.getLogger(__name__)

ConnectionState = Literal["connecting", "connected", "failed", "lost", "closed"]

T = TypeVar("T")

TRIES = 5
"""Times that a connection that was lost, or could not be made to an address, is tried before it is given up."""

FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""A connection that held so long is tried as often again."""

CLOSE_SECONDS = 5.0
LIST_SECONDS = 30.0
MAX_PAGES = 20
MAX_TOOLS = 500
MAX_LOG_LINES = 100
INSTRUCTION_CHARS = 2_000
"""Of what a server says of itself, as in Claude Code."""

Elicit = Callable[[ToolContext, str, Any], Awaitable[Any]]
"""Puts a server's question to the user, within a call: the context, the server's name, the SDK's parameters."""


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
        self.log: deque[str] = deque(maxlen=MAX_LOG_LINES)
        """The last lines that the server has logged, and that its program wrote beside."""
        self.settled = asyncio.Event()
        """Set while it is connected, or there is no hope that it soon will be."""
        self._environ = environ
        self._connect_seconds = connect_seconds
        self._roots = roots
        self._make_tools = make_tools
        self._elicit = elicit
        self._confinement = confinement
        self._changed = changed
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = asyncio.Event()
        self._relist = asyncio.Event()
        self._calls: list[ToolContext] = []
        self._mode: Literal["legacy", "auto"] = "legacy"

    def start(self) -> None:
        """Connect in the background."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_connected())

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

    async def call_tool(self, name: str, values: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the server's tool `name`; its `CallToolResult`. Raises ToolError."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            fraction = min(max(progress / total, 0.0), 1.0) if total else None
            context.progress(message=visible_line(message or f"{progress:g}", 300), fraction=fraction)

        self._calls.append(context)
        try:
            return await self._ask(
                lambda client: client.call_tool(name, dict(values), progress_callback=on_progress), f"the tool {name}"
            )
        finally:
            self._calls.remove(context)

    async def resources(self) -> list[Resource]:
        """The server's resources. Raises ToolError."""
        found: list[Resource] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._ask(functools.partial(_resource_page, cursor), "the list of resources")
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
        """Ask the server. Everything that may go wrong with it becomes something that Claude can read."""
        from mcp import MCPError
        from pydantic import ValidationError

        if self._client is None and self.state in ("connecting", "lost"):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.settled.wait(), self._connect_seconds)
        if (client := self._client) is None:
            raise self._unreachable(what)
        try:
            return await ask(client)
        except MCPError as error:
            if self._client is not client:
                raise self._unreachable(what) from None
            message = shown_text(error.error.message, 2_000)
            raise ToolError(f"{self.entry.name}: {message}", code=ErrorCode.EXECUTION_ERROR) from None
        except ValidationError:
            message = f"The MCP server {self.entry.name} answered {what} with something that is no answer."
            raise ToolError(message, code=ErrorCode.EXECUTION_ERROR) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._unreachable(what) from None  # the connection was taken down under the call
        except Exception as error:
            if self._client is not client:
                raise self._unreachable(what) from None
            logger.info("the MCP server %s failed a request", self.entry.name, exc_info=True)
            message = f"The MCP server {self.entry.name} failed: {_words(error)}"
            raise ToolError(message, code=ErrorCode.EXECUTION_ERROR) from None

    def _unreachable(self, what: str) -> ToolError:
        why = f": {self.problem}" if self.problem else ""
        message = (
            f"The MCP server {self.entry.name} is not connected ({self.state}){why}. Nothing came of {what}. "
            "The user can see why with /mcp, and connect it again with /mcp reconnect."
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
            tries = 0 if time.monotonic() - began > STEADY_SECONDS else tries + 1
            # a program that does not start will not start by itself either
            hopeless = not had_connected and self.entry.transport == "stdio"
            if self._again.is_set():
                tries = 0
                self._set("connecting")
                continue
            if hopeless or tries >= TRIES:
                self._set("failed", problem)
                await self._again.wait()
                tries = 0
            else:
                self._set("lost" if had_connected else "failed", problem)
                pause = min(FIRST_WAIT_SECONDS * 2 ** (tries - 1), MAX_WAIT_SECONDS) if tries else FIRST_WAIT_SECONDS
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._again.wait(), pause)
            self._set("connecting")

    async def _connect_once(self) -> tuple[str, bool]:
        """One connection from its beginning to its end: why it ended, and whether it ever stood."""
        stood = False
        way: Way | None = None
        problem = ""
        try:
            # it takes a second, in which the loop is to serve others
            await asyncio.to_thread(_load_package)
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self._connect_seconds):
                    way = await stack.enter_async_context(open_way(self.entry, self._environ, self._confinement))
                    client = await stack.enter_async_context(self._client_of(way))
                    await self._list(client)
                self._again.clear()  # whoever wanted a new connection meanwhile has it
                self._client, stood = client, True
                self._set("connected")
                await self._until_lost(client, way)
                self._client, problem = None, "the connection ended"
                self._set("lost", problem)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            problem = "the connection broke"
        except Exception as error:
            logger.info("the MCP server %s cannot be connected", self.entry.name, exc_info=True)
            self._try_modern(error)
            problem = self._problem(error)
        finally:
            self._client = None
            if way is not None:
                self.log.extend(way.errors)
        if way is not None and way.errors:
            problem = f"{problem}; it wrote: {visible_line(way.errors[-1], 300)}"
        return problem, stood

    def _problem(self, error: BaseException) -> str:
        if isinstance(_first(error), TimeoutError):
            return f"it did not answer within {self._connect_seconds:g} s (MCP_TIMEOUT)"
        return _words(error)

    def _try_modern(self, error: BaseException) -> None:
        """Speak the newer protocol with a server that knows no other.

        The older is first: it has questions to the user, news of changes and logs, which SDKs do not offer in the newer yet.
        """
        from mcp import MCPError
        from mcp_types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

        first = _first(error)
        others = (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION)
        if self._mode == "legacy" and isinstance(first, MCPError) and first.error.code in others:
            self._mode = "auto"
            self._again.set()

    def _client_of(self, way: Way) -> Client:
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
            waits = [group.create_task(event.wait()) for event in (way.lost, self._again)]
            beside = [group.create_task(self._list_again(client)), group.create_task(self._listen(client))]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in (*waits, *beside):
                task.cancel()

    async def _listen(self, client: Client) -> None:
        """Hear of changes where the protocol has them asked for; older servers tell them unasked."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            async with client.listen(tools_list_changed=True, prompts_list_changed=True) as events:
                async for _ in events:
                    self._relist.set()
        except Exception:
            logger.info("the MCP server %s tells nothing of changes", self.entry.name, exc_info=True)

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
        self.instructions = shown_text(client.instructions or "", INSTRUCTION_CHARS)
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
        from mcp import MCPError
        from pydantic import ValidationError

        try:
            prompts = (await client.list_prompts()).prompts[:MAX_TOOLS]
        except (MCPError, ValidationError) as error:  # its tools are good all the same
            self.log.append(f"(its prompts could not be read: {_words(error)})")
            return
        self.prompts = tuple(map(_prompt, prompts))

    async def _list_roots(self, context: Any) -> Any:  # the SDK calls it so
        from mcp_types import ListRootsResult, Root

        return ListRootsResult(roots=[Root(uri=uri) for uri in self._roots()])  # type: ignore[arg-type]

    async def _note_log(self, params: Any) -> None:
        self.log.append(shown_text(f"{params.level}: {params.data}", 500))

    async def _on_message(self, message: Any) -> None:
        if getattr(message, "method", "").endswith("/list_changed"):
            self._relist.set()

    async def _on_elicitation(self, context: Any, params: Any) -> Any:
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


async def _resource_page(cursor: str | None, client: Client) -> ListResourcesResult:
    return await client.list_resources(cursor=cursor)


def _load_package() -> None:
    importlib.import_module("mcp")
    # it logs what goes wrong with servers as errors, which would stand in the user's notebook; we tell it ourselves
    logging.getLogger("mcp").addHandler(logging.NullHandler())


def _prompt(prompt: Prompt) -> ServerPrompt:
    arguments = tuple((each.name, bool(each.required)) for each in (prompt.arguments or ())[:50])
    return ServerPrompt(prompt.name, shown_text(prompt.description or prompt.title or "", 500), arguments)


def _first(error: BaseException) -> BaseException:
    """Of several errors at once the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _words(error: BaseException) -> str:
    """Say what went wrong, in one line."""
    error = _first(error)
    if isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] in ("mcp", "mcp_types"):
        return "the package for MCP servers is not installed: pip install 'cellwright[mcp]'"
    if type(error).__name__ == "MCPError":  # its message is the server's, or as good
        return visible_line(str(error), 500)
    return visible_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 500)
