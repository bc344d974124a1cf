"""The ways to a server: a program's standard input and output, streamable HTTP, server-sent events.

What comes from a server passes `_Incoming`, whatever the way: it says when the connection has ended, keeps a flood from
taking the loop, and takes out what nobody here may be made to evaluate.

What a program writes to its standard output is read as leniently as can be. A message is a line of strict JSON. Many
programs print something else beside, and some write messages that are not quite that: several lines, half a character, a
raw control character, a batch. What can be understood is a message; what cannot be read but may be an answer is
`Unreadable`, so that the call that waits for it can end.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from cellwright.agent.calls.approval import Confinement
from cellwright.text import lazy_pattern, replace_surrogates, replace_surrogates_in
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.process.child_processes import Child, Command, child_processes
from cellwright.tools.process.runner import child_environment, runs_code_at_start

if TYPE_CHECKING:
    from httpx2 import Auth
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

SHOWN_CHARS = 200
"""Of what could not be read, in the error of the call."""

PARSE_ERROR = -32700
_INTERNAL_ERROR = -32603

_LOOKS_LIKE_MESSAGE = lazy_pattern(r"\{\s*\"(?:jsonrpc|id|method|result|error)\"\s*:")
_MAY_BE_ANSWER = lazy_pattern(r"jsonrpc|[\"'](?:result|error|content)[\"']\s*:|\A\s*<(?:!doctype|html)", re.IGNORECASE)
_ID = lazy_pattern(r"[\"']id[\"']\s*:\s*[\"']?(\d{1,15})\b")
_MARKS = lazy_pattern(r"\\.|[\"{}\[\]]", re.DOTALL)

Message = dict[str, Any]

MAX_MESSAGE_BYTES = 16_000_000
"""Of one message of a program's; more is no message."""

MAX_LISTED = 1_000
"""Tools of one page of a list."""

SILENCE_SECONDS = 0.5
"""A silence after which a line without its end is taken as it is, if it is a message."""

REST_SECONDS = 5.0
"""A silence after which the rest of a message is no longer waited for."""

MESSAGE_SECONDS = 30.0
"""The time that a message may take to arrive, also while something else arrives."""

ENDED = "(its program ended with the exit code"
UNREADABLE = "it sent an answer that cannot be read"

_ERROR_LINE_CHARS = 500
_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Unreadable(Struct, frozen=True):
    """Text that may be an answer and could not be read. `id` is the request's, None if it cannot be made out."""

    reason: str
    id: int | None = None


class Chatter(Struct, frozen=True):
    """Text that a program printed beside its messages."""

    text: str


Read = Message | Unreadable | Chatter


class StdioMessages:
    """Reads messages from chunks of bytes, in order. `size` is what waits for the rest of a message."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._open: list[str] = []
        self._size = 0
        self._depth = 0
        self._in_string = False

    @property
    def size(self) -> int:
        return len(self._line) + self._size

    def read(self, chunk: bytes) -> Iterator[Read]:
        """Read `chunk` up to its last end of a line."""
        self._line += chunk
        if b"\n" not in chunk:
            return
        *lines, rest = self._line.split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            yield from self._read_line(_decoded(bytes(line)))

    def read_rest(self, *, ended: bool) -> Iterator[Read]:
        """Read a last line without its end, after a silence. `ended`: what is incomplete now will stay so."""
        text = _decoded(bytes(self._line))
        if not ended and _value_in("\n".join([*self._open, text])) is None:
            return
        self._line.clear()
        yield from self._read_line(text)
        if ended and self._open:
            yield self._give_up("it was cut off")

    def _read_line(self, text: str) -> Iterator[Read]:
        if self._open:
            complete = [each for each in _flat(_value_in(text)) if _is_message(each)]
            if not complete:
                yield from self._add(text)
                return
            cut_off = self._give_up("it was cut off")  # another message begins
            if not (isinstance(cut_off, Unreadable) and any(each.get("id") == cut_off.id for each in complete)):
                yield cut_off
        while text.strip():
            begins = _beginning(text)
            if begins is None:
                yield _refused(text, "it is no JSON")
                return
            if text[:begins].strip():
                yield Chatter(text[:begins])
            text = text[begins:]
            try:
                value, end = _DECODER.raw_decode(text)
            except RecursionError:
                yield _refused(text, "its brackets go too deep")
                return
            except ValueError:
                yield from self._add(text)
                return
            yield from _messages(value, text[:end])
            text = text[end:]

    def _add(self, text: str) -> Iterator[Read]:
        """Add a line to a message that goes over several, and read it once all its brackets are closed."""
        for match in _MARKS.finditer(text):
            mark = match[0]
            if mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string and len(mark) == 1:
                self._depth += 1 if mark in "{[" else -1
        self._open.append(text)
        self._size += len(text) + 1
        if self._depth > 0 or self._in_string:
            return
        whole = "\n".join(self._open)
        if (value := _value_in(whole)) is None:
            yield self._give_up(_reason(whole))
        else:
            self._forget()
            yield from _messages(value, whole)

    def _give_up(self, reason: str) -> Unreadable | Chatter:
        text = "\n".join(self._open)
        self._forget()
        return _refused(text, reason)

    def _forget(self) -> None:
        self._open.clear()
        self._size = self._depth = 0
        self._in_string = False


# NaN and Infinity are no JSON; as in JavaScript they become null
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


def _decoded(line: bytes) -> str:
    """A line as text: UTF-8, with what is none read as Latin-1; of UTF-16 what is ASCII."""
    line = line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
    if b"\0" in line:
        line = line.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    try:
        return line.decode()
    except UnicodeDecodeError:
        text = line.decode("utf-8", "surrogateescape")
        return re.sub("[\udc80-\udcff]", lambda match: chr(ord(match[0]) - 0xDC00), text)


def _beginning(text: str) -> int | None:
    """Find where a message may begin in `text`: at its start, or behind what a program printed before it."""
    at = len(text) - len(text.lstrip())
    if text[at] in "{[":
        return at
    found = _LOOKS_LIKE_MESSAGE.search(text)
    return found.start() if found else None


def _value_in(text: str) -> Any:
    """The JSON value that `text` is; None if it is not one."""
    try:
        value, end = _DECODER.raw_decode(text.strip())
    except (ValueError, RecursionError):
        return None
    return value if end == len(text.strip()) else None


def _reason(text: str) -> str:
    try:
        _DECODER.raw_decode(text.strip())
    except json.JSONDecodeError as error:
        return f"{error.msg} at character {error.pos}"
    except (ValueError, RecursionError):
        return "a number or its brackets have no end"
    return "more follows it"


def _refused(text: str, reason: str) -> Unreadable | Chatter:
    if not _MAY_BE_ANSWER.search(text):
        return Chatter(text)
    found = _ID.search(text)
    begin = text.strip()[:SHOWN_CHARS]
    return Unreadable(f"{reason}: {begin}", int(found[1]) if found else None)


def _flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and ("method" in value or "result" in value or "error" in value) and len(value) < 9


def _messages(value: Any, text: str) -> Iterator[Read]:
    """The messages that a value is: one, or a batch."""
    if "\\u" in text:
        value = replace_surrogates_in(value)
    found = [each for each in _flat(value) if isinstance(each, dict)]
    if not any(_is_message(each) or "jsonrpc" in each for each in found):
        yield _refused(text, "it is no JSON-RPC message")
        return
    for each in found:
        yield from _message(each)


def _message(value: Message) -> Iterator[Read]:
    """The message that `value` is meant to be, in the form that the package takes."""
    number = value.get("id")
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(method := value.get("method"), str):
        params = value.get("params")
        own = {"params": params} if isinstance(params, dict) else {}
        numbered = {} if number is None else {"id": number}
        yield {"jsonrpc": "2.0", **numbered, "method": method, **own}
        return
    known = isinstance(number, int | str) and not isinstance(number, bool)
    if value.get("error") is not None:
        error = _error(value["error"])
        if known:
            yield {"jsonrpc": "2.0", "id": number, "error": error}
        else:
            yield Unreadable(f"it names no request: {error['message']}")
    elif "result" not in value:
        yield Unreadable("it has neither a result nor an error", number if isinstance(number, int) else None)
    elif not known:
        yield Unreadable("it names no request")
    elif isinstance(result := value["result"], dict | None):
        yield {"jsonrpc": "2.0", "id": number, "result": result or {}}
    else:
        words = f"its result is no object: {json.dumps(result)[:SHOWN_CHARS]}"
        yield {"jsonrpc": "2.0", "id": number, "error": {"code": PARSE_ERROR, "message": words}}


def _error(error: Any) -> Message:
    """An error as it must be: servers leave out its code, or send words alone."""
    if not isinstance(error, dict):
        return {"code": _INTERNAL_ERROR, "message": replace_surrogates(str(error))}
    code, message = error.get("code"), error.get("message")
    return {
        "code": code if isinstance(code, int) and not isinstance(code, bool) else _INTERNAL_ERROR,
        "message": message if isinstance(message, str) else json.dumps(error)[:SHOWN_CHARS],
        **({"data": error["data"]} if "data" in error else {}),
    }


class Way(Struct, kw_only=True):
    """An open way to a server. `lost` is set when it has ended; `errors` are the last lines a program wrote beside.

    `statuses` are the last ones of an address's answers.
    """

    streams: TransportStreams
    lost: asyncio.Event
    errors: deque[str] = field(default_factory=deque)
    statuses: deque[int] = field(default_factory=deque)


@contextlib.asynccontextmanager
async def open_way(
    entry: ServerEntry, environ: Mapping[str, str], confinement: Confinement | None = None, auth: Auth | None = None
) -> AsyncIterator[Way]:
    """The way to the server of `entry`, closed with the block; `auth` goes with each request to an address.

    Raises OSError, ValueError, httpx2's errors.
    """
    lost: asyncio.Event = asyncio.Event()
    # the last lines of a program's standard error are kept, to be shown where it fails
    errors: deque[str] = deque(maxlen=50)
    statuses: deque[int] = deque(maxlen=1)
    async with contextlib.AsyncExitStack() as stack:
        program = entry.transport == "stdio"
        requests = _Requests()
        opened = _program(entry, environ, confinement, errors, requests) if program else _address(entry, auth, statuses)
        read, write = await stack.enter_async_context(opened)
        streams = (_Incoming(read, lost, requests), _Outgoing(write, requests))
        yield Way(streams=streams, lost=lost, errors=errors, statuses=statuses)


def server_environment(entry: ServerEntry, environ: Mapping[str, str], project: Path) -> dict[str, str]:
    """The environment of a server's program: a child's, less secrets, and what its entry names."""
    kept = child_environment(environ)
    own = {name: value for name, value in entry.env.items() if "\0" not in value}
    if entry.scope == "project":
        own = {name: value for name, value in own.items() if not runs_code_at_start(name)}
    return {**kept, "CLAUDE_PROJECT_DIR": str(project), **own}


@contextlib.asynccontextmanager
async def _address(entry: ServerEntry, auth: Auth | None, statuses: deque[int]) -> AsyncIterator[TransportStreams]:
    from cellwright.tools.mcp.http_client import MAX_BODY_BYTES, http_client

    if entry.transport == "sse":
        with importing:
            from mcp.client.sse import sse_client

        def factory(headers: Any = None, timeout: Any = None, auth: Auth | None = None) -> Any:
            return http_client(headers or {}, auth, statuses.append)

        async with sse_client(entry.url, dict(entry.headers), httpx_client_factory=factory, auth=auth) as streams:
            yield streams
        return
    with importing:
        from mcp.client.streamable_http import streamable_http_client

    async with (
        http_client(entry.headers, auth, statuses.append) as client,
        streamable_http_client(entry.url, http_client=client, max_sse_event_size=MAX_BODY_BYTES) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def _program(
    entry: ServerEntry,
    environ: Mapping[str, str],
    confinement: Confinement | None,
    errors: deque[str],
    requests: _Requests,
) -> AsyncIterator[TransportStreams]:
    own = server_environment(entry, environ, entry.cwd)
    if sys.platform == "win32":  # its loops know no pipes of ours; the package's own transport does
        with importing:
            from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(command=entry.command, args=list(entry.args), env=own, cwd=entry.cwd)
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
            async with stdio_client(parameters, errlog=nowhere) as streams:
                yield streams
        return
    command = Command(
        arguments=[entry.command, *entry.args],
        cwd=entry.cwd,
        # what a project's file sets steers no sandbox
        environ=child_environment(environ) if entry.scope == "project" else own,
        own_variables=own,
        confinement=confinement,
    )
    async with _Program(command, errors) as program:
        import anyio

        with importing:
            from mcp.shared.message import SessionMessage

        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as group:
            group.start_soon(program.read_messages, incoming, requests)
            group.start_soon(program.write_messages, outgoing)
            try:
                yield read, write
            finally:
                group.cancel_scope.cancel()
                for stream in (read, write, incoming, outgoing):
                    stream.close()


class _Program:
    """A server's program with its three pipes; ended, with all that it started, when the block is left."""

    def __init__(self, command: Command, errors: deque[str]) -> None:
        self._command = command
        self._errors = errors
        self._child: Child | None = None
        self._open = contextlib.ExitStack()
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> _Program:
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            pipes = [os.pipe() for _ in range(3)]
            (source, given), (output, out), (error_output, err) = pipes
            for descriptor in (source, out, err):
                theirs.callback(os.close, descriptor)
            files = [os.fdopen(given, "wb", 0), os.fdopen(output, "rb", 0), os.fdopen(error_output, "rb", 0)]
            for file in files:
                ours.callback(file.close)
            self._child = child_processes().start(self._command, output=out, errors=err, source=source)
            self.stdout, self.stderr = asyncio.StreamReader(limit=2**20), asyncio.StreamReader(limit=2**16)
            for reader, file in ((self.stdout, files[1]), (self.stderr, files[2])):
                protocol = functools.partial(asyncio.StreamReaderProtocol, reader)
                transport, _ = await loop.connect_read_pipe(protocol, file)
                ours.callback(transport.close)
            writing, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, files[0])
            ours.callback(writing.close)
            self.stdin = asyncio.StreamWriter(writing, flow, None, loop)
            self._open = ours.pop_all()

        async def keep_errors() -> None:
            while chunk := await self.stderr.read(2**14):
                for line in chunk.splitlines():
                    self._note(line[: _ERROR_LINE_CHARS * 4].decode("utf-8", "replace"))

        self._listening = loop.create_task(keep_errors())
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._child is not None
        assert self._listening is not None
        if self.stdout.at_eof():  # then it has ended, or is about to
            await asyncio.wait({self._child.exited}, timeout=0.5)
        if self._child.exited.done():
            self._errors.append(f"{ENDED} {self._child.exited.result()})")
        # it must not outlive the connection, whatever cancels us
        await asyncio.shield(asyncio.ensure_future(self._child.end()))
        self._listening.cancel()
        self._open.close()
        child_processes().sweep()

    async def read_messages(self, incoming: Any, requests: _Requests) -> None:
        """Hand on each message that the program writes; ends with its output, or with what is too long to be one."""
        import anyio

        messages, loop = StdioMessages(), asyncio.get_running_loop()
        last = began = loop.time()
        async with incoming:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    waits = messages.size > 0
                    try:  # empty at its end, None if there is none for so long
                        chunk = await asyncio.wait_for(self.stdout.read(2**20), SILENCE_SECONDS if waits else None)
                    except TimeoutError:
                        chunk = None
                    now = loop.time()
                    last, began = (now if chunk else last), (began if waits else now)
                    if messages.size + len(chunk or b"") > MAX_MESSAGE_BYTES:
                        self._errors.append(f"(a message of more than {MAX_MESSAGE_BYTES:,} bytes)")
                        return
                    for each in messages.read(chunk or b""):
                        await self._hand_on(each, incoming, requests)
                    given_up = chunk == b"" or now - last >= REST_SECONDS or now - began >= MESSAGE_SECONDS
                    if not chunk or given_up:
                        for each in messages.read_rest(ended=given_up):
                            await self._hand_on(each, incoming, requests)
                    if chunk == b"":
                        return

    async def _hand_on(self, read: Read, incoming: Any, requests: _Requests) -> None:
        with importing:
            from mcp.shared.message import SessionMessage
            from mcp_types import jsonrpc_message_adapter

        if isinstance(read, Chatter):  # many print something before they speak
            self._note(read.text)
            return
        if not isinstance(read, Unreadable):
            try:
                await incoming.send(SessionMessage(jsonrpc_message_adapter.validate_python(read, by_name=False)))
            except (ValueError, RecursionError):
                number = read.get("id")
                read = Unreadable("it is no JSON-RPC message", number if isinstance(number, int) else None)
            else:
                return
        self._note(f"(an answer that could not be read: {read.reason})")
        if (number := requests.meant_by(read.id)) is not None:
            await incoming.send(_error_message(number, f"{UNREADABLE}: {read.reason}"))

    async def write_messages(self, outgoing: Any) -> None:
        """Give the program each message as a line; a program that does not read is not waited for beyond its call."""
        async with outgoing:
            async for each in outgoing:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    self.stdin.write(line.encode("utf-8", "replace") + b"\n")
                    await self.stdin.drain()
                except (ConnectionError, RuntimeError):  # it has ended; the reader says so
                    return

    def _note(self, line: str) -> None:
        if text := line.strip()[:_ERROR_LINE_CHARS]:
            self._errors.append(text)


class _Requests:
    """The requests that wait for their answers, the oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[int | str, str] = {}
        self._newest = -1

    def sent(self, message: Any) -> None:
        """Note a message that was sent."""
        method, number = getattr(message, "method", None), getattr(message, "id", None)
        if method == "notifications/cancelled" and message.params:
            self._waiting.pop(message.params.get("requestId"), None)
        elif method is not None and number is not None:
            self._waiting[number] = method
            self._newest = max(self._newest, number) if isinstance(number, int) else self._newest

    def answered(self, number: int | str) -> str | None:
        """Note an answer, and return the method that it is for; None if no request of this id waits."""
        own = int(number) if isinstance(number, str) and number.isdecimal() else number
        return self._waiting.pop(number, None) or self._waiting.pop(own, None)

    def meant_by(self, number: int | str | None) -> int | str | None:
        """The request that an answer with this id is for: if nobody asked under it, the one that waits longest.

        None if none waits, and for an answer that comes too late.
        """
        if number in self._waiting:
            return number
        if isinstance(number, int) and number <= self._newest:
            return None
        return next(iter(self._waiting), None)


def _error_message(number: int | str, words: str) -> SessionMessage:
    with importing:
        from mcp.shared.message import SessionMessage
        from mcp_types import ErrorData, JSONRPCError

    error = ErrorData(code=PARSE_ERROR, message=words)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))


class _Outgoing:
    """A stream of messages to a server, of which it is known what they ask."""

    def __init__(self, stream: Any, requests: _Requests) -> None:
        self._stream = stream
        self._requests = requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, item: SessionMessage) -> None:
        self._requests.sent(item.message)
        await self._stream.send(item)

    async def __aenter__(self) -> _Outgoing:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        done: bool | None = await self._stream.__aexit__(kind, error, trace)
        return done


class _Incoming:
    """A stream of a server's messages that tells of its end and passes no more than the loop can bear."""

    def __init__(self, stream: Any, lost: asyncio.Event, requests: _Requests) -> None:
        self._stream = stream
        self._lost = lost
        self._requests = requests
        self._second = 0.0
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)  # `last_context`, where a stream has one

    async def receive(self) -> SessionMessage | Exception:
        loop = asyncio.get_running_loop()
        if loop.time() - self._second >= 1:
            self._second, self._count = loop.time(), 0
        self._count += 1
        # more than these wait for the next second: a server that floods is slowed down, and nobody else is
        if self._count > 500:
            await asyncio.sleep(max(0.0, self._second + 1 - loop.time()))
        try:
            received: SessionMessage | Exception = await self._stream.receive()
        except BaseException:
            self._lost.set()
            raise
        _clean_listing(received)
        return self._with_its_request(received)

    def _with_its_request(self, received: SessionMessage | Exception) -> SessionMessage | Exception:
        """The message; an answer that names no request of ours ends the one that waits longest, which it may be for."""
        message: Any = getattr(received, "message", None)
        if message is None or hasattr(message, "method"):
            return received
        if message.id is not None and (method := self._requests.answered(message.id)) is not None:
            if method == "tools/call" and isinstance(result := getattr(message, "result", None), dict):
                _clean_result(result)
            return received
        meant = self._requests.meant_by(message.id)
        if meant is None:
            return received
        self._requests.answered(meant)
        error = getattr(message, "error", None)
        words = (
            error.message if error is not None else f"{UNREADABLE}: it is for the request {message.id!r}, not {meant!r}"
        )
        return _error_message(meant, words)

    async def aclose(self) -> None:
        self._lost.set()
        await self._stream.aclose()

    def close(self) -> None:
        self._lost.set()
        self._stream.close()

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Incoming:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._lost.set()
        done: bool | None = await self._stream.__aexit__(kind, error, trace)
        return done


def _clean_listing(received: Any) -> None:
    """Have one tool that is wrong not take the others with it, and take the schemas of results out.

    By those the package would judge results on the loop, with a server's own regular expressions, which may never end.
    """
    result = getattr(getattr(received, "message", None), "result", None)
    if not isinstance(result, dict):
        return
    if "protocolVersion" in result:  # an answer to `initialize`: a server that leaves out its name can be used
        about = result.get("serverInfo")
        unnamed = {"name": "unnamed", "version": ""}
        texts = {key: each for key, each in about.items() if isinstance(each, str)} if isinstance(about, dict) else {}
        result["serverInfo"] = {**unnamed, **texts}
    if not isinstance(tools := result.get("tools"), list):
        return
    kept = []
    for tool in tools[:MAX_LISTED]:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or not tool["name"]:
            continue
        kept.append(
            {
                "name": tool["name"],
                "inputSchema": _object_schema(tool.get("inputSchema")),
                **{key: tool[key] for key in ("title", "description") if isinstance(tool.get(key), str)},
                **{key: tool[key] for key in ("annotations", "_meta") if _is_plain(tool.get(key))},
            }
        )
    result["tools"] = kept


def _clean_result(result: dict[str, Any]) -> None:
    """Have what a tool gives be content as the protocol knows it: words are words, whatever their form."""
    content = result.get("content")
    parts = content if isinstance(content, list) else [] if content is None else [content]
    structured = result.get("structuredContent")
    if structured is not None and not isinstance(structured, dict):
        parts = [*parts, structured]
        del result["structuredContent"]
    if "content" in result or structured is not None:
        result["content"] = [_content_part(part) for part in parts[:MAX_LISTED]]


def _content_part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("image", "audio"):
        return {"mimeType": f"{kind}/*", **part}
    if kind in ("text", "resource", "resource_link"):
        return dict(part)
    return {"type": "text", "text": part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)}


def _object_schema(schema: Any) -> dict[str, Any]:
    """A schema with which the package takes the list; `schema.py` judges the rest."""
    kept = {**schema} if isinstance(schema, dict) else {}
    properties, required = kept.pop("properties", {}), kept.pop("required", [])
    if isinstance(properties, dict):
        kept["properties"] = {name: each for name, each in properties.items() if isinstance(each, dict)}
    if isinstance(required, list):
        kept["required"] = [name for name in required if isinstance(name, str)]
    if not isinstance(kept.get("$schema", ""), str):
        del kept["$schema"]
    return {**kept, "type": "object"}


def _is_plain(hints: Any) -> bool:
    """Return whether these are hints as they should be: texts and flags by their names."""
    return isinstance(hints, dict) and all(
        isinstance(value, str if name == "title" else bool) for name, value in hints.items() if name in _HINTS
    )
