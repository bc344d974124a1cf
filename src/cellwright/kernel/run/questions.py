"""Permissions, Claude's own questions and plans put to the user, on the way that reaches them; never hanging.

A widget that said it is there gets the question. Else `input()` asks, if the cell's request allows it. If nobody can
be asked the answer is no, with the rule that would have allowed the call.

A question is put to the user where its run shows itself. The open questions of every run of the kernel are kept here:
another place that shows the conversation (a panel) hands answers in; the first one counts, wherever it is given, and
the events tell all places of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.approval import Allow, Deny, ToolUse, keep_rules
from cellwright.agent.calls.permission_gate import no_user_text
from cellwright.agent.thread import CallerJobs
from cellwright.conversation.user_answers import allowed, answered, denied, unanswered_in_time
from cellwright.events import AnsweredBy
from cellwright.kernel.output.protocol import AnswerMessage
from cellwright.kernel.run.interrupts import LOOK_SECONDS, EndableWait
from cellwright.terminal.views.terminal_text import DEFAULT_LOOK, Look
from cellwright.text import visible_line

SubmitAnswer = Callable[[AnswerMessage, AnsweredBy], None]
"""Takes an answer, and who gave it, for the question that it names."""

QuestionMirror = Callable[[ToolUse, SubmitAnswer], AbstractAsyncContextManager[None]]
"""Shows a question in another place as well, while the context lasts; the answer from there comes the same way."""


class OpenQuestions:
    """The questions that wait for an answer, oldest first. All of it on the agent's loop."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[ToolUse, SubmitAnswer]] = {}

    @property
    def ids(self) -> list[str]:
        """The ids of the questions."""
        return list(self._open)

    @property
    def uses(self) -> list[ToolUse]:
        """The questions, as they are shown."""
        return [use for use, _ in self._open.values()]

    def take(self, answer: AnswerMessage, by: AnsweredBy) -> bool:
        """Hand in an answer; False when its question is none any more."""
        asked = self._open.get(answer.question)
        if asked is None:
            return False
        asked[1](answer, by)
        return True

    @contextlib.asynccontextmanager
    async def mirror(self, use: ToolUse, take: SubmitAnswer) -> AsyncIterator[None]:
        """Have answers to `use` taken from anywhere while the block lasts."""
        self._open[use.question_id] = (use, take)
        try:
            yield
        finally:
            del self._open[use.question_id]


def mirror_everywhere(*mirrors: QuestionMirror) -> QuestionMirror:
    """All of these places at once."""

    @contextlib.asynccontextmanager
    async def mirror(use: ToolUse, take: SubmitAnswer) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for mirror_one in mirrors:
                await stack.enter_async_context(mirror_one(use, take))
            yield

    return mirror


READY_TIMEOUT_SECONDS = 2.0
"""The time a displayed widget may take to say that it is there."""


Answering = asyncio.Future[Allow | Deny]


class Questions(Struct, eq=False):
    """The questions of one cell. All of it runs on the agent's loop, but for what `jobs` takes to the waiting thread.

    `widget`: whether one was displayed; `ready` is set when it has answered. `save_rules` keeps rules for ever; where it
    cannot, the answer says so. `answer_seconds` is how long a question of Claude's own waits in the widget before
    Claude goes on without an answer; None: as long as it takes. `mirror` shows questions in other places as well;
    `is_watched` says whether one of these shows all of them, `was_closed` whether the page that ran the cell was closed.
    """

    jobs: CallerJobs
    allows_input: bool
    widget: bool
    save_rules: Callable[[Sequence[str]], object]
    answer_seconds: float | None = None
    seconds_to_get_ready: float = READY_TIMEOUT_SECONDS
    mirror: QuestionMirror = lambda _use, _take: contextlib.nullcontext()
    is_watched: Callable[[], bool] = lambda: False
    was_closed: Callable[[], bool] = lambda: False
    look: Look = DEFAULT_LOOK
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    _open: dict[str, tuple[ToolUse, Answering]] = field(default_factory=dict)

    async def can_use_tool(self, use: ToolUse) -> Allow | Deny:
        """The user's answer, or the policy's where there is nobody to ask."""
        answer: Answering = asyncio.get_running_loop().create_future()
        self._open[use.question_id] = (use, answer)
        try:
            async with self.mirror(use, self.take):
                given = await self._answer(use, answer)
        finally:
            del self._open[use.question_id]
        return await keep_rules(given, self.save_rules)

    def take(self, answer: AnswerMessage, by: AnsweredBy = "widget") -> None:
        """An answer came from a view; the first one counts."""
        if (asked := self._open.get(answer.question)) is None:
            return
        use, future = asked
        if not future.done():
            future.set_result(_decision(use, answer, by))

    async def _answer(self, use: ToolUse, answer: Answering) -> Allow | Deny:
        if self.widget and await self._widget_is_ready():
            return await self._answer_in_time(use, answer)
        if answer.done():  # in another place, while the widget was waited for
            return answer.result()
        if not self.allows_input:
            # it may have been closed and come again: a question that was shown is not taken away
            return await self._answer_in_time(use, answer) if self.is_watched() else _denied_unasked(use)
        wait = EndableWait()
        typed: Answering = asyncio.ensure_future(self.jobs.call(functools.partial(_ask_here, use, wait, self.look)))
        left = asyncio.ensure_future(self._page_left())
        try:
            ends: set[asyncio.Future[Any]] = {typed, answer, left}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if typed.done():
                return typed.result()
        finally:
            wait.end()
            typed.cancel()
            left.cancel()
        return await self._answer_in_time(use, answer) if self.is_watched() else _denied_unasked(use)

    async def _page_left(self) -> None:
        """Return once the page that ran the cell was closed or reloaded: the field of `input()` is gone with it."""
        while not self.was_closed():
            await asyncio.sleep(LOOK_SECONDS)

    async def _answer_in_time(self, use: ToolUse, answer: Answering) -> Allow | Deny:
        # what is asked about a permission or a plan is never taken as answered
        seconds = self.answer_seconds if use.kind == "question" else None
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            return unanswered_in_time(use)

    async def _widget_is_ready(self) -> bool:
        try:
            async with asyncio.timeout(self.seconds_to_get_ready):
                await self.ready.wait()
        except TimeoutError:
            self.widget = False
            return False
        return True


def _denied_unasked(use: ToolUse) -> Deny:
    return Deny(no_user_text(use), "policy")


def _ask_here(use: ToolUse, wait: EndableWait, look: Look) -> Allow | Deny:
    with wait.entered():
        return ask_by_input(use, look)


def ask_by_input(use: ToolUse, look: Look = DEFAULT_LOOK) -> Allow | Deny:
    """Ask with `input()` on this thread until there is an answer; nothing typed, or an end of the input, is a no.

    Where a front end's input field is cancelled, an empty text comes: asking again would never end.
    """
    # most kernels show a widget
    from cellwright.terminal.interactive.answer_menu import preview_drawer
    from cellwright.terminal.question import Asker
    from cellwright.terminal.views.streams import Streams, line_writer

    # a front end may show the line that is typed far from what was printed
    what = f"{visible_line(use.preview.title).rstrip('?')}? " if use.kind != "question" else ""

    def read(prompt: str) -> str | None:
        try:
            typed = input(f"{what}{prompt}{'' if use.kind == 'question' else '(empty: no) '}")
        except EOFError:
            return None
        return typed if typed.strip() or use.kind == "question" else None

    streams = Streams(stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr, environ=os.environ)
    draw = preview_drawer(sys.stdout, look) if streams.draws_on(sys.stdout) else None
    return Asker(line_writer(streams, sys.stdout, look), read, "input", draw=draw).ask(use)


def _decision(use: ToolUse, answer: AnswerMessage, by: AnsweredBy) -> Allow | Deny:
    """Translate the user's answer in the browser into a decision."""
    if answer.behavior == "deny":
        return denied(use, answer.reason, by)
    if use.kind == "permission":
        allow = allowed(answer.scope, use.decision.suggestions, by, answer.input)
        return replace(allow, following=answer.next and answer.input is None)
    return answered(use, answer.input or {}, by)
