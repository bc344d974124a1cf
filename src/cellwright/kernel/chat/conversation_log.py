"""The one log that all panels show: every run of the conversation, wherever it was started, and the turns before it.

It is kept whether or not a panel is there, so that one that comes late has all of it, and drawn only for those who
look. For programs that come back, runs are kept as JSON lines too: those of `--output-format json-lines`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from msgspec import to_builtins
from msgspec.structs import replace

from cellwright.agent.thread import AgentThread
from cellwright.conversation.runs.run import Run, State
from cellwright.errors import CellwrightError, ErrorCode, fault
from cellwright.events import Answered, Asked, Event, EventLog, RunEnd, TextDelta, ThinkingDelta, TurnEnd, UserPrompt
from cellwright.kernel.output.op_log import Draw, OpLog, OpReader, chars_of
from cellwright.kernel.output.protocol import Op
from cellwright.kernel.output.transcript_ops import TranscriptOps, cut
from cellwright.sessions.api_messages import begins_turn_encoded
from cellwright.sessions.session import Session
from cellwright.telemetry.json_lines import JsonLines, Line


class TurnCount:
    """The number of a session's turns, asked for again and again while it grows: only what is new is looked at."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._last = b""
        self._messages = 0
        self._turns = 0

    def of(self, session: Session) -> int:
        encoded = session.story
        grown = session is self._session and self._messages <= len(encoded)
        if not grown or (self._messages and encoded[self._messages - 1] is not self._last):
            self._session, self._messages, self._turns = session, 0, 0
        self._turns += sum(map(begins_turn_encoded, encoded[self._messages :]))
        self._messages = len(encoded)
        self._last = encoded[-1] if encoded else b""
        return self._turns


class LineLog:
    """Append-only. All of it on the agent's loop.

    Pieces of one text that come between two calls of `flush` are one line: a run of 20,000 of them is told in hundreds.
    """

    def __init__(self) -> None:
        self._view = JsonLines()
        self._lines: list[Line] = []
        self._pending: TextDelta | ThinkingDelta | None = None

    def add(self, event: Event) -> None:
        """Append what `event` comes to."""
        if not isinstance(event, TextDelta | ThinkingDelta):
            self.flush()
            self._lines += self._view.lines(event)
            return
        pending = self._pending
        if pending is not None and (type(pending), pending.index) == (type(event), event.index):
            self._pending = replace(pending, text=pending.text + event.text)
            return
        self.flush()
        self._pending = event

    def flush(self) -> None:
        """Have everything among the lines that was added."""
        if self._pending is not None:
            self._lines += self._view.lines(self._pending)
            self._pending = None

    def after(self, have: int) -> list[Line]:
        """The lines after the first `have`."""
        return self._lines[have:]

    def __len__(self) -> int:
        return len(self._lines)


Kind = Literal["prompt", "command", "past"]


@dataclass(eq=False, repr=False)
class LoggedRun:
    """A run of the conversation, a slash command, or a turn of a transcript. All of it on the agent's loop.

    `log` is what it is drawn from, for its cell as well; `ops` are the operations as panels get and count them. The
    state is that of `run`; what is no run of the conversation has its own, which follows from its events and its end.
    `home` is the session that the conversation had when it began: mostly its own `session`. `turn` and `last_turn` are
    the numbers of the turns of `session` that it is, None where it left nothing there. `version` rises with each change
    of what is told of it, `number` with each run that begins: 0 for what was over before.
    """

    id: str
    prompt: str
    origin: str
    kind: Kind
    asked_at: float
    background: bool = False
    run: Run | None = None
    session: str = ""
    home: str = ""
    turn: int | None = None
    last_turn: int | None = None
    finished: bool = False
    version: int = 0
    log: OpLog = field(default_factory=OpLog)
    ops: OpReader = field(init=False)
    lines: LineLog | None = None
    number: int = 0
    chars: int = 0
    """About how much its log holds, when it is over."""
    ended_at: float | None = None
    """When it ended, in seconds since the epoch; None for a turn of a transcript."""
    replayed: bool = False
    """True while all of it comes from a recording."""
    past_state: State = "done"
    """Of what was over before."""
    _own_state: State = field(init=False)
    _ended: bool = False
    _has_turns: bool = False
    _last_described: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        self.ops = OpReader(self.log)
        self._own_state = self.past_state if self.finished else "running"
        self.has_changed()

    @property
    def state(self) -> State:
        return self._own_state if self.run is None else self.run.state

    @property
    def has_ended(self) -> bool:
        """True when its log has an end: nothing may follow that."""
        return self._ended

    def has_changed(self) -> bool:
        """Return whether what is told of it has changed since this was last asked; it is a new version then."""
        now = (self.state, self.session, self.turn, self.replayed)
        changed, self._last_described = now != self._last_described, now
        self.version += changed
        return changed

    def describe(self) -> dict[str, Any]:
        """RUN of docs/protocol/chat.md."""
        # of a prompt's words; Claude gets all of them
        return {
            "id": self.id,
            "prompt": cut(self.prompt, 20_000),
            "place": self.origin,
            "kind": self.kind,
            "state": self.state,
            "session": self.session,
            "turn": self.turn,
            "asked": self.asked_at,
            "background": self.background,
            "replayed": self.replayed,
            "action": None if self.run is None or self.run.cell_action is None else to_builtins(self.run.cell_action),
        }

    def on_event(self, event: Event) -> None:
        """An event of the run."""
        if isinstance(event, TurnEnd):
            self.replayed = event.replayed and (self.replayed or not self._has_turns)
            self._has_turns = True
        if isinstance(event, Asked | Answered):
            self._own_state = "asking" if isinstance(event, Asked) else "running"
        self._append(event, None)

    def emit_to_panels(self, event: Event) -> None:
        """Say something to panels alone: no event of the session's, so it has no time yet."""
        EventLog(lambda error_json: self._append(error_json, self.ops), 0).emit(event)  # numbers are the session's

    def _append(self, event: Event, only: OpReader | None) -> None:
        self._ended = self._ended or isinstance(event, RunEnd)
        if self.lines is not None:
            self.lines.add(event)
        self.log.on_event(event, only)

    def end(self, error: BaseException | None = None, answer: str = "") -> None:
        """Nothing comes any more. What is no run, or never began, has its end said here: its `answer`, or the `error`."""
        end = _end_of(error, answer, self.session, (time.time() - self.asked_at) * 1000)
        self._own_state = _STATE_AT_END[end.stop_reason]
        if not self._ended:
            self.emit_to_panels(end)
        self.finished = True
        self.ended_at = time.time()
        self.version += 1
        if self.lines is not None:
            self.lines.flush()
        self.chars = self.log.chars + (0 if self.lines is None else chars_of(self.lines.after(0)))


_STATE_AT_END: Mapping[str, State] = {"end_turn": "done", "interrupted": "interrupted", "error": "failed"}


def _end_of(error: BaseException | None, answer: str, session: str, ms: float) -> RunEnd:
    """The end of something that came to none of its own."""
    if isinstance(error, CancelledError | KeyboardInterrupt):
        error = CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True)
    elif error is not None:
        error = fault(error)
    interrupted = error is not None and error.code == ErrorCode.INTERRUPTED
    reason = "end_turn" if error is None else "interrupted" if interrupted else "error"
    error_json = None if error is None else error.to_json()
    return RunEnd(reason, answer, {}, 0.0, ms, 0, 0, 0, (), session, None, error_json)


def past_run(
    session: str, turn: int, prompt: str, asked_at: float, ops: Sequence[Op], state: State = "done"
) -> LoggedRun:
    """A turn of a transcript, drawn from it as `ops`."""
    return LoggedRun(
        id=f"past-{session}-{turn}",
        prompt=prompt,
        origin="",
        kind="past",
        asked_at=asked_at,
        session=session,
        home=session,
        turn=turn,
        last_turn=turn,
        finished=True,
        chars=chars_of(ops),
        log=OpLog(drawn=ops),
        past_state=state,
    )


RUNS_KEPT = 50
"""Of the runs that are over, the last."""

CHARS_KEPT = 50_000_000
"""Of all of them together: a kernel lives for weeks, and a run may hold hundreds of pictures. The newest stays."""


class LogWatcher(Protocol):
    """Whoever shows the log. Called on the agent's loop."""

    def run_changed(self, run: LoggedRun) -> None:
        """Something of `run` is new."""

    def runs_removed(self, ids: Sequence[str]) -> None:
        """These runs are no part of the conversation any more."""

    def moved(self) -> None:
        """Another session, or less or more of this one, is the conversation's now."""


class ConversationLog:
    """An observer of a conversation. What it holds is read and changed on the agent's loop, which each call is brought to.

    `session` gives the session that the conversation has now, None where it has none yet. `draw` makes what turns a run's
    events into operations.
    """

    def __init__(self, thread: AgentThread, session: Callable[[], Session | None], draw: Draw = TranscriptOps) -> None:
        self.id = secrets.token_hex(8)
        self.runs: dict[str, LoggedRun] = {}
        self.keeps_lines = False
        """True when runs that begin are kept as JSON lines, too."""
        self._watchers: list[LogWatcher] = []
        self.last_number = 0
        self._thread = thread
        self._session = session
        self._turns = TurnCount()
        self._draw = draw
        self._lock = threading.Lock()
        self._logs: WeakKeyDictionary[Run, OpLog] = WeakKeyDictionary()

    def watch(self, watcher: LogWatcher) -> None:
        """Tell `watcher` of what changes, from now on."""
        self._watchers.append(watcher)

    def keep_lines(self) -> None:
        """Keep the runs that begin from now on as JSON lines, too: a program reads them."""
        self.keeps_lines = True

    def run_changed(self, run: LoggedRun) -> None:
        """Tell who watches that something of `run` is new."""
        for watcher in self._watchers:
            watcher.run_changed(run)

    def log_of(self, run: Run) -> OpLog:
        """Return the log that `run` is drawn from, for whoever shows it; from any thread."""
        with self._lock:
            if run not in self._logs:
                self._logs[run] = OpLog(self._draw)
            return self._logs[run]

    def _runs_removed(self, ids: Sequence[str]) -> None:
        for watcher in self._watchers:
            watcher.runs_removed(ids)

    def run_added(self, run: Run) -> None:
        self._on_loop(self._add, run)

    def on_event(self, run: Run, event: Event) -> None:
        if (logged := self.runs.get(run.id)) is None:
            return  # it began before the log did
        if isinstance(event, UserPrompt):
            logged.session, logged.home = event.session_id, self._home
            session = self._session()
            logged.turn = (
                self._turns.of(session) + 1 if session is not None and session.id == event.session_id else None
            )
        logged.on_event(event)
        if not isinstance(event, TextDelta | ThinkingDelta) and logged.has_changed():
            self.run_changed(logged)

    def run_ended(self, run: Run) -> None:
        self._on_loop(self._end, run)

    def session_changed(self, _session: Session) -> None:
        def moved() -> None:
            for watcher in self._watchers:
                watcher.moved()

        self._on_loop(moved)

    def begin(self, logged: LoggedRun) -> None:
        """Take in a run that is none of the conversation's own: a slash command."""
        self.last_number += 1
        logged.number = self.last_number
        logged.log.subscribe(lambda: self._on_written(logged))
        self.runs[logged.id] = logged
        self._forget_old()
        self.run_changed(logged)

    def end(self, logged: LoggedRun, error: BaseException | None = None, answer: str = "") -> None:
        """It is over."""
        logged.end(error, answer)
        self.run_changed(logged)
        self._forget_old()

    def stuck(self, run: Run | None, tool_use_id: str, text: str) -> None:
        """The code of this call does not react to an interrupt."""
        if run is not None and (logged := self.runs.get(run.id)) is not None:
            logged.log.add({"op": "stuck", "id": tool_use_id, "text": text})

    @property
    def turns(self) -> int:
        """The number of turns the session has."""
        session = self._session()
        return 0 if session is None else self._turns.of(session)

    def insert_past(self, past: Iterable[LoggedRun]) -> None:
        """Put turns of a transcript before everything that is not over, in the order of their turns.

        Panels are told of what follows them anew: runs are shown in the order of the log.
        """
        new = {run.id: run for run in past if run.id not in self.runs}
        if not new:
            return
        finished = [run for run in self.runs.values() if run.finished]
        rest = [run for run in self.runs.values() if not run.finished]
        placed = sorted([*finished, *new.values()], key=lambda run: run.asked_at)
        first = next(at for at, run in enumerate(placed) if run.id in new)
        again = [run for run in (*placed[first:], *rest) if run.id not in new]
        if again:
            self._runs_removed([run.id for run in again])
        self.runs = {run.id: run for run in (*placed, *rest)}
        self._forget_old()
        for run in (*placed[first:], *rest):
            if run.id in self.runs:
                self.run_changed(run)

    def drop(self, ids: Sequence[str]) -> None:
        """Take runs out that are no part of the conversation any more."""
        removed = [run_id for run_id in ids if self.runs.pop(run_id, None) is not None]
        if removed:
            self._runs_removed(removed)

    def _add(self, run: Run) -> None:
        self.begin(
            LoggedRun(
                id=run.id,
                prompt=run.text,
                origin=run.origin,
                kind="prompt",
                asked_at=run.asked_at,
                background=run.background,
                run=run,
                home=self._home,
                log=self.log_of(run),
                lines=LineLog() if self.keeps_lines else None,
            )
        )

    def _end(self, run: Run) -> None:
        if (logged := self.runs.get(run.id)) is None:
            return
        if logged.turn is not None:
            session = self._session()
            last = self._turns.of(session) if session is not None and session.id == logged.session else 0
            # a prompt that a hook refused, for one, leaves nothing in the session
            logged.turn, logged.last_turn = (logged.turn, last) if last >= logged.turn else (None, None)
        self.end(logged, run.failure)

    def _on_written(self, logged: LoggedRun) -> None:
        if logged.finished:
            return  # its end was told, and it may be gone
        if logged.lines is not None:
            logged.lines.flush()
        self.run_changed(logged)

    @property
    def _home(self) -> str:
        session = self._session()
        return "" if session is None else session.id

    def _forget_old(self) -> None:
        finished = [run for run in self.runs.values() if run.finished]
        chars = sum(run.chars for run in finished)
        old: list[str] = []
        for run in finished[:-1]:
            if len(finished) - len(old) <= RUNS_KEPT and chars <= CHARS_KEPT:
                break
            old.append(run.id)
            chars -= run.chars
        self.drop(old)

    def _on_loop(self, call: Callable[..., object], *args: Any) -> None:
        # the loop is closed when the extension was unloaded
        with contextlib.suppress(RuntimeError):
            loop: asyncio.AbstractEventLoop = self._thread.loop
            loop.call_soon_threadsafe(call, *args)
