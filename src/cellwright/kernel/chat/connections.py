"""The panels that are connected, each at its own place in the logs of the runs.

All of it on the agent's loop. A connection is never waited for: what it lacks is sent when it can take it, and one whose
page has died costs a ping now and then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from cellwright.conversation.message_chunks import Piece, pieces
from cellwright.kernel.chat.conversation_log import ConversationLog, LoggedRun
from cellwright.kernel.pages.comm import CommLink

logger = logging.getLogger(__name__)

Message = Mapping[str, Any]
View = Literal["ops", "lines", "overview"]

QUIET_SECONDS = 60.0
"""A panel that was not heard from for so long is asked whether it is there before more is sent to it."""

PING_SECONDS = 20.0
"""The time a panel may take to answer, and the interval at which one that did not is asked again."""

MAX_CONNECTIONS = 32


class _Cursor(Struct):
    """The part of a run that a panel has: so many operations or lines, and what is told of it up to this version.

    `is_known`: the panel has heard of the run, here or on an earlier connection.
    """

    have: int
    is_known: bool
    version: int = -1


class PanelConnection:
    """One panel. `page` is the page's own id; `client` says what it is: `JupyterLab 4.6.6`, `server`.

    `hello` is what it opened the comm with; `log` is what it reads.
    """

    def __init__(
        self,
        link: CommLink,
        hello: Message,
        log: ConversationLog,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.link = link
        self.page = str(hello.get("page", ""))[:200]
        self.client = str(hello.get("client", ""))[:100]
        view = hello.get("view")
        self.view: View = view if view in ("lines", "overview") else "ops"
        self.closed = False
        self._log = log
        self._clock = clock
        self._last_seen = clock()
        self._unanswered_since: float | None = None
        self._last_ping = float("-inf")
        self._since = log.last_number
        self._cursors: dict[str, _Cursor] = {}
        self._outgoing: deque[Message] = deque()
        self._state: Message | None = None
        self._changed_runs: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._came_with = _read_positions(hello) if hello.get("log") == log.id else {}

    @property
    def is_server(self) -> bool:
        """True when a program behind the server's REST interface is at the other end, and no person."""
        return self.client.split()[:1] == ["server"]

    @property
    def is_silent(self) -> bool:
        """True when it was asked for a sign of life and did not answer."""
        return self._unanswered_since is not None and self._clock() - self._unanswered_since > PING_SECONDS

    @property
    def seconds_quiet(self) -> float:
        return self._clock() - self._last_seen

    def begin(self, welcome: Sequence[Message]) -> None:
        """Send `welcome`, then what the panel lacks of each run, and which of those that it holds are gone.

        A connection with the view `overview` gets no runs.
        """
        self._outgoing.extend(welcome)
        if self.view == "overview":
            self._flush()
            return
        gone = [run_id for run_id in self._came_with if run_id not in self._log.runs]
        if gone:
            self._outgoing.append({"type": "gone", "runs": gone})
        for run in self._log.runs.values():
            self._track(run)
        self._flush()

    def mark_alive(self) -> None:
        """The panel has said something: it is there."""
        self._last_seen, self._unanswered_since = self._clock(), None
        self._flush()

    def send(self, message: Message) -> None:
        """Send `message`, in order with what else goes out."""
        self._outgoing.append(message)
        self._flush()

    def send_state(self, state: Message) -> None:
        """Send `state`; where one still waits to be sent it takes its place: a page that sleeps for days costs one."""
        self._state = state
        self._flush()

    def run_changed(self, run: LoggedRun) -> None:
        """Something of `run` is new, or the run itself."""
        if self.view != "overview":
            self._track(run)
            self._flush()

    def runs_removed(self, ids: Iterable[str]) -> None:
        """These runs are no part of the conversation any more, or are told anew behind others."""
        if self.view == "lines":  # their place is of no matter to a program, which would take the run for lost
            ids = [run_id for run_id in ids if run_id not in self._log.runs]
        forgotten = {run_id: self._cursors.pop(run_id) for run_id in ids if run_id in self._cursors}
        for run_id in forgotten:
            self._changed_runs.pop(run_id, None)
        known = [run_id for run_id, cursor in forgotten.items() if cursor.is_known]
        if known:
            self.send({"type": "gone", "runs": known})

    def resend(self, run_id: str, have: int) -> None:
        """The panel has missed something of a run."""
        if (cursor := self._cursors.get(run_id)) is not None and have <= cursor.have:
            cursor.have = have
            self._changed_runs[run_id] = None
            self._flush()

    def close(self) -> None:
        """Send nothing more."""
        self.closed = True
        if self._sending is not None:
            self._sending.cancel()
        self.link.forget()

    def _track(self, run: LoggedRun) -> None:
        if run.id not in self._cursors:
            have = self._came_with.pop(run.id, None)
            if self.view == "lines" and have is None and run.number <= self._since:
                return  # programs get what begins while they listen
            available = len(run.ops if self.view == "ops" else run.lines or ())
            self._cursors[run.id] = _Cursor(have if have is not None and have <= available else 0, have is not None)
        self._changed_runs[run.id] = None

    def _flush(self) -> None:
        while not self.closed and self._sending is None and self._is_responsive():
            message = self._next()
            if message is None:
                return
            first, *rest = pieces(message)
            self.link.put(first)
            if rest:
                self._sending = asyncio.get_running_loop().create_task(self._send_rest(first, rest))

    async def _send_rest(self, first: Piece, rest: Sequence[Piece]) -> None:
        """The rest of a large message; what follows waits, and what of it is news then goes together."""
        for before, piece in zip([first, *rest], rest, strict=False):
            await asyncio.sleep(before.pause)
            self.link.put(piece)
        self._sending = None
        self._flush()

    def _is_responsive(self) -> bool:
        """Return whether something may be sent. A panel long unheard is asked, and soon not believed in."""
        now = self._clock()
        if now - self._last_seen > QUIET_SECONDS and now - self._last_ping > PING_SECONDS:
            self._last_ping = now
            self._unanswered_since = now if self._unanswered_since is None else self._unanswered_since
            self.link.put(Piece({"type": "request", "id": "ping", "method": "ping", "params": {}}, 0.0))
        return not self.is_silent

    def _next(self) -> Message | None:
        if self._outgoing:
            return self._outgoing.popleft()
        if self._state is not None:
            state, self._state = self._state, None
            return state
        while self._changed_runs:
            run_id = next(iter(self._changed_runs))
            run, cursor = self._log.runs.get(run_id), self._cursors.get(run_id)
            if run is not None and cursor is not None and (message := self._of_run(run, cursor)) is not None:
                return message
            del self._changed_runs[run_id]
        return None

    def _of_run(self, run: LoggedRun, cursor: _Cursor) -> Message | None:
        """Build what the panel gets of `run` next: that it is there, what happened in it, what is told of it now."""
        if cursor.version < 0:
            return self._described(run, cursor)
        log = run.ops if self.view == "ops" else run.lines
        if log is not None and cursor.have < len(log):
            first, new = cursor.have, log.after(cursor.have)
            cursor.have += len(new)
            if self.view == "lines":
                return {"type": "lines", "run": run.id, "first": first, "lines": new}
            return {"type": "ops", "run": run.id, "first": first, "now": time.time(), "ops": new}
        return self._described(run, cursor) if cursor.version < run.version else None

    def _described(self, run: LoggedRun, cursor: _Cursor) -> Message:
        cursor.version, cursor.is_known = run.version, True
        return {"type": "run", "run": run.describe()}


class Connections:
    """All that are there."""

    def __init__(self) -> None:
        self.all: list[PanelConnection] = []

    def add(self, connection: PanelConnection) -> None:
        """One that has come; of the same page it takes the old one's place."""
        for other in [other for other in self.all if other.page and other.page == connection.page]:
            self.remove(other)
        if len(self.all) >= MAX_CONNECTIONS:
            self.remove(max(self.all, key=lambda other: other.seconds_quiet))
        self.all.append(connection)

    def remove(self, connection: PanelConnection) -> None:
        """Its panel is closed, or nobody believes in it any more."""
        if connection in self.all:
            self.all.remove(connection)
            connection.close()

    def send_state(self, state: Message) -> None:
        """Send `state` to all that show a conversation."""
        for connection in list(self.all):
            if connection.view != "overview":
                connection.send_state(state)

    def send_overview(self, overview: Message) -> None:
        """Send `overview` to all that show the kernel among others."""
        for connection in list(self.all):
            if connection.view == "overview":
                connection.send_state(overview)

    @property
    def has_overview(self) -> bool:
        """True when a connection shows the kernel among others."""
        return any(connection.view == "overview" for connection in self.all)

    def run_changed(self, run: LoggedRun) -> None:
        for connection in list(self.all):
            connection.run_changed(run)

    def runs_removed(self, ids: Sequence[str]) -> None:
        for connection in list(self.all):
            connection.runs_removed(ids)

    @property
    def is_watched(self) -> bool:
        """True when a panel is there that shows the questions of all runs. From any thread."""
        return any(connection.view == "ops" and not connection.is_silent for connection in tuple(self.all))


def _read_positions(hello: Message) -> dict[str, int]:
    """Read how much of each run a returning panel holds; what makes no sense is passed over."""
    have = hello.get("have")
    pairs = have.items() if isinstance(have, Mapping) else ()
    return {str(run_id): n for run_id, n in pairs if isinstance(n, int) and not isinstance(n, bool) and n >= 0}
