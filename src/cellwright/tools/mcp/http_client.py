"""HTTP to servers that are reached by an address: bounded in what it takes, and sending nothing elsewhere.

Environment variables for proxies count as usual. Nothing compressed is asked for or taken: a bound on what arrives would
be none on what it becomes. The headers that requests need may be the output of a command (`headersHelper`), which is run
again when they are refused.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx2  # heavy: this module is imported where a connection is made

from cellwright.agent.calls.approval import Confinement
from cellwright.text import visible_line
from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import OutputHead, RunningProgram

if TYPE_CHECKING:
    from httpx2 import AsyncByteStream, Auth, Response

MAX_BODY_BYTES = 16_000_000
"""Of an answer, and of one event of a stream; more is an error of the call."""

CONNECT_SECONDS = 30.0
READ_SECONDS = 300.0

HEADERS_SECONDS = 10.0
"""The time the command may take, as in Claude Code."""

_NEVER_SET = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


class TooMuch(httpx2.StreamError):
    """An answer that is larger than anybody here takes, or compressed although nobody asked for that."""


def http_client(
    headers: Mapping[str, str], auth: Auth | None = None, answered: Callable[[int], object] | None = None
) -> httpx2.AsyncClient:
    """A client that sends `headers` and what `auth` says with each request, and follows no redirect by itself.

    `answered` is called with the status of each answer.
    """

    async def note_status(response: Response) -> None:
        if answered is not None:
            answered(response.status_code)

    return httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS),
        auth=auth,
        event_hooks={"response": [note_status, _bound]},
    )


async def _bound(response: Response) -> None:
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise TooMuch("the server answered with compressed data although it was asked not to")
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    stream: Any = response.stream
    response.stream = _BoundedEvents(stream) if is_stream and response.is_success else _BoundedBody(stream)


class _BoundedBody(httpx2.AsyncByteStream):
    """A body of which no more than `MAX_BODY_BYTES` are taken."""

    def __init__(self, stream: AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._stream:
            count += len(chunk)
            if count > MAX_BODY_BYTES:
                raise TooMuch(f"the server answered with more than {MAX_BODY_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedEvents(_BoundedBody):
    """A stream of events without an end, of which so much a second is taken; what reads it bounds each event."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        second, count = time.monotonic(), 0
        async for chunk in self._stream:
            count += len(chunk)
            # more than this of a stream of events waits for the next second
            if count > 32_000_000:
                await asyncio.sleep(max(0.0, second + 1 - time.monotonic()))
                second, count = time.monotonic(), 0
            elif time.monotonic() - second >= 1:
                second, count = time.monotonic(), 0
            yield chunk


class HelperFailed(Exception):
    """The command gave no headers; the message says why, and nothing of what it wrote."""


class HelperAuth(httpx2.Auth):
    """The headers of a server's requests: what the command says, and what it says now where the server refuses that."""

    def __init__(
        self,
        entry: ServerEntry,
        environ: Mapping[str, str],
        confinement: Confinement | None,
        clock: Callable[[], float],
    ) -> None:
        self._entry = entry
        self._environ = environ
        self._confinement = confinement
        self._clock = clock
        self._lock = asyncio.Lock()
        self._headers: Mapping[str, str] | None = None
        self._made = 0.0

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        headers = await self._headers_after(None)
        request.headers.update(headers)
        response = yield request
        if response.status_code in (401, 403) and (newer := await self._headers_after(headers)) is not headers:
            request.headers.update(newer)
            yield request

    async def _headers_after(self, refused: Mapping[str, str] | None) -> Mapping[str, str]:
        """The headers, made anew where there are none or `refused` are those; raises HelperFailed."""
        async with self._lock:
            # a server that refuses everything does not have it run all the time
            is_old = self._headers is refused and self._clock() - self._made > 10.0
            if self._headers is None or is_old:
                self._headers, self._made = (
                    await headers_of(self._entry, self._environ, self._confinement),
                    self._clock(),
                )
            return self._headers


def helper_auth(entry: ServerEntry, environ: Mapping[str, str], confinement: Confinement | None) -> HelperAuth:
    """The authorization of a server's requests by its `headersHelper`. `environ` is what the command gets."""
    return HelperAuth(entry, environ, confinement, time.monotonic)


async def headers_of(
    entry: ServerEntry, environ: Mapping[str, str], confinement: Confinement | None
) -> Mapping[str, str]:
    """Run the command; the headers in its output, a JSON object of texts. Raises HelperFailed."""
    shell = ["cmd.exe", "/c"] if sys.platform == "win32" else ["/bin/sh", "-c"]
    about = {"CLAUDE_CODE_MCP_SERVER_NAME": entry.name, "CLAUDE_CODE_MCP_SERVER_URL": entry.url}
    command = Command(
        arguments=[*shell, entry.headers_helper],
        cwd=entry.cwd,
        environ={**environ, **about},
        confinement=confinement,
    )
    output, errors = OutputHead(100_000), OutputHead(2_000)
    try:
        program = RunningProgram(command, output=output.take, errors=errors.take)
    except (OSError, ValueError) as error:
        raise HelperFailed(f"`headersHelper` cannot be started: {error}") from None
    if not await program.finish(HEADERS_SECONDS):
        raise HelperFailed(f"`headersHelper` took more than {HEADERS_SECONDS:g} s")
    if program.exit_code != 0:
        wrote = f": {visible_line(errors.text(), 300)}" if errors.data.strip() else ""
        raise HelperFailed(f"`headersHelper` ended with the exit code {program.exit_code}{wrote}")
    try:
        headers = json.loads(bytes(output.data))
    except (ValueError, RecursionError):
        raise HelperFailed("`headersHelper` wrote no JSON") from None
    fits = isinstance(headers, dict) and all(
        isinstance(value, str) and f"{name}{value}".isascii() and f"{name}{value}".isprintable() and name
        for name, value in headers.items()
    )
    if not fits:
        raise HelperFailed("`headersHelper` wrote no JSON object of headers that can be sent")
    return {name: value for name, value in headers.items() if name.lower() not in _NEVER_SET}
