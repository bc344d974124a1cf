"""A cell that holds an answer of another session: it is asked, once, whether it is played, run again, or left as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.kernel.run.saved_outputs import EarlierAnswer, EarlierAnswers

Choice = Literal["run", "replay", "skip"]

RUN = "Run again (this and all others)"
REPLAY = "Play the recording"
SKIP = "Keep the answers as they are"


class ForeignAnswers:
    """What the user wants of this notebook's earlier answers; the choice holds as long as the kernel.

    `session` gives the id of the session that goes on; `may_ask`: the user has let this notebook's prompts run already.
    """

    def __init__(self, answers: EarlierAnswers, session: Callable[[], str], may_ask: Callable[[], bool]) -> None:
        self._answers = answers
        self._session = session
        self._may_ask = may_ask
        self._own: set[str] = set()
        self._answered: set[tuple[str, str | None]] = set()
        self._skipped: set[tuple[str, str | None]] = set()
        self._choice: Choice | None = None

    def of(self, prompt: str, cell_id: str | None, notebook: Path | None) -> EarlierAnswer | None:
        """The answer of another session to the prompt with this key in the cell that runs."""
        earlier = self._answers.of(prompt, cell_id, notebook)
        if earlier is None or earlier.session in (*self._own, self._session()) or (prompt, cell_id) in self._answered:
            return None
        return earlier

    def answered(self, prompt: str, cell_id: str | None) -> None:
        """The cell has an answer of this kernel's."""
        self._own.add(self._session())
        self._answered.add((prompt, cell_id))

    def chosen(self, earlier: EarlierAnswer, cell_id: str | None, *, replayable: bool) -> Choice | None:
        """What the user wants of this cell's answer; None where they have to be asked."""
        if self._choice is None and self._may_ask() and not replayable:
            return "run"
        if self._choice == "replay" and not replayable:
            return None
        # who runs a cell again that was left as it is means it
        if self._choice == "skip" and (earlier.prompt, cell_id) in self._skipped:
            return None
        return self._choice

    def choose(self, choice: Choice) -> None:
        self._choice = choice
        self._skipped.clear()

    def skipped(self, earlier: EarlierAnswer, cell_id: str | None) -> None:
        """The cell was left as it is."""
        self._skipped.add((earlier.prompt, cell_id))


class AnswerQuestion:
    """The question about one cell's answer; `conversation_settings.Asking`."""

    def __init__(
        self, foreign: ForeignAnswers, earlier: EarlierAnswer, cell_id: str | None, *, replayable: bool
    ) -> None:
        self.earlier = earlier
        self._foreign = foreign
        self._cell_id = cell_id
        self._replayable = replayable

    @property
    def chosen(self) -> Choice | None:
        return self._foreign.chosen(self.earlier, self._cell_id, replayable=self._replayable)

    def question(self) -> TrustQuestion | None:
        if self.chosen is not None:
            return None
        return TrustQuestion(
            about="answer",
            title="Answer this cell again",
            detail=f"It holds the answer of an earlier session already ({self.earlier.session}). To run it again costs what "
            "a new question costs, and Claude may change things again.",
            reason="What you choose holds for all such cells of this notebook until the kernel is restarted.",
            yes=REPLAY if self._replayable else RUN,
            no=SKIP,
            ids=frozenset((self.earlier.session,)),
            also=(RUN,) if self._replayable else (),
        )

    def answer(self, question: TrustQuestion, *, yes: bool, chosen: str = "") -> None:
        if not yes:
            self._foreign.choose("skip")
        else:
            self._foreign.choose("replay" if self._replayable and chosen != RUN else "run")

    def skipped(self) -> None:
        """The cell was left as it is."""
        self._foreign.skipped(self.earlier, self._cell_id)
