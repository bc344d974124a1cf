"""One run of a cell, as recordings have a part in it: played, recorded, or neither; what is asked before, told after."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.conversation.runs import kinds
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Emit, Event, Notice, RunEnd, TurnChanged, UserPrompt
from cellwright.kernel.run.notebook import LARGEST_NOTEBOOK, join_output
from cellwright.sessions.provenance import PROMPT, provenance, provenance_of
from cellwright.text import visible_line

if TYPE_CHECKING:
    from cellwright.agent.recording.recorder import Recorder, TurnListener
    from cellwright.agent.recording.replay import Replay, ReplayedTurn
    from cellwright.conversation.runs.run import Run

_WORD = b'"prompt_sha256"'
"""A file without it holds no answer of ours, and need not be decoded."""

FILE = "file"


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


class RequestedTurn(NamedTuple):
    """The turn that is looked for: the `nth` with this prompt, whose key is `key`."""

    prompt: str
    key: str
    nth: int


class SkippedRun(CellwrightError):
    """The user wants the cell to keep the answer that it holds: the cell is done."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INTERRUPTED, "Skipped: the cell keeps the answer it held.")


@dataclass(eq=False, repr=False, kw_only=True)
class RecordedRun:
    """One run; `kinds.ReplayDecision`.

    `replay_mode`: "auto" plays what is recorded and runs the rest live, "strict" and "file" (`--replay FILE`) play or
    fail, None plays when the user answers `question` so. `need_model` raises CellwrightError where nothing can be sent;
    `turn_number` counts the prompts of the session; `file_name` is how the notebook names a recording; `answered` hears
    of the end, and `keep` of the outputs that the cell is to hold where it is skipped.
    """

    requested: RequestedTurn
    replay_mode: str | None
    need_model: Callable[[], object]
    turn_number: Callable[[], int]
    file_name: Callable[[Replay | Recorder], str | None]
    answered: Callable[[], object]
    keep: Callable[[Sequence[Mapping[str, Any]]], object]
    replay: Replay | None = None
    recorder: Recorder | None = None
    question: AnswerQuestion | None = None
    _played: ReplayedTurn | None = field(default=None, init=False)
    _listening: TurnListener | None = field(default=None, init=False)
    _note: Notice | None = field(default=None, init=False)
    _session: str = field(default="", init=False)
    _model: str = field(default="", init=False)
    _turn: int | None = field(default=None, init=False)
    _changed: TurnChanged | None = field(default=None, init=False)

    @property
    def trust_checks(self) -> Sequence[kinds.TrustCheck]:
        questions: list[kinds.TrustCheck] = [] if self.question is None else [self.question]
        return [*questions, RecordingTrust(self)]

    @property
    def plays(self) -> bool:
        """True when the recording is played, as far as that is known by now."""
        if self.replay is None or (self.question is not None and self.question.chosen != "replay"):
            return False
        return self.replay_mode in (FILE, "strict") or self.replay.holds(self.requested.prompt, nth=self.requested.nth)

    def kind(self) -> kinds.RunKind:
        """A `Replay` of the recorded turn, or live if the model is asked. Raises SkippedRun, CellwrightError."""
        if self.question is not None:
            self._apply_choice(self.question)
        if not self.plays:
            if self.replay_mode == "auto":
                self._run_live()
            return kinds.LIVE
        assert self.replay is not None
        self._played = self.replay.turn(self.requested.prompt, nth=self.requested.nth)
        self._note = Notice(f"Played from {self.replay.path.name}: nothing was sent to the model.")
        return kinds.Replay(self._played)

    def follow(self, run: Run, say: Emit) -> None:
        """Take note of the run's events; what there is to say of the recording goes to `say`.

        It is told of an event before those who show it, so what it says comes before the event.
        """

        def on_event(event: Event) -> None:
            if self._session and self._note is not None:
                say(self._note)
                self._note = None
            if self._played is not None:
                self._played.on_event(event)
            if isinstance(event, RunEnd) and self._played is not None:
                _say_what_differs(self._played, say)
            if isinstance(event, TurnChanged) and self._played is None:
                self._changed = event
            if isinstance(event, UserPrompt):
                self._session, self._model, self._turn = event.session_id, event.model, self.turn_number()
                if self.recorder is not None and self._played is None:
                    self._listening = self.recorder.listen(self.requested.prompt, nth=self.requested.nth)
            if self._listening is not None:
                self._listening.on_event(event)

        run.bus.subscribe(on_event)

    def finish(self) -> list[str]:
        """Return what is left to tell when the run is over. Raises CellwrightError where drift is not allowed."""
        self.answered()
        if self.recorder is not None and self._listening is not None:
            return self.recorder.save(self._listening, turn=self._turn)
        if self._played is None:
            return []
        if self.replay_mode == "strict":
            from cellwright.agent.recording.replay_drift import check_drift

            check_drift(self._played.drift)
        return []

    def metadata(self) -> dict[str, Any]:
        """Return the answer's provenance for the output that is saved; nothing before the run has begun."""
        if not self._session:
            return {}
        changed = self._changed
        holds = self.replay if self._played is not None else self.recorder
        origin = self._played.turn.origin if self._played is not None else {}
        return provenance(
            session=str(origin.get("session", self._session)),
            turn=origin.get("turn", self._turn),
            model=str(origin.get("model", self._model)),
            prompt_sha256=self.requested.key,
            recording=self.file_name(holds) if holds is not None else None,
            undo=changed.turn if changed is not None and changed.counts else None,
            undo_variables=changed.turn if changed is not None and changed.ran_code and not changed.counts else None,
        )

    def _apply_choice(self, question: AnswerQuestion) -> None:
        if question.chosen == "skip":
            question.skipped()
            self.keep(question.earlier.outputs)
            raise SkippedRun
        if question.chosen is None:
            message = "This cell already holds the answer of an earlier session, and you did not say whether to run it "
            message += "again. Nothing was sent. `--replay off` runs it again, `--replay auto` plays its recording."
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)

    def _run_live(self) -> None:
        where = f"the recording {self.replay.path.name}" if self.replay is not None else "a recording"
        missing = f"This prompt is not in {where}."
        try:
            self.need_model()
        except CellwrightError as error:
            raise CellwrightError(error.code, f"{missing} To run it live: {error.message}") from error
        self._note = Notice(f"{missing} It runs live.", "warning")


def _say_what_differs(played: ReplayedTurn, say: Emit) -> None:
    from cellwright.agent.recording.replay_drift import (
        describe_drift,
        describe_unchecked,  # few runs are played
    )

    for text in describe_drift(played.drift):
        say(Notice(text, "warning"))
    if unchecked := describe_unchecked(played.unchecked):
        say(Notice(unchecked))


class RecordingTrust:
    """Asks before somebody else's recording is played; `request.TrustCheck`."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run

    def question(self) -> TrustQuestion | None:
        replay = self._run.replay
        if replay is None or replay.trusted or not self._run.plays:
            return None
        return TrustQuestion(
            about="recording",
            title=f"Play the recording {replay.path.name}",
            detail=f"{replay.path} was not made by you, or was changed since. Playing it sends nothing, but runs its Python "
            "code in your kernel and writes its files.\n(`cellwright trust-recording "
            f"{replay.path.name}` in a terminal says that it may be played.)",
            reason="Play only recordings you have checked or trust.",
            yes="Play it",
            no="Do not play it",
            ids=frozenset((str(replay.path),)),
            required=True,
        )

    def answer(self, question: TrustQuestion, *, yes: bool, chosen: str = "") -> None:
        if yes and self._run.replay is not None:
            self._run.replay.trust()
