"""The answers that a notebook's cells held already when this kernel came: told by their provenance, never by time.

A front end clears a cell's outputs when it runs it, and may save the notebook after that. So the file is read as soon
as the extension is loaded, and what it held then stays known; Jupyter's checkpoint tells of what was cleared before
that.

For a cell with an answer of another session the user is asked, once, whether it is played, run again, or left as it
is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.kernel.run.notebook_trust import LARGEST_NOTEBOOK, join_output
from cellwright.sessions.provenance import PROMPT, provenance_of
from cellwright.text import visible_line

_WORD = b'"prompt_sha256"'
"""A file without it holds no answer of ours, and need not be decoded."""


class SavedAnswer(NamedTuple):
    """A cell's answer: the session that answered, the key of the prompt, and the outputs as the file has them."""

    cell_id: str
    session: str
    prompt: str
    outputs: tuple[Mapping[str, Any], ...]


class SavedAnswers:
    """Reads `notebook` in the background, and again when it has changed. Called from one thread."""

    def __init__(self, notebook: Path | None) -> None:
        self._answers: dict[str, SavedAnswer] = {}
        self._read: tuple[Path, int, int] | None = None
        self._first: Future[None] = Future()
        if notebook is None:
            self._first.set_result(None)
        else:
            threading.Thread(target=self._refresh, args=(notebook,), name="cellwright-answers", daemon=True).start()

    def of(self, prompt: str, cell_id: str | None, notebook: Path | None) -> SavedAnswer | None:
        """The answer to the prompt with this key in the cell that runs, in the file `notebook` as it is known by now."""
        if notebook is None:
            return None
        self._first.result()
        self._read_again(notebook)
        if cell_id is not None and (own := self._answers.get(cell_id)) is not None:
            return own if own.prompt == prompt else None
        return next((answer for answer in self._answers.values() if answer.prompt == prompt), None)

    def _refresh(self, notebook: Path) -> None:
        try:
            self._read_again(notebook)
        finally:
            self._first.set_result(None)

    def _read_again(self, notebook: Path) -> None:
        try:
            status = notebook.stat()
        except OSError:
            return  # not saved yet, or gone
        state = (notebook, status.st_mtime_ns, status.st_size)
        if state == self._read or status.st_size > LARGEST_NOTEBOOK:
            return
        if self._read is None:
            checkpoint = notebook.parent / ".ipynb_checkpoints" / f"{notebook.stem}-checkpoint.ipynb"
            self._answers |= answers_in(checkpoint)
        elif self._read[0] != notebook:
            self._answers.clear()
        self._read = state
        self._answers |= answers_in(notebook)


def answers_in(notebook: Path) -> dict[str, SavedAnswer]:
    """The answers in a notebook file, by their cells' ids; nothing where it cannot be read."""
    try:
        data = notebook.read_bytes()
        cells = json.loads(data)["cells"] if _WORD in data else []
        return {answer.cell_id: answer for answer in _answers(cells)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _answers(cells: Sequence[Mapping[str, Any]]) -> Iterable[SavedAnswer]:
    for position, cell in enumerate(cells):
        outputs = tuple(join_output(output) for output in cell.get("outputs", ()))
        origin = next((origin for output in outputs if (origin := provenance_of(output)) is not None), None)
        if origin is not None:
            yield SavedAnswer(str(cell.get("id", f"cell-{position}")), origin["session"], origin[PROMPT], outputs)


Choice = Literal["run", "replay", "skip"]

RUN = "Run again (this and all others)"
REPLAY = "Play the recording"
SKIP = "Keep the answers as they are"


class UntrustedAnswers:
    """The user's choice about this notebook's earlier answers; it holds as long as the kernel.

    `session` gives the id of the session that goes on; `may_ask`: the user has let this notebook's prompts run already.
    """

    def __init__(self, answers: SavedAnswers, session: Callable[[], str], may_ask: Callable[[], bool]) -> None:
        self._answers = answers
        self._session = session
        self._may_ask = may_ask
        self._own: set[str] = set()
        self._answered: set[tuple[str, str | None]] = set()
        self._skipped: set[tuple[str, str | None]] = set()
        self._choice: Choice | None = None

    def of(self, prompt: str, cell_id: str | None, notebook: Path | None) -> SavedAnswer | None:
        """The answer of another session to the prompt with this key in the cell that runs."""
        earlier = self._answers.of(prompt, cell_id, notebook)
        if earlier is None or earlier.session in (*self._own, self._session()) or (prompt, cell_id) in self._answered:
            return None
        return earlier

    def answered(self, prompt: str, cell_id: str | None) -> None:
        """The cell has an answer of this kernel's."""
        self._own.add(self._session())
        self._answered.add((prompt, cell_id))

    def chosen(self, earlier: SavedAnswer, cell_id: str | None, *, replayable: bool) -> Choice | None:
        """Return what the user wants of this cell's answer; None where they have to be asked."""
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

    def skipped(self, earlier: SavedAnswer, cell_id: str | None) -> None:
        """The cell was left as it is."""
        self._skipped.add((earlier.prompt, cell_id))


class AnswerQuestion:
    """The question about one cell's answer; `request.TrustCheck`."""

    def __init__(
        self, foreign: UntrustedAnswers, earlier: SavedAnswer, cell_id: str | None, *, replayable: bool
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
            detail=f"It holds the answer of an earlier session already ({visible_line(self.earlier.session)}). "
            "Running it again costs as much as a new question, and Claude may change things again.",
            reason="Your choice applies to all such cells of this notebook until the kernel is restarted.",
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
