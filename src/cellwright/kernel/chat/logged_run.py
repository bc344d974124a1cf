"""One run as panels see it: what is told of it, and the log of what happened in it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any, Literal

from cellwright.conversation.run_queue import ConversationRun, State
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, EventLog, RunEnd
from cellwright.kernel.chat.line_log import LineLog
from cellwright.kernel.comm import Op
from cellwright.kernel.output.op_log import OpLog
from cellwright.kernel.output.transcript_ops import TranscriptOps, cut

PROMPT_CHARS = 20_000
"""Of a prompt's words; Claude gets all of them."""

Kind = Literal["prompt", "command", "past"]


@dataclass(eq=False)
class LoggedRun:
    """A run of the conversation, a slash command, or a turn of a transcript. All of it on the agent's loop.

    `state_of_command` is for those that are no `run` of the conversation. `home` is the session that the conversation had
    when it began: mostly its own `session`. `turn` and `last_turn` are the numbers of the turns of `session` that it is,
    None where it left nothing there. `version` rises with each change of what is told of it, `number` with each run that
    begins: 0 for what was over before.
    """

    id: str
    prompt: str
    place: str
    kind: Kind
    asked: float
    background: bool = False
    run: ConversationRun | None = None
    session: str = ""
    home: str = ""
    turn: int | None = None
    last_turn: int | None = None
    over: bool = False
    version: int = 0
    state_of_command: State = "running"
    ops: OpLog = field(default_factory=OpLog)
    lines: LineLog | None = None
    number: int = 0
    chars: int = 0
    """About how much its log holds, when it is over."""
    _view: TranscriptOps = field(init=False)
    _ended: bool = False
    _told: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        self._view = TranscriptOps(self.ops.add)
        self.has_changed()

    @property
    def state(self) -> State:
        return self.state_of_command if self.run is None else self.run.state

    @property
    def has_ended(self) -> bool:
        """Whether its log has an end: nothing may follow that."""
        return self._ended

    def has_changed(self) -> bool:
        """Whether what is told of it is another than when this was asked last; it is a new version then."""
        now = (self.state, self.session, self.turn)
        changed, self._told = now != self._told, now
        self.version += changed
        return changed

    def describe(self) -> dict[str, Any]:
        """RUN of docs/protocol/chat.md."""
        return {
            "id": self.id,
            "prompt": cut(self.prompt, PROMPT_CHARS),
            "place": self.place,
            "kind": self.kind,
            "state": self.state,
            "session": self.session,
            "turn": self.turn,
            "asked": self.asked,
            "background": self.background,
        }

    def hear(self, event: Event) -> None:
        """An event of the run."""
        self._ended = self._ended or isinstance(event, RunEnd)
        if self.lines is not None:
            self.lines.add(event)
        self._view.emit(event)

    def hear_now(self, event: Event) -> None:
        """Something that is no event of the session's, with its time."""
        EventLog(self.hear, 0).emit(event)  # numbers are the session's

    def add(self, op: Op) -> None:
        """An operation that is no event's."""
        self._view.add(op)

    def end(self, error: BaseException | None = None, answer: str = "") -> None:
        """Nothing comes any more. What is no run, or never began, has its end said here: its `answer`, or the `error`."""
        if not self._ended:
            self.hear_now(_end_of(error, answer, self.session, (time.time() - self.asked) * 1000))
        self.over = True
        self.version += 1
        if self.lines is not None:
            self.lines.flush()
        self.ops.close()
        self.chars = _chars(self.ops.after(0)) + (0 if self.lines is None else _chars(self.lines.after(0)))


def _end_of(error: BaseException | None, answer: str, session: str, ms: float) -> RunEnd:
    """The end of something that came to none of its own."""
    if isinstance(error, CancelledError | KeyboardInterrupt):
        error = CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True)
    elif error is not None and not isinstance(error, CellwrightError):
        message = f"This run failed by a fault in Cellwright; its log has the traceback. {error!r:.500}"
        error = CellwrightError(ErrorCode.EXECUTION_ERROR, message)
    interrupted = error is not None and error.code == ErrorCode.INTERRUPTED
    reason = "end_turn" if error is None else "interrupted" if interrupted else "error"
    said = None if error is None else error.to_json()
    return RunEnd(reason, answer, {}, 0.0, ms, 0, 0, 0, 0, session, None, said)


def past_run(session: str, turn: int, prompt: str, asked: float, ops: Sequence[Op]) -> LoggedRun:
    """A turn of a transcript, drawn from it as `ops`."""
    return LoggedRun(
        id=f"past-{session}-{turn}",
        prompt=prompt,
        place="",
        kind="past",
        asked=asked,
        session=session,
        home=session,
        turn=turn,
        last_turn=turn,
        over=True,
        state_of_command="done",
        chars=_chars(ops),
        ops=OpLog(ops),
    )


def _chars(logged: object) -> int:
    match logged:
        case str():
            return len(logged)
        case Mapping():
            return sum(map(_chars, logged.values()))
        case list() | tuple():
            return sum(map(_chars, logged))
    return 0
