"""The fate of a cell's prompt: run, recorded, played from a recording, or left as it was answered before.

It is decided, in this order, by `--replay` of the cell, `c.Claude.replay`, `CELLWRIGHT_REPLAY`; then, if none of them
says anything, by whether the cell holds an answer of another session already (docs/decisions/replay.md).

Equal prompts are told apart by the cell they stand in, so that a cell that is run again is the same one. A notebook's
recording is the one that is named, else NAME.cellwright.jsonl beside the notebook.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cellwright.agent.recording.recordings import prompt_key
from cellwright.agent.recording.replay_modes import REPLAY_MODES, process_replay_mode
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.conversation_log import TurnCount
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.magic.options import DEFAULT_FILE
from cellwright.kernel.run.notebook import NotebookTrust, notebook_of
from cellwright.kernel.run.recorded_run import (
    FILE,
    AnswerQuestion,
    RecordedRun,
    RequestedTurn,
    SavedAnswers,
    UntrustedAnswers,
)
from cellwright.text import visible_line

if TYPE_CHECKING:
    from cellwright.agent.recording.recorder import Recorder
    from cellwright.agent.recording.replay import Replay


class PromptPositions:
    """The places of this kernel's prompts, in the order in which they were first run.

    A cell that asks the same several times (a loop) has a place for each. Where cells have no ids, each run is a place.
    """

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[str, int]]] = {}
        self._execution = ""
        self._asked: Counter[str] = Counter()

    def nth(self, key: str, *, cell_id: str | None, execution: str) -> int:
        """Number this prompt among those with `key`, from 1; `execution` names the request that runs the cell."""
        if execution != self._execution:
            self._execution = execution
            self._asked.clear()
        self._asked[key] += 1
        place = (cell_id or execution, self._asked[key])
        places = self._places.setdefault(key, [])
        if place not in places:
            places.append(place)
        return places.index(place) + 1


SUFFIX = ".cellwright.jsonl"

Holds = Callable[[Path], bool]


def default_recording(notebook: Path) -> Path:
    """The recording that is kept beside `notebook`."""
    return notebook.with_name(notebook.stem + SUFFIX)


def found_in(folder: Path, holds: Holds) -> Path | None:
    """The recording of the notebook that runs in `folder`, where nothing tells its name (nbclient): the one that `holds`
    the prompt, or the only one there is; None where no recording fits.

    Raises CellwrightError CONFIG_INVALID where several do.
    """
    candidates = sorted(folder.glob(f"*{SUFFIX}"))
    fitting = [path for path in candidates if holds(path)] if len(candidates) > 1 else candidates
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    raise CellwrightError(
        ErrorCode.CONFIG_INVALID,
        f"Which recording in {folder} is this notebook's cannot be known: several of them hold this prompt "
        f"({', '.join(path.name for path in fitting)}). {HOW_TO_NAME}",
        details={"folder": str(folder)},
    )


HOW_TO_NAME = (
    "Name it: `%config Claude.recording = 'FILE'`, the variable CELLWRIGHT_RECORDING, or `--replay FILE` in the cell."
)


def unknown(folder: Path) -> CellwrightError:
    """Build the error that tells the user there is no notebook to keep a recording beside."""
    message = f"It is unknown which notebook this is, and no recording in {folder} (*{SUFFIX}) holds this prompt. "
    message += HOW_TO_NAME
    return CellwrightError(ErrorCode.CONFIG_INVALID, message, details={"folder": str(folder)})


class RunningCell(NamedTuple):
    """The cell that runs: its id where the front end names it, the request that runs it, whether anybody can be asked.

    `keep` gives it the outputs that it held.
    """

    id: str | None
    execution: str
    can_ask: bool
    keep: Callable[[Sequence[Mapping[str, Any]]], object]


class RecordedRuns:
    """The recordings that this kernel writes and plays, and how its prompts come to be played.

    `notebook` gives the notebook's file where it is known; `foreign` knows of the answers in it; `is_open` says of a file
    whether a front end shows it. `need_model` and `turn_number` as in `RecordedRun`.
    """

    def __init__(
        self,
        project: Path,
        environ: Mapping[str, str],
        *,
        notebook: Callable[[], Path | None],
        foreign: UntrustedAnswers,
        need_model: Callable[[], object],
        turn_number: Callable[[], int],
        is_open: Callable[[Path], bool],
    ) -> None:
        self._project = project
        self._environ = environ
        self._notebook = notebook
        self._foreign = foreign
        self._need_model = need_model
        self._turn_number = turn_number
        self._is_open = is_open
        self._places = PromptPositions()
        self._recorders: dict[Path, Recorder] = {}
        self._replays: dict[Path, Replay] = {}
        self._found: Path | None = None

    def run(self, prompt: str, options: MagicOptions, cell: RunningCell) -> RecordedRun:
        """Prepare the run of `prompt` in `cell`. Raises `CellwrightError` for what cannot be recorded or played."""
        key = prompt_key(prompt, self._project)
        of_process = process_replay_mode(self._environ)
        # "auto", "strict", "off", a file, or None where nobody has said anything
        replay_mode = options.replay or of_process
        if options.replay == "auto" and of_process == "strict":
            replay_mode = "strict"  # what CI asks for is not loosened by the notebook
        requested = RequestedTurn(prompt, key, self._places.nth(key, cell_id=cell.id, execution=cell.execution))
        replay, question = self._played(replay_mode, requested, options, cell)
        plays = replay is not None and replay_mode == "auto" and replay.holds(prompt, nth=requested.nth)
        records = options.record not in (None, "off") and replay_mode != "strict" and not plays
        recorder = self._recorder(self._record_path(options)) if records else None
        return RecordedRun(
            requested=requested,
            replay_mode=replay_mode if replay_mode is None or replay_mode in REPLAY_MODES else FILE,
            need_model=self._need_model,
            turn_number=self._turn_number,
            file_name=lambda holds: self._file_name(holds.path),
            answered=lambda: self._foreign.answered(key, cell.id),
            keep=cell.keep,
            recorder=recorder,
            replay=replay,
            question=question,
        )

    def _played(
        self, replay_mode: str | None, requested: RequestedTurn, options: MagicOptions, cell: RunningCell
    ) -> tuple[Replay | None, AnswerQuestion | None]:
        """The recording that may be played, and what the user is asked about that."""
        if replay_mode in ("auto", "strict"):
            return self._default_replay(options, requested, required=replay_mode == "strict"), None
        if replay_mode is None:
            return self._for_saved_answer(requested, options, cell)
        return (None if replay_mode == "off" else self._replay(self._project / replay_mode)), None

    def _for_saved_answer(
        self, requested: RequestedTurn, options: MagicOptions, cell: RunningCell
    ) -> tuple[Replay | None, AnswerQuestion | None]:
        """Do not silently pay again for an answer that is there already, where nothing was said about it."""
        earlier = self._foreign.of(requested.key, cell.id, self._notebook())
        if earlier is None:
            return None, None
        replay = self._default_replay(options, requested, required=False)
        if replay is not None and not replay.holds(requested.prompt, nth=requested.nth):
            replay = None
        if cell.can_ask:
            return replay, AnswerQuestion(self._foreign, earlier, cell.id, replayable=replay is not None)
        if replay is None:
            raise CellwrightError(
                ErrorCode.PERMISSION_DENIED,
                f"This cell holds the answer of an earlier session already ({visible_line(earlier.session)}), and you "
                "cannot be asked here whether to pay for another. Nothing was sent. CELLWRIGHT_REPLAY=off (or `%config "
                "Claude.replay = 'off'`) runs it again; with a recording, CELLWRIGHT_REPLAY=auto plays it.",
            )
        return replay, None

    def _named(self, options: MagicOptions) -> Path | None:
        if options.record not in (None, "off", DEFAULT_FILE):
            # what a cell is recorded in is what it is played from
            return self._project / options.record
        if name := options.recording or self._environ.get("CELLWRIGHT_RECORDING"):
            return self._project / name
        notebook = self._notebook()
        return default_recording(notebook) if notebook is not None else self._found

    def _record_path(self, options: MagicOptions) -> Path:
        assert options.record is not None
        if options.record != DEFAULT_FILE:
            return self._project / options.record
        if (named := self._named(options)) is None:
            message = f"It is unknown which notebook this is, and so where its recording belongs. {HOW_TO_NAME}"
            raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{message} Nothing was sent.")
        return named

    def _recorder(self, path: Path) -> Recorder:
        if path not in self._recorders:
            from cellwright.agent.recording.recorder import Recorder  # most runs are not recorded

            self._recorders[path] = Recorder(path, self._project, is_open=self._is_open)
        return self._recorders[path]

    def _default_replay(self, options: MagicOptions, requested: RequestedTurn, *, required: bool) -> Replay | None:
        path = self._named(options)
        if path is None:
            path = self._found = found_in(self._project, lambda each: self._replay(each).holds(requested.prompt))
        if path is None and required:
            raise unknown(self._project)
        return None if path is None or not (required or path.exists()) else self._replay(path)

    def _replay(self, path: Path) -> Replay:
        replay = self._replays.get(path)
        if replay is None or replay.is_outdated():
            from cellwright.agent.recording.replay import Replay  # nor played

            replay = self._replays[path] = Replay(path, self._project)
        return replay

    def _file_name(self, recording: Path) -> str | None:
        """The recording as the notebook may name it: by its way from the notebook's folder, or the project's."""
        notebook = self._notebook()
        folders = [self._project] if notebook is None else [notebook.parent, self._project]
        within = (folder for folder in folders if recording.is_relative_to(folder))
        return next((recording.relative_to(folder).as_posix() for folder in within), None)


def recorded_runs(
    conversation: Conversation, notebook: Callable[[], Path | None], trust: NotebookTrust
) -> RecordedRuns:
    """Those of the kernel that has `conversation`; `trust` knows whether the user has let the notebook ask."""
    foreign = UntrustedAnswers(
        SavedAnswers(notebook_of(conversation.in_force.environ)),
        session=lambda: conversation.sessions.current.id,
        may_ask=lambda: trust.said_yes,
    )
    turns = TurnCount()
    return RecordedRuns(
        conversation.cwd,
        conversation.in_force.environ,
        notebook=notebook,
        foreign=foreign,
        need_model=lambda: conversation.model.provider,
        turn_number=lambda: turns.of(conversation.sessions.current) + 1,
        is_open=lambda path: path == notebook() or conversation.tools.open_notebooks.at(path) is not None,
    )
