"""`query` and `ClaudeSDKClient` over `cellwright.Agent`: prompts go to our loop, messages come back to the program's.

The program's callbacks (`can_use_tool`, hooks, tools) run on its own event loop, asyncio's or trio's, as with the SDK. A
prompt that is sent while another is at work waits for its turn and has a result of its own. Messages are Claude Code's, as
JSON, made into the classes of claude-agent-sdk.
"""

from __future__ import annotations

import functools
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import fields
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread

from cellwright.claude_agent_sdk.loops import CallersLoop, Inbox
from cellwright.claude_agent_sdk.options import agent_options, given_options, own_server_names, servers
from cellwright.claude_agent_sdk.types import (
    AssistantMessage,
    ClaudeAgentOptions,
    CLIConnectionError,
    ContentBlock,
    ContextUsageResponse,
    McpStatusResponse,
    Message,
    PermissionMode,
    ResultError,
    ResultMessage,
    ServerToolResultBlock,
    ServerToolUseBlock,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from cellwright.commands.command import command_name
from cellwright.commands.registry import COMMANDS, is_answered_here
from cellwright.commands.session_facts import SERVER_STATUS, session_facts
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, Notice, RunEnd, TurnChanged
from cellwright.features.conversation import Conversation
from cellwright.python_api.agent import Agent, agents_request, conversation_of
from cellwright.python_api.ask_options import given_servers
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder
from cellwright.telemetry.claude_messages import ClaudeMessages, page_result
from cellwright.terminal.claude_code.messages import answers_of

Json = Mapping[str, Any]

_SYSTEM: dict[str, type[SystemMessage]] = {
    "task_started": TaskStartedMessage,
    "task_notification": TaskNotificationMessage,
}

_REASONS = {"error_max_turns": "max_turns", "error_max_budget_usd": "max_budget", "success": "api_error"}
"""The reason why a run ended that failed, by the subtype of its result."""

_BLOCKS: dict[str, Callable[[Json], ContentBlock]] = {
    "text": lambda block: TextBlock(block["text"]),
    "thinking": lambda block: ThinkingBlock(block["thinking"], block.get("signature", "")),
    "tool_use": lambda block: ToolUseBlock(block["id"], block["name"], dict(block["input"])),
    "tool_result": lambda block: ToolResultBlock(block["tool_use_id"], block.get("content"), block.get("is_error")),
    "server_tool_use": lambda block: ServerToolUseBlock(block["id"], block["name"], dict(block["input"])),
}

T = TypeVar("T")

Prompt = str | AsyncIterable[dict[str, Any]]

_OF_API = {
    "authentication_failed": (ErrorCode.API_KEY_MISSING, ErrorCode.API_KEY_INVALID),
    "rate_limit": (ErrorCode.API_RATE_LIMITED,),
    "server_error": (ErrorCode.API_OVERLOADED, ErrorCode.API_NETWORK_ERROR),
    "invalid_request": (ErrorCode.API_REQUEST_INVALID, ErrorCode.CONTEXT_TOO_LONG, ErrorCode.REFUSED),
}
"""The SDK's word for an error of the API, which an assistant's message tells as well."""

SYNTHETIC = "<synthetic>"
"""The model of a message that no model has written."""


def as_message(given: Json) -> Message:
    """The message of the SDK for one of `ClaudeMessages`."""
    match given["type"]:
        case "assistant":
            return _assistant(given)
        case "user":
            content = given["message"]["content"]
            return UserMessage(
                content if isinstance(content, str) else _blocks(content),
                uuid=given.get("uuid"),
                parent_tool_use_id=given.get("parent_tool_use_id"),
            )
        case "stream_event":
            return StreamEvent(given["uuid"], given["session_id"], given["event"], given.get("parent_tool_use_id"))
        case "result":
            reason = _REASONS.get(given["subtype"]) if given["is_error"] else "completed"
            known = _named(ResultMessage, given)
            return ResultMessage(**{"terminal_reason": reason, **known, "model_usage": given.get("modelUsage")})
        case _:
            made = _SYSTEM.get(given["subtype"], SystemMessage)
            more = {} if made is SystemMessage else _named(made, given)
            return made(**{**more, "subtype": given["subtype"], "data": dict(given)})


def _named(made: type[Any], given: Json) -> dict[str, Any]:
    """The fields of `made` that `given` has."""
    return {each.name: given[each.name] for each in fields(made) if each.name in given}


def _assistant(given: Json) -> AssistantMessage:
    message = given["message"]
    return AssistantMessage(
        _blocks(message["content"]),
        message["model"],
        parent_tool_use_id=given.get("parent_tool_use_id"),
        error=given.get("error"),
        usage=message.get("usage"),
        message_id=message.get("id"),
        stop_reason=message.get("stop_reason"),
        session_id=given.get("session_id"),
        uuid=given.get("uuid"),
    )


def result_fields(message: ResultMessage) -> dict[str, Any]:
    """The fields of a result, as `ResultError.data` has them."""
    return {each.name: getattr(message, each.name) for each in fields(message)}


def _blocks(content: list[Json]) -> list[ContentBlock]:
    """The blocks that the SDK has classes for."""
    found: list[ContentBlock] = []
    for block in content:
        if (make := _BLOCKS.get(block["type"])) is not None:
            found.append(make(block))
        elif block["type"].endswith("_tool_result"):
            inner = block.get("content")
            found.append(
                ServerToolResultBlock(block["tool_use_id"], inner if isinstance(inner, dict) else {"content": inner})
            )
    return found


class Transport(ABC):
    """The SDK's way to a program. There is none here: what is given as one is refused."""

    @abstractmethod
    async def connect(self) -> None: ...

    @abstractmethod
    async def write(self, data: str) -> None: ...

    @abstractmethod
    def read_messages(self) -> AsyncIterator[dict[str, Any]]: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def is_ready(self) -> bool: ...

    @abstractmethod
    async def end_input(self) -> None: ...


class _Prompts:
    """The prompts of a client: which turn each is, and how many have no result yet."""

    def __init__(self) -> None:
        self.open = 0
        self.turns: list[tuple[str, list[int]]] = []

    def add(self) -> tuple[str, list[int]]:
        self.open += 1
        self.turns.append((str(uuid.uuid4()), []))
        return self.turns[-1]

    def first_turn(self, prompt_id: str) -> int | None:
        """The number of the first turn, of this prompt or a later one, that changed something. Raises KeyError."""
        ids = [each for each, _ in self.turns]
        if prompt_id not in ids:
            raise KeyError(prompt_id)
        return next((turn for _, turns in self.turns[ids.index(prompt_id) :] for turn in turns), None)


class _AskedOnce(Agent):
    """The agent of `query`, which ends with the answer."""

    _one_prompt = True


class ClaudeSDKClient:
    """A conversation: prompts are sent with `query`, messages come by `receive_response` and `receive_messages`.

    Use it in `async with`, or call `connect` and `disconnect`. Raises CLIConnectionError for what is not connected and for
    options that cannot be meant so.

    >>> import asyncio
    >>> async def talk():
    ...     async with ClaudeSDKClient() as client:
    ...         await client.query("Which tables are here?")
    ...         async for message in client.receive_response():
    ...             if isinstance(message, ResultMessage):
    ...                 print(message.result)
    >>> asyncio.run(talk())
    There is one: sales.csv.
    """

    def __init__(self, options: ClaudeAgentOptions | None = None, transport: Transport | None = None) -> None:
        if transport is not None:
            raise CLIConnectionError("transport= is not there: there is no program to talk to. Leave it out.")
        self.options = ClaudeAgentOptions() if options is None else options
        self._agent: Agent | None = None
        self._agent_type: type[Agent] = Agent
        self._given: Mapping[str, Any] = {}
        self._prompts = _Prompts()
        self._fed = True
        self._stop_feeding: Callable[[], object] = lambda: None

    # ---- beginning and end

    async def connect(self, prompt: Prompt | None = None) -> None:
        """Begin the conversation, with `prompt` if one is given."""
        self._given = given_options(self.options)
        self._loop = CallersLoop()
        self._inbox: Inbox[Message | Exception | None] = Inbox(self._loop)
        self._agent = await self._off_loop(functools.partial(self._made, agent_options(self._given, self._loop)))
        if isinstance(prompt, str):
            await self.query(prompt)
        elif prompt is not None:
            self._fed = False
            self._stop_feeding = self._loop.spawn(functools.partial(self._feed, prompt))

    def _made(self, options: dict[str, Any]) -> Agent:
        """The agent with its session and servers. Raises CellwrightError; reads files."""
        given = self._given
        options["session"], options["fork"] = given.get("resume", ...), bool(given.get("fork_session"))
        if "no-session-persistence" in given.get("extra_args", {}):
            options["session"] = None
        if options["session"] is ...:
            del options["session"]
        agent = self._agent_type(**options)
        try:
            conversation = conversation_of(agent)
            if isinstance(skills := given.get("skills"), list):
                others = set(conversation.features.skills.all()) - set(skills)
                if others:
                    agent.close()
                    hidden = dict.fromkeys(sorted(others), "user-invocable-only")
                    settings = options["settings"]
                    options["settings"] = {
                        **settings,
                        "skillOverrides": {**settings.get("skillOverrides", {}), **hidden},
                    }
                    agent = self._agent_type(**options)
                    conversation = conversation_of(agent)
            self._choose_session(conversation)
            strict, entries = bool(self._given.get("strict_mcp_config")), servers(self._given)
            if strict or entries:
                read = given_servers(entries, conversation.cwd, conversation.in_force.environment) if entries else {}
                conversation.features.mcp.add_named([("mcp_servers", read)], only=strict)
        except BaseException:
            agent.close()
            raise
        return agent

    def _choose_session(self, conversation: Conversation) -> None:
        given, sessions = self._given, conversation.sessions
        if given.get("continue_conversation"):
            sessions.resume_newest()
        if (new_id := given.get("session_id")) is not None:
            if given.get("resume") or given.get("continue_conversation"):
                if not given.get("fork_session"):
                    message = "session_id with resume needs fork_session: a session keeps its id. Nothing was sent."
                    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
                sessions.fork_current(new_id)
            elif (sessions_folder(conversation.cwd) / f"{new_id}.jsonl").exists():
                message = f"The session {new_id} exists already: resume={new_id!r} continues it. Nothing was sent."
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
            else:
                sessions.use(Session.create(conversation.cwd, sessions_folder(conversation.cwd), new_id))

    async def disconnect(self) -> None:
        """End what goes on, and the conversation; its session stays on disk."""
        self._stop_feeding()
        if (agent := self._agent) is not None:
            self._agent = None
            # a thread of its own, begun before anything is waited for: a loop that ends does not keep it from closing
            closing = threading.Thread(target=agent.close, name="close a conversation")
            closing.start()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(closing.join)
            self._inbox.put(None)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        await self.disconnect()
        return False

    @property
    def _connected(self) -> Agent:
        if self._agent is None:
            raise CLIConnectionError("Not connected. Call connect() first.")
        return self._agent

    async def _off_loop(self, work: Callable[[], T]) -> T:
        """Do `work`, which may wait, in a thread. Raises CLIConnectionError for what is wrong with options."""
        try:
            return await anyio.to_thread.run_sync(work)
        except (CellwrightError, TypeError) as error:
            raise CLIConnectionError(getattr(error, "message", str(error))) from error

    # ---- prompts and messages

    async def query(self, prompt: Prompt, session_id: str = "default") -> None:
        """Send a prompt, or each of a stream of messages; `session_id` has no effect, as a client has one session."""
        if isinstance(prompt, str):
            await self._off_loop(functools.partial(self._start, self._connected, prompt))
            return
        async for message in prompt:
            await self._off_loop(functools.partial(self._start, self._connected, _words(message)))

    async def _feed(self, prompts: AsyncIterable[dict[str, Any]]) -> None:
        try:
            await self.query(prompts)
        except Exception as error:  # noqa: BLE001  the program's own stream: raised where messages are read
            self._inbox.put(error)
        finally:
            self._fed = True
            self._inbox.put(None)

    def _start(self, agent: Agent, prompt: str | list[dict[str, Any]]) -> None:
        conversation, given = conversation_of(agent), self._given
        words: Any = prompt
        if given.get("verbatim_prompts") and isinstance(prompt, str):
            words = [{"type": "text", "text": prompt}]
        prompt_id, turns = self._prompts.add()
        if "replay-user-messages" in given.get("extra_args", {}):
            self._inbox.put(
                UserMessage(prompt if isinstance(prompt, str) else [TextBlock(_shown(prompt))], uuid=prompt_id)
            )
        skills = conversation.features.skills
        if isinstance(words, str) and command_name(words) is not None and is_answered_here(words, skills):
            page = agent.command(words)
            self._inbox.put(as_message(page_result(page.plain(), agent.session.id)))
            return
        request, typed, can_use_tool = agents_request(agent, words)
        if (name := given.get("permission_prompt_tool_name")) is not None and name != "stdio":
            can_use_tool = answers_of(name, conversation.features.mcp.call_for_text)
        projection = ClaudeMessages(
            functools.partial(self._facts, conversation, request.options),
            typed,
            partial_messages=bool(given.get("include_partial_messages")),
            agents="all" if given.get("forward_subagent_text") else "calls",
        )

        def emit(event: Event) -> None:
            if isinstance(event, TurnChanged):
                turns.append(event.turn)
            if isinstance(event, Notice) and (tell := given.get("stderr")) is not None:
                self._loop.soon(tell, f"[{event.level.upper()}] {event.message}")
            for message in _told(projection, event):
                self._inbox.put(message)

        try:
            run = conversation.start(request, RunSurface(emit, can_use_tool))
        except BaseException:
            self._prompts.open -= 1
            raise
        run.future.add_done_callback(functools.partial(_ended, run, emit, self._inbox))

    def _facts(self, conversation: Conversation, options: Any) -> dict[str, Any]:
        facts = session_facts(conversation, options)
        own = [{"name": name, "status": "connected"} for name in own_server_names(self._given)]
        return {**facts, "mcp_servers": [*facts["mcp_servers"], *own]}

    async def receive_messages(self) -> AsyncIterator[Message]:
        """All messages, until the client is disconnected."""
        while self._connected:
            item = await self._inbox.get()
            if isinstance(item, Exception):
                raise item
            if item is None and self._agent is None:
                return
            if item is not None:
                self._prompts.open -= isinstance(item, ResultMessage)
                yield item

    async def receive_response(self) -> AsyncIterator[Message]:
        """The messages up to the next result, which is the last of them."""
        async for message in self.receive_messages():
            yield message
            if isinstance(message, ResultMessage):
                return

    async def messages_until_idle(self) -> AsyncIterator[Message]:
        """The messages until every prompt of the stream that was given has its result."""
        while self._prompts.open or not self._fed:
            item = await self._inbox.get()
            if isinstance(item, Exception):
                raise item
            if item is not None:
                self._prompts.open -= isinstance(item, ResultMessage)
                yield item

    # ---- while it works

    async def interrupt(self) -> None:
        """Interrupt the prompt that is at work: its result comes, with `is_error`."""
        agent = self._connected
        await self._off_loop(agent.interrupt)

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        """Go on in another permission mode, at once."""
        agent = self._connected
        await self._off_loop(lambda: agent.set_mode("default" if mode == "auto" else mode))

    async def set_model(self, model: str | None = None) -> None:
        """Go on with another model, None for that of the settings."""
        agent = self._connected
        await self._off_loop(lambda: agent.set_model(model))

    async def rewind_files(self, user_message_id: str) -> None:
        """Take back what was changed in files since the prompt of this id.

        The id is the `uuid` of a `UserMessage`, which `extra_args={"replay-user-messages": None}` has sent back.
        """
        agent = self._connected
        try:
            turn = self._prompts.first_turn(user_message_id)
        except KeyError:
            known = 'extra_args={"replay-user-messages": None} shows the ids of prompts'
            raise CLIConnectionError(f"No prompt of this client has the id {user_message_id}: {known}.") from None
        if turn is not None:
            await self._off_loop(lambda: agent.rewind(turn, "code"))

    async def stop_task(self, task_id: str) -> None:
        """Stop an agent or a command in the background."""
        agent = self._connected
        await self._off_loop(lambda: agent.command(f"/tasks stop {task_id}"))

    async def reconnect_mcp_server(self, server_name: str) -> None:
        """Connect to an MCP server again."""
        agent = self._connected
        await self._off_loop(lambda: agent.command(f"/mcp reconnect {server_name}"))

    async def toggle_mcp_server(self, server_name: str, enabled: bool) -> None:
        """Switch an MCP server on or off."""
        agent = self._connected
        await self._off_loop(lambda: agent.command(f"/mcp {'enable' if enabled else 'disable'} {server_name}"))

    # ---- what there is

    async def get_mcp_status(self) -> McpStatusResponse:
        """The state of each MCP server, with its tools."""
        return await self._off_loop(functools.partial(_server_states, conversation_of(self._connected), self._given))

    async def get_context_usage(self) -> ContextUsageResponse:
        """The fill of the context window, in tokens."""
        agent = self._connected
        return await self._off_loop(functools.partial(_context_usage, agent))

    async def get_server_info(self) -> dict[str, Any] | None:
        """The slash commands and output styles that there are."""
        return await self._off_loop(functools.partial(_server_info, conversation_of(self._connected)))


async def query(
    *, prompt: Prompt, options: ClaudeAgentOptions | None = None, transport: Transport | None = None
) -> AsyncIterator[Message]:
    """The messages of a conversation that is begun for `prompt`, a text or a stream of messages, and ends with it.

    Raises CLIConnectionError for options that cannot be meant so, ResultError after the result of a run that failed.

    >>> import asyncio
    >>> async def ask():
    ...     async for message in query(prompt="Which tables are here?"):
    ...         if isinstance(message, ResultMessage):
    ...             print(message.result)
    >>> asyncio.run(ask())
    There is one: sales.csv.
    """
    client = ClaudeSDKClient(options, transport)
    client._agent_type = _AskedOnce
    await client.connect(prompt)
    last: Message | None = None
    try:
        async for last in client.messages_until_idle():
            yield last
    finally:
        await client.disconnect()
    if isinstance(last, ResultMessage) and last.is_error:
        why = last.result or "; ".join(last.errors or ()) or last.subtype
        raise ResultError(f"The run ended with an error: {why}", result_fields(last))


def _words(message: Any) -> str | list[dict[str, Any]]:
    """The prompt of a user's message as the SDK streams them. Raises CLIConnectionError for anything else."""
    inner = message.get("message") if isinstance(message, Mapping) else None
    content = inner.get("content") if isinstance(inner, Mapping) else None
    if isinstance(content, str) or (isinstance(content, list) and content):
        return content
    raise CLIConnectionError(f"{message!r:.200} is no message with `message.content`, a text or a list of blocks.")


def _told(projection: ClaudeMessages, event: Event) -> list[Message]:
    """The messages of an event; an error of the API comes as an assistant's message, too, as in Claude Code."""
    made = [as_message(each) for each in projection.messages(event)]
    if isinstance(event, RunEnd) and event.error is not None and isinstance(made[-1], ResultMessage):
        word: Any = next((word for word, codes in _OF_API.items() if event.error["code"] in codes), None)
        if word is not None:
            text = TextBlock(made[-1].result or "")
            made.insert(-1, AssistantMessage([text], SYNTHETIC, error=word, session_id=made[-1].session_id))
    return made


def _ended(
    run: Run, emit: Callable[[Event], None], inbox: Inbox[Message | Exception | None], done: Future[RunEnd]
) -> None:
    """Give a run that came to no end of its own a result; a bug of ours is raised where messages are read."""
    if run.last_event is not None:
        return
    try:
        done.result()
    except (CancelledError, KeyboardInterrupt):
        error = CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True)
    except CellwrightError as given:
        error = given
    except Exception as bug:  # noqa: BLE001  raised in the program
        inbox.put(bug)
        return
    else:
        return
    emit(RunEnd("error", "", {}, 0.0, 0.0, 0, 0, 0, error=error.to_json()))


def _server_states(conversation: Conversation, given: Mapping[str, Any]) -> McpStatusResponse:
    found: list[Any] = []
    mcp = conversation.features.mcp
    for name, each in dict(mcp.connections).items():
        state: dict[str, Any] = {"name": name, "status": SERVER_STATUS.get(each.state, "failed")}
        state |= {"error": each.problem} if each.problem else {}
        tools = [{"name": tool.name.removeprefix(each.entry.prefix)} for tool in each.tools.values()]
        found.append({**state, "scope": each.entry.scope, "tools": tools})
    found += [{"name": name, "status": "disabled"} for name in mcp.disabled if name not in mcp.connections]
    own = own_server_names(given)
    for name in own:
        config = given["mcp_servers"][name]
        tools = [{"name": tool.name} for tool in getattr(config["instance"], "sdk_tools", ())]
        about = {"type": "sdk", "name": config.get("name", name)}
        found.append({"name": name, "status": "connected", "config": about, "scope": "sdk", "tools": tools})
    return {"mcpServers": found}


def _context_usage(agent: Agent) -> ContextUsageResponse:
    usage = agent.context_usage()
    window = usage.window or 0
    return {
        "categories": [{"name": name, "tokens": tokens, "color": ""} for name, tokens in usage.parts.items()],
        "totalTokens": usage.tokens,
        "maxTokens": window,
        "rawMaxTokens": window,
        "percentage": 100 * (usage.share or 0.0),
        "model": usage.model,
        "isAutoCompactEnabled": conversation_of(agent).in_force.settings.auto_compact,
        "memoryFiles": [],
        "mcpTools": [],
        "agents": [],
        "gridRows": [],
    }


def _server_info(conversation: Conversation) -> dict[str, Any]:
    styles = conversation.features.styles
    skills = [each for each in conversation.features.skills.all().values() if each.by_user]
    commands = [{"name": name, "description": each.help} for name, each in COMMANDS.items()]
    return {
        "commands": [*commands, *({"name": each.name, "description": each.description} for each in skills)],
        "output_style": styles.chosen()[0].name,
        "available_output_styles": sorted(styles.all()),
    }


def _shown(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in blocks)
