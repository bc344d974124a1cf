"""Where a conversation's played turns make their edits again: kept, like any other change, so that they can be undone."""

from __future__ import annotations

from pathlib import Path

from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.checkpoints.notebooks import RecordedNotebook, RecordedNotebooks
from cellwright.checkpoints.turn_recorder import TurnInProgress
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import OpenNotebook, OpenNotebooks
from cellwright.tools.replayed_edits import ReplayedEdits


def replay_place(cwd: Path, state: FileState, notebooks: OpenNotebooks, checkpoints: Checkpoints) -> ReplayedEdits:
    """The place of the runs in `cwd` that share `state` and `notebooks`."""

    def turn() -> TurnInProgress | None:
        return checkpoints.turn

    def on_disk(path: Path) -> OpenNotebook:
        return RecordedNotebook(FileNotebook(path), turn)

    return ReplayedEdits(cwd, state, RecordedNotebooks(notebooks, turn), on_disk)
