"""Claude Code as a `Provider`: each conversation has a running program while it is at work, and for some minutes after.

A request that goes on where a program waits is answered by that one: results go to its waiting calls, a prompt is its next
message. Any other (a resumed or forked session, a compacted one, another model) starts a program anew, which is given
the conversation as a session to resume.

A program runs the loop of calls itself; its tools are ours alone, offered over MCP in this process, and each of its calls
waits here until our own loop has decided and done it. Its files, settings, hooks and sessions are off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.events import Retrying, TurnEnd
from cellwright.model.claude_code_format import (
    SERVER,
    Message,
    as_told,
    has_results,
    history_and_prompt,
    results_of,
    session_lines,
    system_text,
    tool_definitions,
    wire_name,
)
from cellwright.model.message_stream import ErrorEvent, MessageBuilder
from cellwright.model.provider import INVALID_JSON, ProviderEvent, Request, request_sent
from cellwright.model.retry import RetryPolicy
from cellwright.this_process.files import new_folder, remove
from cellwright.this_process.late_imports import importing
from cellwright.version import VERSION

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient
    from claude_agent_sdk import Message as ProgramMessage

_CODES = {
    "authentication_failed": ErrorCode.API_KEY_INVALID,
    "oauth_org_not_allowed": ErrorCode.API_KEY_INVALID,
    "billing_error": ErrorCode.API_RATE_LIMITED,
    "rate_limit": ErrorCode.API_RATE_LIMITED,
    "overloaded": ErrorCode.API_OVERLOADED,
    "server_error": ErrorCode.API_OVERLOADED,
    "invalid_request": ErrorCode.API_REQUEST_INVALID,
    "model_not_found": ErrorCode.API_REQUEST_INVALID,
    "max_output_tokens": ErrorCode.API_REQUEST_INVALID,
}

_PASSES = (ErrorCode.API_RATE_LIMITED, ErrorCode.API_OVERLOADED, ErrorCode.API_NETWORK_ERROR)

SILENCE_SECONDS = 900.0
"""The time the program may say nothing: it has limits of its own for the API's silence."""


_A_DAY_MS = str(24 * 60 * 60 * 1000)
_CALL_ID = "claudecode/toolUseId"

_QUIET = {
    # what is ours to do is not done twice, and nobody is called but the model
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "DISABLE_AUTO_COMPACT": "1",
    # every tool is declared from the start, a call takes as long as it takes, and a result comes whole
    "ENABLE_TOOL_SEARCH": "false",
    "MCP_TOOL_TIMEOUT": _A_DAY_MS,
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": _A_DAY_MS,
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": _A_DAY_MS,
    "MAX_MCP_OUTPUT_TOKENS": "10000000",
}

IDLE_SECONDS = 300.0
"""The time a program waits for the next prompt: as long as the API's cache keeps the conversation."""

CALLS_SECONDS = 3600.0
"""The time it waits for the results of its calls. Later ones find a program of their own, with the same conversation."""


_Move = dict[str, dict[str, Any]] | list[dict[str, Any]]
"""Something that a program waits for: the results of its calls by their ids, or the blocks of the next prompt."""


def code_of(kind: str, status: int | None) -> ErrorCode:
    """The code for what Claude Code calls `kind`, or else for the API's `status`."""
    if kind in _CODES:
        return _CODES[kind]
    if status is None:
        return ErrorCode.API_NETWORK_ERROR
    if status in (401, 403):
        return ErrorCode.API_KEY_INVALID
    if status in (402, 429):
        return ErrorCode.API_RATE_LIMITED
    return ErrorCode.API_OVERLOADED if status >= 500 else ErrorCode.API_REQUEST_INVALID


def api_error(kind: str, status: int | None, words: str, *, program: str, resets: str = "") -> ApiError:
    """The error of a request that Claude Code has given up: what it says, and what to do.

    `program` is how to call it in a terminal, `resets` is when a limit ends, where it is known.
    """
    words = words.strip().rstrip(".") or "it gave no reason"
    code = code_of(kind, status)
    what = f"Claude Code could not ask the model ({words})."
    advice = ""
    if "prompt is too long" in words.lower():
        code, advice = ErrorCode.CONTEXT_TOO_LONG, "Start a new session, or /compact this one."
    elif code == ErrorCode.API_KEY_INVALID:
        if status is None:
            code = ErrorCode.API_KEY_MISSING
        advice = f"Sign in: run `{program} auth login` in a terminal, and ask again."
    elif code == ErrorCode.API_RATE_LIMITED:
        advice = f"The limit ends {resets}." if resets else "Ask again later, or with a key (`--provider api`)."
    details = {"type": "not_found_error" if kind == "model_not_found" else kind, "status": status}
    details = {name: value for name, value in details.items() if value}
    return ApiError(
        code, " ".join(part for part in (what, advice) if part), details=details, recoverable=code in _PASSES
    )


class Head(Struct, frozen=True):
    """Everything that a program is started with; a request with another one needs another program."""

    model: str
    system: str
    tools: bytes
    max_tokens: int
    thought: str
    """JSON: how it thinks, as the program's library takes it."""

    @classmethod
    def of(cls, request: Request) -> Head:
        """The head of a request."""
        thought = {**request.options.chosen, "thinking": request.thinking or {"type": "disabled"}}
        return cls(request.model, system_text(request), request.tools, request.max_tokens, json.dumps(thought))


class _Answer:
    """The message that the program is at, and what it said of a failure."""

    def __init__(self, message: MessageBuilder) -> None:
        self.message = message
        self.has_begun = False
        self.failure = ""
        self.resets = ""


class Program:
    """A running program. `calls` are the ids of its calls that wait for results; `is_over`: it takes no more messages."""

    def __init__(self, head: Head, path: Path, environ: Mapping[str, str], *, max_retries: int) -> None:
        import claude_agent_sdk  # takes a second, of which the provider's `prepare` takes care

        self._sdk: Any = claude_agent_sdk
        self.head = head
        self.calls: tuple[str, ...] = ()
        self.is_over = False
        self._path = path
        self._environ = environ
        self._max_retries = max_retries
        self._names = {wire_name(tool["name"]): tool["name"] for tool in tool_definitions(head.tools)}
        self._results: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._said: asyncio.Queue[ProgramMessage | BaseException | None] = asyncio.Queue()
        self._stderr: deque[str] = deque(maxlen=8)
        self._folder: Path | None = None
        self._client: ClaudeSDKClient | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, history: Sequence[Message]) -> None:
        """Start the program with the conversation so far. Raises `ApiError`."""
        self._folder = new_folder("claude")
        client = self._sdk.ClaudeSDKClient(self._options(history, self._folder))
        try:
            await client.connect()
        except self._sdk.ClaudeSDKError as error:
            remove(self._folder)
            raise self._broken(f"it did not start: {error}") from None
        self._client = client
        self._reading = asyncio.create_task(self._read(client))

    def _options(self, history: Sequence[Message], folder: Path) -> ClaudeAgentOptions:
        with importing:
            from mcp.server import Server
            from mcp_types import CallToolResult, ListToolsResult

        tools = [
            {
                "name": wire_name(tool["name"]).removeprefix(f"mcp__{SERVER}__"),
                "description": tool.get("description") or "",
                "inputSchema": tool["input_schema"],
            }
            for tool in tool_definitions(self.head.tools)
        ]

        async def listed(_context: Any, _params: Any) -> ListToolsResult:
            return ListToolsResult.model_validate({"tools": tools})

        async def called(_context: Any, params: Any) -> CallToolResult:
            # waits for our own loop, which decides about the call, runs it, and comes with the next request
            call = (params.meta or {}).get(_CALL_ID, "")
            result = await self._results.setdefault(call, asyncio.get_running_loop().create_future())
            return CallToolResult.model_validate(result)

        server: Any = Server(SERVER, version=VERSION, on_list_tools=listed, on_call_tool=called)
        # long ones do not fit on a command line
        (folder / "system.txt").write_text(self.head.system, "utf-8")
        cwd, resume = str(Path.cwd()), None
        if history:
            resume = folder / f"{(session_id := str(uuid.uuid4()))}.jsonl"
            lines = session_lines(history, session_id=session_id, cwd=cwd, model=self.head.model)
            resume.write_text(lines, "utf-8")
        # one line of the program's output; the SDK's own limit is less than one picture
        return self._sdk.ClaudeAgentOptions(
            cli_path=self._path,
            cwd=cwd,
            env={
                **self._environ,
                **_QUIET,
                "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(self.head.max_tokens),
                "CLAUDE_CODE_MAX_RETRIES": str(self._max_retries),
            },
            model=self.head.model,
            **json.loads(self.head.thought),
            system_prompt={"type": "file", "path": str(folder / "system.txt")},
            resume=None if resume is None else str(resume),
            mcp_servers={SERVER: {"type": "sdk", "name": SERVER, "instance": server}},
            strict_mcp_config=True,
            tools=[],
            allowed_tools=[f"mcp__{SERVER}"],
            setting_sources=[],
            include_partial_messages=True,
            verbatim_prompts=True,
            max_buffer_size=256 * 1024 * 1024,
            stderr=self._stderr.append,
            extra_args={"no-session-persistence": None, "disable-slash-commands": None},
        )

    async def _read(self, client: ClaudeSDKClient) -> None:
        """Take what the program says as it comes: it must not wait for us while our loop runs a tool."""
        try:
            async for message in client.receive_messages():
                self._said.put_nowait(message)
        except Exception as error:  # noqa: BLE001  whatever it is, the answer ends with it
            self._said.put_nowait(error)
        self._said.put_nowait(None)

    def give(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Give the results of the calls that wait."""
        loop = asyncio.get_running_loop()
        for call, result in results.items():
            waiting = self._results.setdefault(call, loop.create_future())
            if not waiting.done():
                waiting.set_result(result)

    async def prompt(self, content: Sequence[Mapping[str, Any]]) -> None:
        """Say the next message of the user's side. Raises `ApiError`."""

        async def said() -> AsyncGenerator[dict[str, Any], None]:
            yield {"type": "user", "message": {"role": "user", "content": list(content)}, "parent_tool_use_id": None}

        assert self._client is not None
        try:
            await self._client.query(said())
        except self._sdk.ClaudeSDKError as error:
            raise self._broken(f"it takes no message: {error}") from None

    async def answer(self) -> AsyncGenerator[ProviderEvent, None]:
        """The events of its next message. Raises `ApiError`."""
        self.calls = ()
        answer = _Answer(MessageBuilder(self.head.model))
        while not answer.message.is_complete:
            for event in self._events_of(await self._next(), answer):
                yield event
        end = answer.message.turn_end("")
        await self._settle(end)
        yield end

    def _events_of(self, said: ProgramMessage, answer: _Answer) -> Iterator[ProviderEvent]:
        sdk = self._sdk
        match said:
            case sdk.StreamEvent(event=event, parent_tool_use_id=None):
                if event.get("type") == "message_start":
                    if answer.has_begun:  # the program asks again by itself
                        cut = "The answer was cut off."
                        yield Retrying(1, self._max_retries, 0.0, str(ErrorCode.API_NETWORK_ERROR), cut)
                    answer.message, answer.has_begun = MessageBuilder(self.head.model), True
                if (told := self._added(answer.message, event)) is not None:
                    yield told
            case sdk.SystemMessage(subtype="api_retry", data=data):
                answer.has_begun = False
                yield self._retrying(data)
            case sdk.RateLimitEvent(rate_limit_info=info):
                # a time of day, in words of this machine's clock; empty where none is known
                at = info.resets_at
                answer.resets = "" if at is None else time.strftime("on %d %B at %H:%M", time.localtime(at))
            case sdk.AssistantMessage(error=str(error)):
                answer.failure = error
            case sdk.ResultMessage(result=words, api_error_status=status):
                raise api_error(answer.failure, status, words or "", program=str(self._path), resets=answer.resets)

    def _added(self, message: MessageBuilder, event: dict[str, Any]) -> ProviderEvent | None:
        block = event.get("content_block")
        if isinstance(block, dict) and block.get("type") == "tool_use":
            event = {**event, "content_block": {**block, "name": self._names.get(block["name"], block["name"])}}
        try:
            return message.add(json.dumps(event).encode())
        except ErrorEvent:
            return None  # the program asks again, or tells of it in a message of its own
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._broken(f"its answer is not what the Messages API sends: {error}") from None

    async def _settle(self, end: TurnEnd) -> None:
        """Decide what comes behind a message: results, the next prompt, or nothing, where it would go on by itself."""
        calls = [block for block in end.message["content"] if block["type"] == "tool_use"]
        ours = set(self._names.values())
        if end.stop_reason == "tool_use":
            self.calls = tuple(block["id"] for block in calls)
            # those it answers itself, with words of its own
            self.is_over = any(block["name"] not in ours or INVALID_JSON in block["input"] for block in calls)
        elif end.stop_reason in ("end_turn", "stop_sequence") and not calls:
            with contextlib.suppress(CellwrightError):
                while not isinstance(await self._next(), self._sdk.ResultMessage):
                    pass
                return
            self.is_over = True
        else:
            self.is_over = True

    async def _next(self) -> ProgramMessage:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                said = await self._said.get()
        except TimeoutError:
            raise self._broken(f"it said nothing for {SILENCE_SECONDS:.0f} s") from None
        if said is None or isinstance(said, BaseException):
            self.is_over = True
            raise self._broken(f"it ended: {said}" if said else "it ended")
        return said

    def _retrying(self, data: Mapping[str, Any]) -> Retrying:
        status = data.get("error_status")
        kind = str(data.get("error") or "")
        what = f"status {status}, {kind}" if status else kind or "no answer"
        return Retrying(
            int(data.get("attempt") or 1),
            int(data.get("max_retries") or self._max_retries),
            float(data.get("retry_delay_ms") or 0) / 1000,
            str(code_of(kind, status)),
            f"Claude Code's request failed ({what}).",
        )

    def _broken(self, what: str) -> ApiError:
        said = " ".join(self._stderr)
        message = f"Claude Code failed: {what}." + (f" It said: {said[-500:]}" if said else "")
        return ApiError(ErrorCode.API_NETWORK_ERROR, message, recoverable=True)

    async def close(self) -> None:
        """End the program: first what it is at, so that it asks nothing more."""
        client, self._client, self.is_over = self._client, None, True
        if client is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(2.0):
                    await client.interrupt()
            with contextlib.suppress(Exception):
                await client.disconnect()
        if self._reading is not None:
            self._reading.cancel()
        for waiting in self._results.values():
            waiting.cancel()
        if self._folder is not None:
            remove(self._folder)


class _Waiting:
    """A program between two requests: the messages it knows, its last answer, and the timer that ends it."""

    def __init__(self, program: Program, messages: list[bytes], answer: list[Any]) -> None:
        self.program = program
        self.messages = messages
        self.answer = answer
        self.loop = asyncio.get_running_loop()
        self.timer: asyncio.TimerHandle | None = None

    def is_known_to(self, request: Request) -> bool:
        """Return whether `request` goes on from the answer, with whatever."""
        known = len(self.messages)
        if len(request.messages) <= known or list(request.messages[:known]) != self.messages:
            return False
        return bool(json.loads(request.messages[known]) == {"role": "assistant", "content": self.answer})

    def move(self, request: Request) -> _Move | None:
        """Find what `request` says behind the answer; None where a new program has to be told it."""
        if Head.of(request) != self.program.head or len(request.messages) != len(self.messages) + 2:
            return None
        [told] = as_told(request.messages[-1:])
        if self.program.calls:
            return results_of(told, self.program.calls)
        return None if has_results(told) else list(told["content"])


class ClaudeCodeProvider:
    """Asks the model through the `claude` program at `path`, which is signed in by itself.

    `environ` gives the environment that the settings make. It may be used from several event loops; `aclose` ends the
    running loop's programs.
    """

    def __init__(self, path: Path, environ: Callable[[], Mapping[str, str]]) -> None:
        self._path = path
        self._environ = environ
        self._waiting: list[_Waiting] = []
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"ClaudeCodeProvider({str(self._path)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def prepare(self) -> None:
        """Import what the first request needs, so that it need not wait for that."""

        def import_sdk() -> None:
            import claude_agent_sdk  # noqa: F401  takes a second

            with importing:
                import mcp.server  # noqa: F401

        await asyncio.to_thread(import_sdk)

    async def aclose(self) -> None:
        """End the programs that were started in the running loop. The provider can be used again."""
        loop = asyncio.get_running_loop()
        for waiting in [each for each in self._waiting if each.loop is loop]:
            self._end(waiting)
        own = [task for task in self._closing if task.get_loop() is loop]
        if own:
            await asyncio.wait(own)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """The events of one message, as `Provider` promises. Raises `ApiError`."""
        _check(request)
        asyncio.get_running_loop().call_soon(request_sent.get())  # a program takes its time to begin
        await self.prepare()
        program, is_kept = None, False
        try:
            if (going_on := self._going_on(request)) is not None:
                waiting, move = going_on
                program = waiting.program
                if isinstance(move, list):
                    await program.prompt(move)
                else:
                    program.give(move)
            else:
                environ = self._environ()
                retries = RetryPolicy.from_environment(environ).max_retries
                program = Program(Head.of(request), self._path, environ, max_retries=retries)
                history, prompt = history_and_prompt(as_told(request.messages))
                await program.start(history)
                await program.prompt(prompt)
            async with contextlib.aclosing(program.answer()) as events:
                async for event in events:
                    if isinstance(event, TurnEnd) and request.cache_whole and not program.is_over:
                        self._keep(_Waiting(program, list(request.messages), event.message["content"]))
                        is_kept = True
                    yield event
        finally:
            if program is not None and not is_kept:
                self._close(program)

    def _going_on(self, request: Request) -> tuple[_Waiting, _Move] | None:
        """The program that waits for what `request` ends with, and that; it waits no more then.

        One whose conversation goes on in another way is ended: nobody comes back to it.
        """
        loop = asyncio.get_running_loop()
        for waiting in [each for each in self._waiting if each.loop is loop and each.is_known_to(request)]:
            move = waiting.move(request)
            if move is not None:
                self._forget(waiting)
                return waiting, move
            self._end(waiting)
        return None

    def _keep(self, waiting: _Waiting) -> None:
        seconds = CALLS_SECONDS if waiting.program.calls else IDLE_SECONDS
        waiting.timer = waiting.loop.call_later(seconds, self._end, waiting)
        self._waiting = [*(each for each in self._waiting if not each.loop.is_closed()), waiting]
        ours = [each for each in self._waiting if each.loop is waiting.loop]
        # a further program that waits ends that which waited longest, for a prompt rather than for results
        if len(ours) > 6:
            self._end(next((each for each in ours if not each.program.calls), ours[0]))

    def _forget(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        if waiting.timer is not None:
            waiting.timer.cancel()

    def _end(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        self._close(waiting.program)

    def _close(self, program: Program) -> None:
        """End a program beside what goes on: whoever pressed Stop need not wait for it."""
        task = asyncio.get_running_loop().create_task(program.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _check(request: Request) -> None:
    """Raises `ApiError` API_REQUEST_INVALID for what the program does not offer."""
    if request.compaction is not None:
        raise ApiError(ErrorCode.API_REQUEST_INVALID, f"The way to {request.model} has no compaction of its own.")
    if request.stop_sequences:
        message = "Claude Code takes no stop sequences. What needs them (inline completion) needs an API key."
        raise ApiError(ErrorCode.API_REQUEST_INVALID, message)
