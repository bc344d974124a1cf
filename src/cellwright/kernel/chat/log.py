"""The one log that all panels show: every run of the conversation, wherever it was started, and the turns before it.

It is written whether or not a panel is there, so that one that comes late has all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cellwright.agent.thread import AgentThread
from cellwright.conversation.run_queue import ConversationRun
from cellwright.events import Event, UserPrompt
from cellwright.kernel.chat.line_log import LineLog
from cellwright.kernel.chat.logged_run import LoggedRun
from cellwright.sessions.session import Session
from cellwright.sessions.turns import TurnCount

RUNS_KEPT = 50
"""Of the runs that are over, the last."""

CHARS_KEPT = 50_000_000
"""Of all of them together: a kernel lives for weeks, and a run may hold hundreds of pictures. The newest stays."""

Gone = Callable[[Sequence[str]], object]


def _nobody(_what: Any) -> None:
    """Who is told while no panel is there."""


class ConversationLog:
    """Follows a conversation's feed. What it holds is read and changed on the agent's loop, which each call is brought to.

    `session` gives the session that the conversation has now, None where it has none yet. `news` is told of a run when
    something of it is new, `gone` of runs that are no part of the conversation any more, `moved` that another session, or
    less or more of this one, is the conversation's now. With `keeps_lines` runs that begin are kept as JSON lines, too.
    """

    def __init__(self, thread: AgentThread, session: Callable[[], Session | None]) -> None:
        self.id = secrets.token_hex(8)
        self.runs: dict[str, LoggedRun] = {}
        self.news: Callable[[LoggedRun], object] = _nobody
        self.gone: Gone = _nobody
        self.moved: Callable[[], object] = lambda: None
        self.keeps_lines = False
        self.last_number = 0
        self._thread = thread
        self._session = session
        self._turns = TurnCount()

    def run_added(self, run: ConversationRun) -> None:
        self._on_loop(self._add, run)

    def heard(self, run: ConversationRun, event: Event) -> None:
        if (logged := self.runs.get(run.id)) is None:
            return  # it began before the log did
        if isinstance(event, UserPrompt):
            logged.session, logged.home = event.session_id, self._home
            logged.turn = self._next_turn(event.session_id)
        logged.hear(event)
        if logged.has_changed():
            self.news(logged)

    def run_ended(self, run: ConversationRun) -> None:
        self._on_loop(self._end, run)

    def session_changed(self, _session: Session) -> None:
        self._on_loop(lambda: self.moved())

    def begin(self, logged: LoggedRun) -> None:
        """Take in a run that is none of the conversation's own: a slash command."""
        self.last_number += 1
        logged.number = self.last_number
        logged.ops.attach(lambda _: self._written(logged))
        self.runs[logged.id] = logged
        self._forget_old()
        self.news(logged)

    def end(self, logged: LoggedRun, error: BaseException | None = None, answer: str = "") -> None:
        """It is over."""
        logged.end(error, answer)
        self.news(logged)
        self._forget_old()

    def stuck(self, run: ConversationRun | None, tool_use_id: str, text: str) -> None:
        """The code of this call does not react to an interrupt."""
        if run is not None and (logged := self.runs.get(run.id)) is not None:
            logged.add({"op": "stuck", "id": tool_use_id, "text": text})

    @property
    def turns(self) -> int:
        """How many turns the session has."""
        session = self._session()
        return 0 if session is None else self._turns.of(session)

    def put_past(self, past: Iterable[LoggedRun]) -> None:
        """Put turns of a transcript before everything that is not over, in the order of their turns.

        Panels are told of what follows them anew: runs are shown in the order of the log.
        """
        new = {run.id: run for run in past if run.id not in self.runs}
        if not new:
            return
        over = [run for run in self.runs.values() if run.over]
        rest = [run for run in self.runs.values() if not run.over]
        placed = sorted([*over, *new.values()], key=lambda run: run.asked)
        first = next(at for at, run in enumerate(placed) if run.id in new)
        again = [run for run in (*placed[first:], *rest) if run.id not in new]
        if again:
            self.gone([run.id for run in again])
        self.runs = {run.id: run for run in (*placed, *rest)}
        self._forget_old()
        for run in (*placed[first:], *rest):
            if run.id in self.runs:
                self.news(run)

    def drop(self, ids: Sequence[str]) -> None:
        """Take runs out that are no part of the conversation any more."""
        there = [run_id for run_id in ids if self.runs.pop(run_id, None) is not None]
        if there:
            self.gone(there)

    def _add(self, run: ConversationRun) -> None:
        self.begin(
            LoggedRun(
                id=run.id,
                prompt=run.text,
                place=run.place,
                kind="prompt",
                asked=run.asked,
                background=run.background,
                run=run,
                home=self._home,
                lines=LineLog() if self.keeps_lines else None,
            )
        )

    def _end(self, run: ConversationRun) -> None:
        if (logged := self.runs.get(run.id)) is None:
            return
        if logged.turn is not None:
            last = self._last_turn(logged.session)
            # a prompt that a hook refused, for one, leaves nothing in the session
            logged.turn, logged.last_turn = (logged.turn, last) if last >= logged.turn else (None, None)
        self.end(logged, run.failure)

    def _written(self, logged: LoggedRun) -> None:
        if logged.lines is not None:
            logged.lines.flush()
        self.news(logged)

    @property
    def _home(self) -> str:
        session = self._session()
        return "" if session is None else session.id

    def _next_turn(self, session_id: str) -> int | None:
        session = self._session()
        return self._turns.of(session) + 1 if session is not None and session.id == session_id else None

    def _last_turn(self, session_id: str) -> int:
        session = self._session()
        return self._turns.of(session) if session is not None and session.id == session_id else 0

    def _forget_old(self) -> None:
        over = [run for run in self.runs.values() if run.over]
        chars = sum(run.chars for run in over)
        old: list[str] = []
        for run in over[:-1]:
            if len(over) - len(old) <= RUNS_KEPT and chars <= CHARS_KEPT:
                break
            old.append(run.id)
            chars -= run.chars
        self.drop(old)

    def _on_loop(self, call: Callable[..., object], *args: Any) -> None:
        # the loop is closed when the extension was unloaded
        with contextlib.suppress(RuntimeError):
            loop: asyncio.AbstractEventLoop = self._thread.loop
            loop.call_soon_threadsafe(call, *args)
