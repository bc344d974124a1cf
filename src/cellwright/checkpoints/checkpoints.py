"""The checkpoints of a conversation: the turn that runs now keeps what it changes; each session has its journal."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from cellwright.agent.agent_setup import NO_CHECKPOINTS, TurnRecord
from cellwright.agent.prompt import ContextItems, PromptContext, text_context
from cellwright.checkpoints.journal import Journal, describe_undos, drop_journals_older_than, journal_of
from cellwright.checkpoints.turn_recorder import RecordedNotebook, RecordedNotebooks, TurnRecorder
from cellwright.sessions.file_changes import drop_outcomes_older_than, untold_changes
from cellwright.sessions.session import Session
from cellwright.text import visible_line
from cellwright.tools.files.atomic_write import recover_changes
from cellwright.tools.files.file_state import OriginalsOnly, UpcomingChange, drop_older_than
from cellwright.tools.notebook.open_notebook import OpenNotebook, OpenNotebooks

logger = logging.getLogger(__name__)

PROMPT_CHARS = 200
SECONDS_PER_DAY = 86_400


class Checkpoints:
    """Keeps what the turns of one conversation change, unless it is not `enabled()`; the `KeptChanges` of its tools.

    `roots` are the folders it works in, its own first. What is older than `days()` is dropped.
    """

    def __init__(
        self, roots: Callable[[], Sequence[Path]], enabled: Callable[[], bool], days: Callable[[], int]
    ) -> None:
        self.enabled = enabled
        self.turn: TurnRecorder | None = None
        self._roots = roots
        self._days = days
        self._journals: WeakKeyDictionary[Session, Journal] = WeakKeyDictionary()
        self._last: Session | None = None
        self._tidied = False
        self._without_turns = OriginalsOnly()
        self._ended: list[str] = []
        self._to_claude: list[str] = []

    def journal(self, session: Session) -> Journal:
        """The journal of `session`; an undo that was cut off is ended. Raises OSError when it cannot be read."""
        if session not in self._journals:
            journal = self._journals[session] = journal_of(session)
            if journal.history.cut_off() is not None:
                from cellwright.checkpoints.undo import end_cut_off_undo  # few are

                if ended := end_cut_off_undo(journal, session):
                    self._ended.append(ended)
        return self._journals[session]

    def end_cut_off(self, session: Session) -> list[str]:
        """End what killed processes have left half done in these folders; gives what the user must know. Never raises.

        Claude is told with the next prompt. It costs a look into a folder that is empty mostly.
        """
        recover_changes()
        with suppress(OSError):
            self.journal(session)
        changes = untold_changes(self._roots())
        # the session where it was begun has the call's result, or the undo, in its own words
        self._to_claude += [change.text for change in changes if change.session != session.id]
        ended, self._ended = self._ended, []
        # of an undo of this session more is known than of its files
        known = tuple(text.partition(" was cut off ")[0] for text in ended)
        return [*ended, *(change.text for change in changes if not change.text.startswith(known))]

    def is_cut_off(self, session: Session) -> bool:
        """Return whether an undo of `session` waits for its cells to be changed."""
        return session in self._journals and self._journals[session].history.cut_off() is not None

    def session_of(self, session: Session) -> Session:
        """The session whose turns can be taken back: `session`, unless the last turn was in one in memory."""
        return self._last if self._last is not None and self._last.path is None else session

    def undo_context(self, prompt_context: PromptContext) -> ContextItems:
        """Gather what Claude must know of undone and cut off changes with the next prompt; a `ContextProvider`."""
        told, self._to_claude = self._to_claude, []
        blocks = []
        if told:
            lines = "\n".join([*told, "Read these files before you rely on their contents."])
            text = f"<interrupted-changes>\n{lines}\n</interrupted-changes>"
            blocks.append(text_context("What a killed process left", "context", text))
        with suppress(OSError):
            if text := describe_undos(self.journal(prompt_context.session).history, self._roots()[0]):
                blocks.append(text_context("The undone changes", "context", text))
        return ContextItems(before=tuple(blocks))

    def begin(self, session: Session, prompt: str, seq: int) -> TurnRecord:
        self.turn = None
        if not self.enabled():
            return NO_CHECKPOINTS
        self._tidy()
        try:
            journal = self.journal(session)
            number = max((turn.number for turn in journal.history.turns), default=0) + 1
            first = next((line for line in prompt.splitlines() if line.strip()), "")
            prompt = visible_line(first.strip(), PROMPT_CHARS)
            journal.append({"turn": number, "at": round(time.time(), 3), "seq": seq, "prompt": prompt})
        except OSError as error:
            # a session that has no file has said why
            level = logging.WARNING if session.path is not None else logging.INFO
            logger.log(level, "this turn cannot be taken back: its journal cannot be written: %s", error)
            return NO_CHECKPOINTS
        self._last = session
        self.turn = TurnRecorder(journal, journal.history.turns[-1], self._roots(), self._turn_ended)
        return self.turn

    def _turn_ended(self) -> None:
        self.turn = None

    def before_changes(self, changes: Sequence[UpcomingChange]) -> None:
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

    def recorded(self, notebook: OpenNotebook) -> OpenNotebook:
        """`notebook`, whose cells the turn keeps before they change."""
        return RecordedNotebook(notebook, lambda: self.turn)

    def recorded_notebooks(self, notebooks: OpenNotebooks) -> OpenNotebooks:
        """`notebooks`, each as `recorded`."""
        return RecordedNotebooks(notebooks, lambda: self.turn)

    def _tidy(self) -> None:
        if self._tidied:
            return
        self._tidied = True
        seconds = max(self._days(), 1) * SECONDS_PER_DAY

        def work() -> None:
            drop_journals_older_than(seconds)
            drop_older_than(seconds)
            drop_outcomes_older_than(seconds)

        threading.Thread(target=work, name="cellwright-old-checkpoints", daemon=True).start()
