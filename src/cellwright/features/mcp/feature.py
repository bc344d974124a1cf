"""MCP servers as a feature: their connections and tools, what Claude knows of them, resources, and prompts as commands.

Servers are connected in the background when a run begins. Its first request waits a moment for those that nobody waited for
yet, and longer for those that the command line or a program names. Tools that come later are declared behind those that are
there, and loaded by ToolSearch; without it, they come with the next prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement, without_hosts
from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, text_context
from cellwright.agent.tool import TOOL_SEARCH, Tool, ToolContext
from cellwright.config.agents import AgentDefinition
from cellwright.config.settings.settings import tool_is_allowed
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.feature import Feature, PromptCall, RunInfo, is_in_history, listing, unheard
from cellwright.conversation.runs.kinds import TrustCheck
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.tools.toolset import tools_may_be_deferred
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import NotLoaded
from cellwright.features.mcp.discovery import ServerDiscovery
from cellwright.markdown.prose import without_code
from cellwright.model.models import limits
from cellwright.text import lazy_pattern, visible_line
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.server_entry import ServerEntry, plain_name
from cellwright.tools.mcp.token_store import TokenStore, token_store

if TYPE_CHECKING:
    from cellwright.tools.mcp.connection import ServerConnection, ServerPrompt
    from cellwright.tools.mcp.oauth import SignIn


LISTING_CHARS = 12_000
"""Of the list of servers and their tools: about 3,000 tokens."""

_TAG = "mcp_servers"
_MENTION = lazy_pattern(
    r"(?<![\w@./\\-])@(?P<server>[\w-]+):(?P<uri>[A-Za-z][\w+.-]*:[^\s\"'<>`]*[^\s\"'<>`.,;:!?)\]}])"
)
_CALL = lazy_pattern(r"\s*/(?P<name>mcp__[\w-]+)(?P<arguments>(?:\s.*)?)", re.DOTALL)
_FIRST_CLAUSE = lazy_pattern(r"[^.:(\n]+")

CONNECT_SECONDS = 30.0
FIRST_WAIT_SECONDS = 5.0
"""The longest that a request waits for new servers; CELLWRIGHT_MCP_WAIT says another time, in seconds.

For a server that the command line or a program names it is MCP_TIMEOUT: who names one needs it.
"""


class ServerConnections(ServerDiscovery):
    """The servers that are configured, with their connections, which live on the agent's loop.

    `confine` says what holds for programs of the project, and may wait for the sandbox to be found.
    """

    def __init__(
        self,
        in_force: SettingsInForce,
        confine: Callable[[], Confinement | None],
        tokens: TokenStore | None = None,
    ) -> None:
        super().__init__(in_force)
        self._confine = confine
        self._disabled: set[str] = set()
        self._connections: dict[str, ServerConnection] = {}
        self._of_agents: dict[str, tuple[str, ...]] = {}
        self._lead: AgentDefinition | None = None
        self._tokens = token_store() if tokens is None else tokens
        self._sign_ins: dict[str, SignIn] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._waited_for: WeakSet[ServerConnection] = WeakSet()
        self._made: tuple[object, tuple[Tool, ...]] = (None, ())

    def use_for_lead(self, lead: AgentDefinition | None) -> None:
        """Have the servers of the agent that works itself count, from the next `connect` on; None: the usual ones."""
        self._lead = lead

    @property
    def connections(self) -> Mapping[str, ServerConnection]:
        """The servers that are connected or were to be, by name."""
        return self._connections

    @property
    def disabled(self) -> frozenset[str]:
        """The names of servers that the user has switched off for this conversation."""
        return frozenset(self._disabled)

    def set_disabled(self, name: str, disabled: bool) -> None:
        """Switch a server off for this conversation, or on again."""
        (self._disabled.add if disabled else self._disabled.discard)(name)

    async def sign_in(self, name: str, client_secret: str = "") -> SignIn:
        """Begin a sign-in to the server, which takes the place of one that goes on; it is connected when that is done.

        Raises CellwrightError: INVALID_PARAMETERS where nobody can sign in there, MCP_CONNECTION_FAILED.
        """
        entry = self._found.entries.get(name)
        if entry is None or not entry.may_sign_in:
            why = "is not there" if entry is None else "takes no sign-in: its entry sets the credentials"
            if entry is not None and not entry.url:
                why = "is a program: there is nothing to sign in to"
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"The MCP server {visible_line(name)} {why}.")
        sign_in_module = await asyncio.to_thread(_sign_in_module)
        if (before := self._sign_ins.pop(name, None)) is not None:
            await before.cancel()
        connection = self._connections.get(name)
        made: SignIn = sign_in_module.SignIn(
            entry,
            self._tokens,
            challenge=connection.challenge if connection is not None else None,
            client_secret=client_secret,
        )
        await made.begin()
        self._sign_ins[name] = made

        async def follow() -> None:
            with contextlib.suppress(CellwrightError, asyncio.CancelledError):  # who waits for it is told
                await made.done()
                if (connection := self._connections.get(name)) is not None:
                    connection.reconnect()

        task = asyncio.get_running_loop().create_task(follow())
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return made

    def sign_in_under_way(self, name: str) -> SignIn | None:
        """The sign-in that waits for the user's browser."""
        found = self._sign_ins.get(name)
        return found if found is not None and not found.is_over else None

    def has_sign_in(self, name: str) -> bool:
        """Return whether a sign-in to the server is stored, which `sign_out` would delete."""
        entry = self._found.entries.get(name)
        return entry is not None and entry.may_sign_in and self._tokens.keeps(entry)

    async def sign_out(self, name: str) -> bool:
        """Forget all that signing in to the server has brought; False where there was nothing. Raises CellwrightError."""
        entry = self._found.entries.get(name)
        if (pending := self._sign_ins.pop(name, None)) is not None:
            await pending.cancel()
        if entry is None or not await asyncio.to_thread(self._tokens.forget, entry):
            return False
        if (connection := self._connections.get(name)) is not None:
            connection.reconnect()
        return True

    def _wanted(self) -> dict[str, ServerEntry]:
        settings = self._in_force.settings
        denied = {rule.tool for rule in settings.deny if rule.specifier is None}
        return {
            name: entry
            for name, entry in self._found.entries.items()
            if name not in self._disabled
            and (self._is_for_all(entry) or any(name in names for names in self._of_agents.values()))
            and tool_is_allowed(f"{entry.prefix}x", settings)
            and not denied & {"*", "mcp__*", entry.prefix.removesuffix("__"), f"{entry.prefix}*"}
        }

    async def connect(self) -> None:
        """Connect what is to be and is not, and end what is not to be any more. Waits for no server that begins."""
        wanted = self._wanted()
        gone = [name for name, each in self._connections.items() if name not in wanted or wanted[name] != each.entry]
        ending = [self._connections.pop(name) for name in gone]
        if ending:
            await asyncio.gather(*(each.close() for each in ending))
        if not wanted:
            return
        # most conversations have no servers: what speaks with them is imported for those that do, here and below
        from cellwright.tools.mcp.connection import ServerConnection
        from cellwright.tools.mcp.elicitation import elicit
        from cellwright.tools.mcp.tools import number_in, server_tools

        environ = self._in_force.program_environment
        seconds = number_in(environ, "MCP_TIMEOUT", CONNECT_SECONDS * 1_000) / 1_000
        bounds = None
        if any(entry.scope == "project" and name not in self._connections for name, entry in wanted.items()):
            # where a program may reach some hosts only, nobody would ask about others: it reaches none
            bounds = without_hosts(await asyncio.to_thread(self._confine))

        def roots() -> list[str]:
            folders = (self._in_force.cwd, *self._in_force.settings.additional_directories)
            return list(dict.fromkeys(folder.absolute().as_uri() for folder in folders))

        for name, entry in wanted.items():  # nothing is waited for here: no server is begun twice
            if name in self._connections:
                continue
            connection = ServerConnection(
                entry,
                environ,
                connect_seconds=seconds,
                roots=roots,
                elicit=elicit,
                make_tools=lambda each: server_tools(each, environ),
                confinement=bounds if entry.scope == "project" else None,
                tokens=self._tokens,
            )
            self._connections[name] = connection
            connection.start()

    async def settled(self, seconds: float) -> None:
        """Wait until every server is connected or has failed, so long at most."""
        waits = [asyncio.ensure_future(each.settled.wait()) for each in self._connections.values()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=seconds)
            for each in late:
                each.cancel()

    async def wait_for_servers(self) -> None:
        """Connect what is to be connected, and wait a while for servers that nobody has waited for in this process.

        Raises CellwrightError MCP_CONNECTION_FAILED if servers were given in place of all others, and one is not there.
        """
        await self.connect()
        new = [each for each in self._connections.values() if each not in self._waited_for]
        if new:
            from cellwright.tools.mcp.connection import load_package

            with contextlib.suppress(ImportError):  # then each connection says so
                await asyncio.to_thread(load_package)  # ours, and not the time that a server takes
            usual = self._number("CELLWRIGHT_MCP_WAIT", FIRST_WAIT_SECONDS)
            # a little longer than a connection may take: then it is known why there is none
            required = self._number("MCP_TIMEOUT", CONNECT_SECONDS * 1_000) / 1_000 + 1

            async def wait(connection: ServerConnection) -> None:
                seconds = max(required, usual) if connection.entry.scope == "flag" else usual
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(connection.settled.wait(), seconds)

            await asyncio.gather(*map(wait, new))
            self._waited_for.update(new)
        if self._only_given:
            self._check_given()

    def _number(self, variable: str, default: float) -> float:
        from cellwright.tools.mcp.tools import number_in

        return number_in(self._in_force.environment, variable, default)

    def _check_given(self) -> None:
        given = {name for entries, origin in self._place().given if origin.scope == "flag" for name in entries}
        there = {name for name, each in self._connections.items() if each.state == "connected"}
        if missing := sorted(given - there - self._disabled):
            reasons = [f"{visible_line(name)}: {self._reason(name)}" for name in missing]
            message = f"Not all MCP servers that were named are there. {'. '.join(reasons)}. Nothing was sent."
            raise CellwrightError(ErrorCode.MCP_CONNECTION_FAILED, message)

    def _reason(self, name: str) -> str:
        connection = self._connections.get(name)
        if connection is None:
            in_words = [notice for notice in self._found.notices if name in notice]
            known = name in self._found.entries
            return (
                "a rule or the administrator denies it" if known else (in_words or [self._missing(name)])[0].rstrip(".")
            )
        match connection.state:
            case "needs sign-in":
                return f"it needs you to sign in: /mcp login {name}"
            case "connecting" | "lost":
                seconds = "MCP_TIMEOUT" if connection.entry.scope == "flag" else "CELLWRIGHT_MCP_WAIT=30"
                return f"it has not answered yet ({seconds} says how long a first request waits)"
            case _:
                return connection.problem or "it was ended"

    def states(self) -> dict[str, str]:
        """The states of the servers that are for everybody, by name."""
        return {name: each.state for name, each in self._common().items()}

    def not_loaded(self) -> list[NotLoaded]:
        """The servers that are configured, or that the agent that works itself names, and are not there."""
        named = () if self._lead is None else self._lead.servers or ()
        missing = [name for name, each in self._common().items() if each.state != "connected"]
        missing += [name for name in self._found.pending if name not in missing]
        missing += [name for name in named if name not in self._found.entries and name not in missing]
        return [NotLoaded("MCP server", visible_line(name), self._reason(name)) for name in missing]

    async def close(self) -> None:
        """End all connections."""
        ending = [*self._connections.values()]
        self._connections.clear()
        for name in [*self._sign_ins]:
            await self._sign_ins.pop(name).cancel()
        await asyncio.gather(*(each.close() for each in ending))

    async def call_for_text(self, server: str, name: str, values: Mapping[str, Any]) -> str:
        """Call a server's tool without Claude; its text. Raises LookupError where there is no such server, and ToolError."""
        connection = self._connections.get(server)
        if connection is None:
            raise LookupError(f"there is no MCP server {server}")
        from cellwright.tools.mcp.tools import result_of

        result = await result_of(await connection.call_tool(name, values, ToolContext("hook", unheard)))
        if not isinstance(result.content, str) or result.is_error:
            raise ToolError(f"{name} gave no text: {result.content!s:.300}")
        return result.content

    def connected_tools(self) -> tuple[Tool, ...]:
        """The tools of the servers that are connected, and of one that is being connected again those it had."""
        state = tuple((name, id(each.tools)) for name, each in self._common().items())
        if self._made[0] != state:
            self._made = (state, self._tools_of(self._common))
        return self._made[1]

    def _common(self) -> Mapping[str, ServerConnection]:
        """The servers that are for everybody; where an agent works itself that names some, those."""
        named = None if self._lead is None else self._lead.servers
        return {
            name: each
            for name, each in self._connections.items()
            if self._is_for_all(each.entry) and (named is None or name in named)
        }

    def _is_for_all(self, entry: ServerEntry) -> bool:
        """Return whether the server is no agent's own, or of the agent that works itself."""
        return not entry.agent or (self._lead is not None and entry.agent == self._lead.name)

    def _tools_of(self, connections: Callable[[], Mapping[str, ServerConnection]]) -> tuple[Tool, ...]:
        settings = self._in_force.settings
        made: dict[str, Tool] = {}
        for connection in connections().values():
            for name, tool in connection.tools.items():
                if name not in made and tool_is_allowed(name, settings):
                    made[name] = tool
        if any(each.has_resources for each in connections().values()):
            from cellwright.tools.mcp.tools import resource_tools

            made.update({tool.name: tool for tool in resource_tools(connections)})
        return tuple(made.values())

    async def begin_agent(self, agent: AgentDefinition, work: str) -> tuple[Callable[[], Sequence[Tool]], str]:
        """Connect the servers that an agent names; what gives their tools, and which are not there and why, in words.

        They stay connected until `end_agent` is called with the same `work`.
        """
        names = agent.servers or ()
        await asyncio.to_thread(self.refresh)
        self._of_agents[work] = names

        def own() -> Mapping[str, ServerConnection]:
            return {
                name: each
                for name, each in self._connections.items()
                if name in names and each.entry.agent in ("", agent.name)
            }

        await self.connect()
        await self.settled(self._number("MCP_TIMEOUT", CONNECT_SECONDS * 1_000) / 1_000)
        missing = [f"{name}: {self._missing(name)}" for name in names if name not in own()]
        missing += [f"{name}: {each.problem}" for name, each in own().items() if each.state != "connected"]
        return lambda: self._tools_of(own), "; ".join(missing)

    async def end_agent(self, work: str) -> None:
        """End the servers that no agent needs any more."""
        if self._of_agents.pop(work, None):
            await self.connect()

    def prompts(self) -> dict[str, tuple[ServerConnection, ServerPrompt]]:
        """The prompts of connected servers by the names of their commands: `mcp__server__prompt`."""
        return {
            f"{each.entry.prefix}{plain_name(prompt.name)}": (each, prompt)
            for each in self._common().values()
            for prompt in each.prompts
        }


def _sign_in_module() -> Any:
    with importing:
        import cellwright.tools.mcp.oauth as module  # the `mcp` package, a second's work

    return module


class McpServers(ServerConnections, Feature):
    """The MCP servers of a conversation."""

    in_dry_runs = False  # a dry run starts nothing

    @property
    def trust_checks(self) -> Sequence[TrustCheck]:  # type: ignore[override]  # read-only, of its own
        return (self,)

    @property
    def is_open(self) -> bool:
        return bool(self._connections)

    def begin(self, run: RunInfo) -> None:
        self.use_for_run(run.options.mcp_servers, only=not run.options.builtin_tools)

    def tools(self, options: RunOptions) -> Sequence[Tool]:
        """The servers' tools as an agent takes them: sent before the first word if none can be loaded later."""
        found = self.connected_tools() if options.has_servers else ()
        if not found or tools_may_be_deferred(self._in_force.environment):
            return found
        return [replace(tool, defer_loading=False) for tool in found]

    def notices(self, run: RunInfo) -> Sequence[str]:
        """The faults of the configuration, as `question` found it."""
        return self._found.notices

    def call(self, run: RunInfo, prompt: PromptContext) -> PromptCall | None:
        if not isinstance(run.prompt, str) or not self.is_call(run.prompt):
            return None
        return PromptCall(functools.partial(self.block, run.prompt), self.expansion(run.prompt))

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider | None:
        return self.for_prompt if run.has_servers else None

    def after_summary(self, run: RunInfo | None) -> ContextProvider | None:
        return self.listing if run is not None and run.has_servers else None

    async def get_ready(self, run: RunInfo) -> bool:
        if run.has_servers:
            await self.wait_for_servers()
        return run.has_servers

    def session_left(self, because: str) -> None:
        if because == "clear":
            self.ask_again()

    async def for_prompt(self, prompt_context: PromptContext) -> ContextItems:
        """Tell Claude of the servers, when that is new, and attach the resources that are mentioned; a `ContextProvider`."""
        if not self._connections and not self._found.notices:
            return ContextItems()
        told = await self.listing(prompt_context)
        mentioned = islice(_MENTION.finditer(without_code(prompt_context.words)), 20)
        after = [await self._mentioned(match["server"], match["uri"]) for match in mentioned]
        return ContextItems(
            before=told.before,
            after=tuple(each for each in after if isinstance(each, ContextItem)),
            notices=tuple(each for each in after if isinstance(each, str) and each),
        )

    async def listing(self, prompt_context: PromptContext) -> ContextItems:
        """Tell Claude of the servers that are connected now, when that is new; a `ContextProvider`."""
        block = self._listed(prompt_context)
        if is_in_history(_TAG, block, prompt_context.session):
            return ContextItems()
        return ContextItems(before=(text_context("MCP servers", "mcp", block),))

    def _listed(self, prompt_context: PromptContext) -> str:
        agent, session = prompt_context.agent, prompt_context.session
        late = {tool.name: tool for tool in self.connected_tools() if not agent.policy.hides(tool)}
        names = session.tool_names if session.has_begun else frozenset(tool.name for tool in agent.tools)
        searches = TOOL_SEARCH in names and limits(agent.model).tool_search
        if session.has_begun and not searches:
            late = {name: tool for name, tool in late.items() if name in names}
        if not late and not any(each.state == "connecting" for each in self._common().values()):
            return ""
        lines = ["Connected MCP servers. Their descriptions come from the servers, not from the user."]
        if searches:
            lines.append("Their tools can be called once ToolSearch has loaded them (`select:NAME,NAME`, or words).")
        # without ToolSearch nothing is added to what a session began with
        later = "ToolSearch finds its tools when they are there" if searches else "its tools are not in this session"
        room = LISTING_CHARS // max(len(late) + len(self._common()), 1)
        for name, each in self._common().items():
            state = f" ({each.state}: {'its tools are not available' if each.state == 'failed' else later})"
            state = "" if each.state == "connected" else state
            lines.append(f"- server {visible_line(name)}{state}")
            if each.instructions:
                lines.append(visible_line(each.instructions, max(room * 4, 200)))
            own = [tool for tool in each.tools.values() if tool.name in late]
            for tool in own:
                clause = _FIRST_CLAUSE.match(tool.description.strip())
                lines.append(
                    f"  - {tool.name}: {visible_line(clause[0].strip())[:room] if clause else ''}".rstrip(": ")
                )
        text = "\n".join(lines)
        return listing(_TAG, text if len(text) <= LISTING_CHARS else f"{text[:LISTING_CHARS]}\n…and more: search")

    async def _mentioned(self, server: str, uri: str) -> ContextItem | str:
        connection = self._connections.get(server)
        if connection is None:
            return ""  # it only looked like one
        try:
            from cellwright.tools.mcp.tools import resource_content

            blocks = await resource_content(connection, uri)
        except ToolError as error:
            return f"@{server}:{uri}: not attached. {error.message}"
        title = f"@{server}:{uri}"
        opening = {"type": "text", "text": f'<attached mention="{visible_line(title, 300)}" what="MCP resource">'}
        return ContextItem(title, "mcp", (opening, *blocks, {"type": "text", "text": "</attached>"}))

    def is_call(self, prompt: object) -> bool:
        """Return whether `prompt` calls a server's prompt."""
        return isinstance(prompt, str) and _CALL.fullmatch(prompt) is not None

    @staticmethod
    def expansion(call: str) -> Mapping[str, str]:
        """The fields that UserPromptExpansion hooks are told of the call of a server's prompt."""
        match = _CALL.fullmatch(call)
        assert match is not None
        return {
            "expansion_type": "mcp_prompt",
            "command_name": match["name"],
            "command_args": match["arguments"].strip(),
            "command_source": "mcp",
        }

    async def block(self, call: str) -> tuple[ContextItem, ...]:
        """Get what a server says to the call of one of its prompts. Raises CellwrightError; then nothing is sent."""
        match = _CALL.fullmatch(call)
        assert match is not None
        from cellwright.tools.mcp.tools import blocks_of, number_in

        await asyncio.to_thread(self.refresh)
        await self.connect()
        await self.settled(number_in(self._in_force.environment, "MCP_TIMEOUT", CONNECT_SECONDS * 1_000) / 1_000)
        found = self.prompts().get(match["name"])
        if found is None:
            known = ", ".join(f"/{name}" for name in sorted(self.prompts())) or "none"
            message = f"MCP prompt /{match['name']} was not found. Available: {known}. Nothing was sent."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        connection, prompt = found
        try:
            arguments = _arguments(prompt, match["arguments"].strip())
            result = await connection.prompt(prompt.name, arguments)
        except ToolError as error:
            raise CellwrightError(error.code, f"/{match['name']}: {error.message} Nothing was sent.") from None
        blocks: list[Mapping[str, Any]] = []
        for message in result.messages[:100]:
            if message.role == "assistant":
                blocks.append({"type": "text", "text": "[as an example, you answered:]"})
            blocks += await blocks_of([message.content])
        opening = {"type": "text", "text": f'<mcp_prompt name="{match["name"]}">'}
        return (ContextItem(f"/{match['name']}", "mcp", (opening, *blocks, {"type": "text", "text": "</mcp_prompt>"})),)


def _arguments(prompt: ServerPrompt, given: str) -> dict[str, str]:
    """The words after a command as the prompt's arguments, in order; the last takes what is left. Raises ToolError."""
    try:
        words = shlex.split(given)
    except ValueError:
        words = given.split()
    names = [name for name, _ in prompt.arguments]
    if names and len(words) > len(names):
        words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
    arguments = dict(zip(names, words, strict=False))
    missing = [name for name, required in prompt.arguments if required and name not in arguments]
    if missing:
        raise ToolError(f"it needs {', '.join(missing)}.", code=ErrorCode.INVALID_PARAMETERS)
    return arguments
