"""`--record` and `--replay`: what they add to a run of a cell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cellwright.agent.agent import Agent
from cellwright.agent.provider import Provider
from cellwright.events import Emit

if TYPE_CHECKING:
    from cellwright.agent.recorder import Recorder
    from cellwright.agent.replay import Replay


class RecordedRun(NamedTuple):
    """How a run is started: where it emits to, who stands in for the model; `finish` gives what the user should know."""

    emit: Emit
    provider: Provider | None = None
    as_played: Callable[[Agent], Agent] | None = None
    finish: Callable[[], list[str]] = list


class RecordedRuns:
    """The recordings that this kernel writes and plays. Each is opened once: equal prompts are counted in it."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._recorders: dict[Path, Recorder] = {}
        self._replays: dict[Path, Replay] = {}

    def recorded(self, file: str, prompt: str, emit: Emit) -> RecordedRun:
        """A run that is kept in `file`. Raises `CellwrightError` when that cannot work."""
        path = self._project / file
        if path not in self._recorders:
            from cellwright.agent.recorder import Recorder  # most runs are not recorded

            self._recorders[path] = Recorder(path, self._project)
        recorder = self._recorders[path]
        return RecordedRun(recorder.listen(prompt, emit), finish=recorder.save)

    def replayed(self, file: str, prompt: str, emit: Emit, confirm: Callable[[str], bool]) -> RecordedRun:
        """A run that is played from `file`; a recording that is not the user's only when `confirm(question)` says so.

        Raises `CellwrightError` when there is no such turn, or it may not be played.
        """
        path = self._project / file
        if path not in self._replays:
            from cellwright.agent.replay import Replay  # nor played

            self._replays[path] = Replay(path, self._project)
        replay = self._replays[path]
        if not replay.trusted and confirm(
            f"The recording {path} was not made by you, or was changed since. Playing it runs its Python code and "
            "writes its files. Play it?"
        ):
            replay.trust()
        turn = replay.turn(prompt)
        return RecordedRun(emit, turn, turn.played_by, lambda: turn.notices)
