"""The log from which one run is drawn: its events, and the operations that they come to when somebody looks.

Receivers share a log, so an event is drawn once however many look on, and not at all while nobody does. Differences
between them (a quiet cell, a warning that belongs to one place) are decided where each reads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from cellwright.errors import log_fault
from cellwright.events import (
    Event,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    TurnEnd,
    UserPrompt,
)
from cellwright.kernel.output.protocol import Op
from cellwright.kernel.output.transcript_ops import TranscriptOps, displayed, drawn_of
from cellwright.telemetry.run_state import MAX_PIECES, as_kept
from cellwright.telemetry.view_limits import DRAWN

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_MESSAGES = 0.05

MESSAGES_AT_ONCE = 3
"""After a pause: the run's beginning, what Claude was told, the first words. None of them waits for the one before."""

Delta = TextDelta | ThinkingDelta | ToolInputDelta | ToolProgress


class _Kept(Struct, eq=False):
    """An event, or an operation that is no event's, that was not drawn yet; `only` is the one who gets it, None: all do.

    `pieces` are the texts of a delta and of those that followed it.
    """

    what: Event | Op
    only: OpReader | None
    stream: tuple[type[Event], int | str] | None = None
    pieces: list[str] = field(default_factory=list)

    @property
    def whole(self) -> Event | Op:
        match self.what:
            case TextDelta() | ThinkingDelta() | ToolProgress() as delta if self.pieces:
                return replace(delta, text="".join(self.pieces))
            case ToolInputDelta() as delta:
                return replace(delta, partial_json="".join(self.pieces))
            case event_or_op:
                return event_or_op


class KeptEvents:
    """Events in order, of each as much as is drawn: memory is linear in the text, and bounded where drawing is."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._output_chars: dict[str, int] = {}

    def add(self, what: Event | Op, only: OpReader | None) -> None:
        """Keep `what` for `only`."""
        match what:
            case TextDelta() | ThinkingDelta():
                self._add_piece(what, (type(what), what.index), what.text, only)
            case ToolInputDelta():
                self._add_piece(what, (ToolInputDelta, what.tool_use_id), what.partial_json, only)
            case ToolProgress():
                if shown := displayed(what):
                    self._kept.append(_Kept(replace(what, text="", message="", output=shown, place=None), only))
                if text := self._live(what.tool_use_id, what.text or (what.message and f"{what.message}\n")):
                    self._add_piece(what, (ToolProgress, what.tool_use_id), text, only)
            case SubagentEvent():
                if (drawn := drawn_of(what)) is not None:
                    self._kept.append(_Kept(drawn, only))
            case dict():
                self._kept.append(_Kept(what, only))
            case _:
                self._kept.append(_Kept(_without_undrawn(what), only))

    def take(self) -> Iterator[tuple[Event | Op, OpReader | None]]:
        """Give away everything that there is."""
        kept, self._kept = self._kept, []
        return ((each.whole, each.only) for each in kept)

    @property
    def chars(self) -> int:
        """About how much it holds."""
        return sum(chars_of(each.pieces or each.what) for each in self._kept)

    def _add_piece(self, delta: Delta, stream: tuple[type[Event], int | str], text: str, only: OpReader | None) -> None:
        last = self._kept[-1] if self._kept else None
        if last is None or last.stream != stream or last.only is not only:
            if isinstance(delta, ToolProgress):  # it may hold more than is shown
                delta = replace(delta, text="", message="", output=None, place=None)
            self._kept.append(_Kept(delta, only, stream, [text]))
            return
        last.pieces.append(text)
        if len(last.pieces) > MAX_PIECES:
            last.pieces = ["".join(last.pieces)]

    def _live(self, tool_use_id: str, text: str) -> str:
        """As much of `text` as is shown live."""
        shown = self._output_chars.get(tool_use_id, 0)
        if not text or shown > DRAWN.output:
            return ""
        self._output_chars[tool_use_id] = shown + len(text)
        if shown + len(text) > DRAWN.output:
            return f"{text[: DRAWN.output - shown]}\n[… more output is not shown live]\n"
        return text


def _without_undrawn(event: Event) -> Event:
    """`event` without what is large and never drawn: the message whose deltas came before it, a result's pictures."""
    match event:
        case UserPrompt():
            return replace(event, prompt="")
        case TurnEnd():
            return replace(event, message={})
        case ToolEnd():
            return as_kept(event)
        case _:
            return event


def chars_of(logged: object) -> int:
    """About how many characters `logged` holds."""
    match logged:
        case str():
            return len(logged)
        case Mapping():
            return sum(map(chars_of, logged.values()))
        case list() | tuple():
            return sum(map(chars_of, logged))
        case Struct():
            return sum(map(chars_of, astuple(logged)))
    return 0


class Drawing(Protocol):
    """Turns events into operations."""

    def emit(self, event: Event) -> None: ...


Draw = Callable[[Callable[[Op], None]], Drawing]
"""Makes what hands the operations of one run's events to its argument, in order."""


class OpLog:
    """One run's events and operations. `on_event` and `add` are called on the agent's loop, the rest from any thread.

    `drawn` is what a log holds that is drawn already.
    """

    def __init__(self, draw: Draw = TranscriptOps, drawn: Sequence[Op] = ()) -> None:
        self._lock = threading.Lock()
        self._kept = KeptEvents()
        self._drawing = draw(self._append)
        self._ops: list[tuple[Op, OpReader | None]] = [(op, None) for op in drawn]
        self._only: OpReader | None = None
        # replaced, never changed: a subscriber may leave while all are told
        self._subscribers: tuple[Callable[[], object], ...] = ()
        self._used_until = float("-inf")
        """The time that is taken by what was told: each time takes `SECONDS_BETWEEN_MESSAGES`."""
        self._timer: asyncio.TimerHandle | None = None

    def on_event(self, event: Event, only: OpReader | None = None) -> None:
        """Take in an event of the run, or one that `only` one receiver is told of."""
        self._add(event, only)

    def add(self, op: Op, only: OpReader | None = None) -> None:
        """Take in an operation that is no event's."""
        self._add(op, only)

    def subscribe(self, subscriber: Callable[[], object]) -> Callable[[], None]:
        """Call `subscriber` on the agent's loop when there is news: at once after a pause, then at most 20 times a second.

        Gives how to stop that.
        """
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

        def leave() -> None:
            with self._lock:
                self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

        return leave

    def after(self, read: int) -> list[tuple[Op, OpReader | None]]:
        """The operations after the first `read`, each with the one who gets it; what was not drawn yet is drawn now."""
        with self._lock:
            for what, only in self._kept.take():
                self._only = only
                if isinstance(what, dict):
                    self._append(what)
                else:
                    self._drawing.emit(what)
            return self._ops[read:]

    @property
    def chars(self) -> int:
        """About how much it holds."""
        with self._lock:
            return self._kept.chars + sum(chars_of(op) for op, _ in self._ops)

    def _append(self, op: Op) -> None:
        self._ops.append((op, self._only))

    def _add(self, what: Event | Op, only: OpReader | None) -> None:
        with self._lock:
            self._kept.add(what, only)
        if self._timer is not None or not self._subscribers:
            return
        wait = self._used_until - time.monotonic() - (MESSAGES_AT_ONCE - 1) * SECONDS_BETWEEN_MESSAGES
        if wait <= 0:
            self._tell()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self._tell)

    def _tell(self) -> None:
        self._timer = None
        self._used_until = max(self._used_until, time.monotonic()) + SECONDS_BETWEEN_MESSAGES
        for subscriber in self._subscribers:
            try:
                subscriber()
            except Exception:  # noqa: BLE001  a receiver that fails must not leave a gap in what the others show
                log_fault(logger, "a receiver of the operations failed")


class OpReader:
    """One receiver of a log: the operations that it gets, counted as it counts them.

    It gets none of the kinds in `leave_out`.
    """

    def __init__(self, log: OpLog, leave_out: frozenset[str] = frozenset()) -> None:
        self._log = log
        self._leave_out = leave_out
        self._read = 0
        self._ops: list[Op] = []

    def after(self, have: int) -> list[Op]:
        """Return what there is after the first `have` operations."""
        self._catch_up()
        return self._ops[have:]

    def __len__(self) -> int:
        """Count the operations."""
        self._catch_up()
        return len(self._ops)

    def _catch_up(self) -> None:
        new = self._log.after(self._read)
        self._read += len(new)
        self._ops += [op for op, only in new if only in (None, self) and op["op"] not in self._leave_out]
