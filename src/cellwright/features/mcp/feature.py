"""MCP servers as a feature: their tools, what Claude knows of them, their resources, and their prompts as commands.

What comes later is declared behind the tools that are there, and loaded by ToolSearch; without it, it comes with the next
prompt.
"""

from __future__ import annotations

import asyncio
import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, text_context
from cellwright.agent.tool import TOOL_SEARCH, Tool
from cellwright.conversation.feature import Feature, PromptCall, RunInfo, is_in_history, listing
from cellwright.conversation.runs.kinds import TrustCheck
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.tools.toolset import tools_may_be_deferred
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.features.mcp.connections import CONNECT_SECONDS, ServerConnections
from cellwright.markdown.prose import without_code
from cellwright.model.models import limits
from cellwright.text import lazy_pattern, visible_line

if TYPE_CHECKING:
    from cellwright.tools.mcp.connection import ServerPrompt

LISTING_CHARS = 12_000
"""Of the list of servers and their tools: about 3,000 tokens."""

MAX_MENTIONS = 20

_TAG = "mcp_servers"
_MENTION = lazy_pattern(
    r"(?<![\w@./\\-])@(?P<server>[\w-]+):(?P<uri>[A-Za-z][\w+.-]*:[^\s\"'<>`]*[^\s\"'<>`.,;:!?)\]}])"
)
_CALL = lazy_pattern(r"\s*/(?P<name>mcp__[\w-]+)(?P<arguments>(?:\s.*)?)", re.DOTALL)
_CLAUSE = lazy_pattern(r"[^.:(\n]+")


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
        mentioned = islice(_MENTION.finditer(without_code(prompt_context.words)), MAX_MENTIONS)
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
            lines += [f"  - {tool.name}: {_first_clause(tool.description)[:room]}".rstrip(": ") for tool in own]
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


def _first_clause(description: str) -> str:
    match = _CLAUSE.match(description.strip())
    return visible_line(match[0].strip()) if match else ""
