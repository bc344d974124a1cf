"""The checkpoints of a conversation: the turn that runs now keeps what it changes; each session has its journal."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cellwright.agent.session import Session
from cellwright.agent.turn_record import NOT_KEPT, TurnRecord
from cellwright.checkpoints.journal import Journal, drop_journals_older_than, journal_of
from cellwright.checkpoints.turn_in_progress import TurnInProgress
from cellwright.tools.originals import OriginalsOnly, Upcoming, drop_older_than
from cellwright.visible_text import visible_line

logger = logging.getLogger(__name__)

PROMPT_CHARS = 200
SECONDS_A_DAY = 86_400


class Checkpoints:
    """Keeps what the turns of one conversation change, unless it is not `enabled()`; a `Keeper` of its tools.

    `roots` are the folders it works in, its own first. What is older than `days()` is dropped.
    """

    def __init__(
        self, roots: Callable[[], Sequence[Path]], enabled: Callable[[], bool], days: Callable[[], int]
    ) -> None:
        self.enabled = enabled
        self.turn: TurnInProgress | None = None
        self._roots = roots
        self._days = days
        self._journal: tuple[Session, Journal] | None = None
        self._tidied = False
        self._without_turns = OriginalsOnly()

    def journal(self, session: Session) -> Journal:
        """The journal of `session`. Raises OSError when it cannot be read."""
        if self._journal is None or self._journal[0] is not session:
            self._journal = session, journal_of(session)
        return self._journal[1]

    def begin(self, session: Session, prompt: str, seq: int) -> TurnRecord:
        self.turn = None
        if not self.enabled():
            return NOT_KEPT
        self._tidy()
        try:
            journal = self.journal(session)
            number = max((turn.number for turn in journal.history.turns), default=0) + 1
            first = next((line for line in prompt.splitlines() if line.strip()), "")
            prompt = visible_line(first.strip(), PROMPT_CHARS)
            journal.append({"turn": number, "at": round(time.time(), 3), "seq": seq, "prompt": prompt})
        except OSError as error:
            logger.warning("this turn cannot be taken back: its journal cannot be written: %s", error)
            return NOT_KEPT
        self.turn = TurnInProgress(journal, journal.history.turns[-1], self._roots(), self._over)
        return self.turn

    def _over(self) -> None:
        self.turn = None

    def before_changes(self, changes: Sequence[Upcoming]) -> None:
        if self.turn is not None:
            self.turn.before_changes(changes)
        elif self.enabled():
            self._without_turns.before_changes(changes)

    def after_changes(self, paths: Sequence[Path]) -> None:
        if self.turn is not None:
            self.turn.after_changes(paths)

    def before_program(self, paths: Sequence[Path]) -> None:
        if self.turn is not None:
            self.turn.before_program(paths)

    def after_program(self) -> None:
        if self.turn is not None:
            self.turn.after_program()

    def _tidy(self) -> None:
        if self._tidied:
            return
        self._tidied = True
        seconds = max(self._days(), 1) * SECONDS_A_DAY

        def work() -> None:
            drop_journals_older_than(seconds)
            drop_older_than(seconds)

        threading.Thread(target=work, name="cellwright-old-checkpoints", daemon=True).start()
