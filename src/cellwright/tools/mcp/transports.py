"""The ways to a server: a program's standard input and output, streamable HTTP, server-sent events.

What comes from a server passes `_Incoming`, whatever the way: it says when the connection has ended, keeps a flood from
taking the loop, and takes out what nobody here may be made to evaluate.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from cellwright.agent.calls.confinement import Confinement
from cellwright.late_imports import importing
from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.process.child_processes import Child, Command, child_processes
from cellwright.tools.process.environment import child_environment, runs_code_at_start

if TYPE_CHECKING:
    from httpx2 import Auth
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES = 16_000_000
"""Of one message of a program's; more is no message."""

MAX_LISTED = 1_000
"""Tools of one page of a list."""

MESSAGES_A_SECOND = 500
"""More than these wait for the next second: a server that floods is slowed down, and nobody else is."""

ERROR_LINES = 50
"""The last lines of a program's standard error are kept, to be shown where it fails."""

_ERROR_LINE_CHARS = 500
_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Way(Struct, kw_only=True):
    """An open way to a server. `lost` is set when it has ended; `errors` are the last lines a program wrote beside."""

    streams: TransportStreams
    lost: asyncio.Event
    errors: deque[str] = field(default_factory=deque)


@contextlib.asynccontextmanager
async def open_way(
    entry: ServerEntry, environ: Mapping[str, str], confinement: Confinement | None = None, auth: Auth | None = None
) -> AsyncIterator[Way]:
    """The way to the server of `entry`, closed with the block; `auth` goes with each request to an address.

    Raises OSError, ValueError, httpx2's errors.
    """
    lost: asyncio.Event = asyncio.Event()
    errors: deque[str] = deque(maxlen=ERROR_LINES)
    async with contextlib.AsyncExitStack() as stack:
        program = entry.transport == "stdio"
        opened = _program(entry, environ, confinement, errors) if program else _address(entry, auth)
        read, write = await stack.enter_async_context(opened)
        yield Way(streams=(_Incoming(read, lost), write), lost=lost, errors=errors)


def server_environment(entry: ServerEntry, environ: Mapping[str, str], project: Path) -> dict[str, str]:
    """The environment of a server's program: a child's, less secrets, and what its entry names."""
    kept = child_environment(environ)
    own = {name: value for name, value in entry.env.items() if "\0" not in value}
    if entry.scope == "project":
        own = {name: value for name, value in own.items() if not runs_code_at_start(name)}
    return {**kept, "CLAUDE_PROJECT_DIR": str(project), **own}


@contextlib.asynccontextmanager
async def _address(entry: ServerEntry, auth: Auth | None) -> AsyncIterator[TransportStreams]:
    from cellwright.tools.mcp.http_client import MAX_BODY_BYTES, http_client

    if entry.transport == "sse":
        with importing:
            from mcp.client.sse import sse_client

        def factory(headers: Any = None, timeout: Any = None, auth: Auth | None = None) -> Any:
            return http_client(headers or {}, auth)

        async with sse_client(entry.url, dict(entry.headers), httpx_client_factory=factory, auth=auth) as streams:
            yield streams
        return
    with importing:
        from mcp.client.streamable_http import streamable_http_client

    async with (
        http_client(entry.headers, auth) as client,
        streamable_http_client(entry.url, http_client=client, max_sse_event_size=MAX_BODY_BYTES) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def _program(
    entry: ServerEntry, environ: Mapping[str, str], confinement: Confinement | None, errors: deque[str]
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
            group.start_soon(program.read_messages, incoming)
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
        self._listening = loop.create_task(self._keep_errors())
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._child is not None
        assert self._listening is not None
        if self.stdout.at_eof():  # then it has ended, or is about to
            await asyncio.wait({self._child.exited}, timeout=0.5)
        if self._child.exited.done():
            self._errors.append(f"(its program ended with the exit code {self._child.exited.result()})")
        # it must not outlive the connection, whatever cancels us
        await asyncio.shield(asyncio.ensure_future(self._child.end()))
        self._listening.cancel()
        self._open.close()
        child_processes().sweep()

    async def read_messages(self, incoming: Any) -> None:
        """Hand on each line that the program writes as a message; ends with its output, or with what is no message."""
        import anyio

        with importing:
            from mcp.shared.message import SessionMessage
            from mcp_types import jsonrpc_message_adapter

        pending = bytearray()
        async with incoming:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while chunk := await self.stdout.read(2**20):
                    pending += chunk
                    if len(pending) > MAX_MESSAGE_BYTES:
                        self._errors.append(f"(a message of more than {MAX_MESSAGE_BYTES:,} bytes)")
                        return
                    if b"\n" not in chunk:
                        continue
                    *lines, rest = pending.split(b"\n")
                    pending = bytearray(rest)
                    for line in lines:
                        if not line.strip():
                            continue
                        try:
                            message = jsonrpc_message_adapter.validate_json(bytes(line), by_name=False)
                        except (ValueError, RecursionError):
                            self._note(line)  # many print something before they speak
                            continue
                        await incoming.send(SessionMessage(message))

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

    async def _keep_errors(self) -> None:
        while chunk := await self.stderr.read(2**14):
            for line in chunk.splitlines():
                self._note(line)

    def _note(self, line: bytes | bytearray) -> None:
        text = bytes(line[: _ERROR_LINE_CHARS * 4]).decode("utf-8", "replace").strip()[:_ERROR_LINE_CHARS]
        if text:
            self._errors.append(text)


class _Incoming:
    """A stream of a server's messages that tells of its end and passes no more than the loop can bear."""

    def __init__(self, stream: Any, lost: asyncio.Event) -> None:
        self._stream = stream
        self._lost = lost
        self._second = 0.0
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)  # `last_context`, where a stream has one

    async def receive(self) -> SessionMessage | Exception:
        loop = asyncio.get_running_loop()
        if loop.time() - self._second >= 1:
            self._second, self._count = loop.time(), 0
        self._count += 1
        if self._count > MESSAGES_A_SECOND:
            await asyncio.sleep(max(0.0, self._second + 1 - loop.time()))
        try:
            received: SessionMessage | Exception = await self._stream.receive()
        except BaseException:
            self._lost.set()
            raise
        _clean_listing(received)
        return received

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
    if not isinstance(result, dict) or not isinstance(tools := result.get("tools"), list):
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
