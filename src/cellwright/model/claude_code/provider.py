"""Claude Code as a `Provider`: each conversation has a running program while it is at work, and for some minutes after.

A request that goes on where a program waits is answered by that one: results go to its waiting calls, a prompt is its next
message. Any other (a resumed or forked session, a compacted one, another model) starts a program anew, which is given
the conversation as a session to resume.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cellwright.errors import ApiError, ErrorCode
from cellwright.events import TurnEnd
from cellwright.model.claude_code.program import Head, Program
from cellwright.model.claude_code.wire_format import as_told, has_results, history_and_prompt, results_of
from cellwright.model.provider import ProviderEvent, Request, request_sent
from cellwright.model.retry import RetryPolicy
from cellwright.this_process.late_imports import importing

IDLE_SECONDS = 300.0
"""The time a program waits for the next prompt: as long as the API's cache keeps the conversation."""

CALLS_SECONDS = 3600.0
"""The time it waits for the results of its calls. Later ones find a program of their own, with the same conversation."""

MAX_WAITING = 6
"""The programs that wait at once; a further one ends that which waited longest, for a prompt rather than for results."""


_Move = dict[str, dict[str, Any]] | list[dict[str, Any]]
"""Something that a program waits for: the results of its calls by their ids, or the blocks of the next prompt."""


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
        await asyncio.to_thread(_import_sdk)

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
        if len(ours) > MAX_WAITING:
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


def _import_sdk() -> None:
    import claude_agent_sdk  # noqa: F401  takes a second

    with importing:
        import mcp.server  # noqa: F401
