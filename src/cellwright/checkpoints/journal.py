"""The journal of a session: its turns and what they changed, on disk before each change, and what was taken back.

It is only ever added to: a JSON Lines file beside the contents it names, in the state folder's `checkpoints/`, for
the user alone. A line that was not finished, by a crash, is passed over. A journal is read from its lines (`fold`), in
order. Each is a JSON object that names its kind by its first key:

    {"turn": 3, "at": 1763…, "seq": 41, "prompt": "Rename the function"}
    {"file": "/p/a.py", "before": {"sha256": "…", "mode": 420} or null, "after": "<sha256>" or null or "unknown",
     "kept": true, "folders": ["/p/new"], "mode_changed": false, "anew": false}
    {"cell": "a1b2", "notebook": "/p/n.ipynb", "before": "<sha256>" or null, "after": "<sha256>" or null or "unknown",
     "before_source": "<sha256>" or null, "after_source": "<sha256>" or null, "beside": "9f0e", "moved": false,
     "kept": true, "anew": false}
    {"effect": "Bash: pytest -q"}
    {"end": 3}
    {"undo": 1, "at": …, "redo_of": null, "turns": [3], "code": true, "as_after": 40 or null, "was_after": 55 or null,
     "files": [{"path": …, "was": {…} or null, "now": {…} or null, "folders": […]}], "cells": […],
     "left": ["/p/b.py"]}
    {"done": 1, "left": ["/p/b.py"]}

The first `file` of a path in a turn says what was there before; each later one only what it is after, unless somebody
else changed the file in between (`anew`): then the turn is taken back to what they left.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import PRIVATE_FILE, checkpoints_folder, journal_path, make_private_folder
from cellwright.tools.paths import shown_path

Json = Mapping[str, Any]

UNKNOWN: Literal["unknown"] = "unknown"
"""Stands for what a file holds after a program that nobody saw end."""

FORMAT = 1

_PROTECTING = ("file", "cell", "undo", "done")

LISTED = 40


class FileContent(Struct, frozen=True):
    """The state of a file: the hash of its content, and its permission bits."""

    sha256: str
    mode: int

    def to_json(self) -> dict[str, Any]:
        return {"sha256": self.sha256, "mode": self.mode}

    @classmethod
    def from_json(cls, data: Json | None) -> FileContent | None:
        return None if data is None else cls(str(data["sha256"]), int(data["mode"]))


class FileChange(Struct):
    """A file in a turn: what it held before (None: there was none) and the hash of what the turn left (None: none).

    `left` is all that the turn wrote there, one after another: of the last it is not sure that it came to be.
    `folders` are those that were made for it. `kept`: what was before is in the store, or was when it was changed.
    """

    path: Path
    before: FileContent | None
    after: str | None
    kept: bool = True
    folders: tuple[Path, ...] = ()
    mode_changed: bool = False
    left: list[str | None] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """True when the turn left it otherwise than it was."""
        return self.mode_changed or self.after != (self.before.sha256 if self.before is not None else None)


class CellChange(Struct):
    """A cell in a turn, as hashes of cells in the store: what it was before (None: not there) and after.

    `after_source` is the hash of its source then. `anchor_id` is the cell before it, "" for the notebook's first.
    """

    notebook: Path
    cell_id: str
    before: str | None
    after: str | None
    after_source: str | None = None
    anchor_id: str = ""
    kept: bool = True
    before_source: str | None = None
    moved: bool = False
    left: list[str | None] = field(default_factory=list)
    """All sources that the turn gave it, as hashes; None where it was gone."""

    @property
    def name(self) -> str:
        return f"{self.notebook}#{self.cell_id}"

    @property
    def changed(self) -> bool:
        return self.moved or self.before != self.after


class CheckpointTurn(Struct):
    """One run of a prompt. `seq` is the number of the session's last event before it."""

    number: int
    at: float
    seq: int
    prompt: str
    files: dict[Path, FileChange] = field(default_factory=dict)
    cells: dict[tuple[Path, str], CellChange] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)
    ended: bool = False
    files_undone: bool = False
    conversation_undone: bool = False
    left: frozenset[str] = frozenset()
    """The parts an undo left out: paths, and cells as `path#id`."""

    @property
    def changed_files(self) -> list[FileChange]:
        return [file for file in self.files.values() if file.changed and self._open(str(file.path))]

    @property
    def changed_cells(self) -> list[CellChange]:
        return [cell for cell in self.cells.values() if cell.changed and self._open(cell.name)]

    def _open(self, name: str) -> bool:
        return not self.files_undone or name in self.left

    def to_undo(self, *, left: bool = False) -> bool:
        """Return whether it changed files or cells not taken back; `left`: those an undo left out count, too."""
        return bool(self.changed_files or self.changed_cells) and (left or not self.files_undone)


class FileStep(Struct, frozen=True):
    """A file that an undo or redo wrote: what it held then, and what it holds since."""

    path: Path
    was: FileContent | None
    now: FileContent | None
    folders: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "was": None if self.was is None else self.was.to_json(),
            "now": None if self.now is None else self.now.to_json(),
            "folders": [str(folder) for folder in self.folders],
        }

    @classmethod
    def from_json(cls, data: Json) -> FileStep:
        return cls(
            Path(data["path"]),
            FileContent.from_json(data["was"]),
            FileContent.from_json(data["now"]),
            tuple(Path(folder) for folder in data["folders"]),
        )


class CellStep(Struct, frozen=True):
    """A cell that an undo or redo changed, as `CellChange` has it."""

    notebook: Path
    cell_id: str
    was: str | None
    now: str | None
    now_source: str | None
    anchor_id: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "notebook": str(self.notebook),
            "cell": self.cell_id,
            "was": self.was,
            "now": self.now,
            "now_source": self.now_source,
            "beside": self.anchor_id,
        }

    @classmethod
    def from_json(cls, data: Json) -> CellStep:
        return cls(
            Path(data["notebook"]), data["cell"], data["was"], data["now"], data["now_source"], data.get("beside", "")
        )


class Undone(Struct):
    """An undo of `turns`, or a redo (`redo_of` is the number of the undo that it takes back).

    `code`: files and cells were restored, but for those `left` out. `as_after` is the event up to which the conversation
    goes since (None: it was not touched), `was_after` up to which it went before. `reported`: a turn has begun since.
    `failed`: nothing came of it, and its user knows.
    """

    number: int
    at: float
    turns: tuple[int, ...]
    code: bool
    files: tuple[FileStep, ...] = ()
    cells: tuple[CellStep, ...] = ()
    left: tuple[str, ...] = ()
    as_after: int | None = None
    was_after: int | None = None
    redo_of: int | None = None
    done: bool = False
    reported: bool = False
    redone: bool = False
    failed: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "undo": self.number,
            "at": self.at,
            "redo_of": self.redo_of,
            "turns": list(self.turns),
            "code": self.code,
            "as_after": self.as_after,
            "was_after": self.was_after,
            "files": [step.to_json() for step in self.files],
            "cells": [step.to_json() for step in self.cells],
            "left": list(self.left),
        }


class History(Struct):
    """The sum of a journal: the turns, oldest first, and what was undone."""

    turns: list[CheckpointTurn] = field(default_factory=list)
    undos: list[Undone] = field(default_factory=list)

    def turn(self, number: int) -> CheckpointTurn | None:
        return next((turn for turn in self.turns if turn.number == number), None)

    def newest(self, count: int, *, code_only: bool, left: bool = False) -> list[CheckpointTurn]:
        """The last `count` turns that can be taken back, newest first.

        With `code_only` those that changed something; else all from the newest of the conversation on. `left`: those count,
        too, of which an undo has left something out.
        """
        if code_only:
            return [turn for turn in reversed(self.turns) if turn.to_undo(left=left)][:count]
        return [turn for turn in reversed(self.turns) if not turn.conversation_undone][:count]

    def only_effects(self, after: int = 0) -> list[CheckpointTurn]:
        """The turns since the turn `after` in which nothing is to be undone, but that had effects; the newest first."""
        return [
            turn
            for turn in reversed(self.turns)
            if turn.number > after and turn.effects and not (turn.changed_files or turn.changed_cells)
        ]

    def to_redo(self) -> Undone | None:
        """The undo that a redo would take back; None where there is none, or a turn has begun since."""
        open_undos = [undo for undo in self.undos if undo.done and undo.redo_of is None and not undo.redone]
        return open_undos[-1] if open_undos and not open_undos[-1].reported else None

    def cut_off(self) -> Undone | None:
        """The undo or redo that was begun last and has come to no end: its process was killed."""
        last = self.undos[-1] if self.undos else None
        return last if last is not None and not (last.done or last.failed or last.reported) else None

    def unreported(self) -> list[Undone]:
        """The undos and redos since the last turn began, oldest first: Claude does not know of them."""
        return [undo for undo in self.undos if undo.done and not undo.reported]


def fold(lines: Iterable[Json]) -> History:
    """Build the history from a journal's lines. Raises ValueError, KeyError, TypeError for lines that are none."""
    history = History()
    for line in lines:
        add(history, line)
    return history


def add(history: History, line: Json) -> None:
    """Take one more line into account."""
    match next(iter(line), ""):
        case "turn":
            at, seq = float(line["at"]), int(line["seq"])
            history.turns.append(CheckpointTurn(int(line["turn"]), at, seq, str(line["prompt"])))
            for undo in history.undos:
                undo.reported = True
        case "file" if history.turns:
            _add_file(history.turns[-1], line)
        case "cell" if history.turns:
            _add_cell(history.turns[-1], line)
        case "effect" if history.turns:
            history.turns[-1].effects.append(str(line["effect"]))
        case "end" if history.turns:
            history.turns[-1].ended = True
        case "undo":
            history.undos.append(_undone(line))
        case "failed" if history.undos:
            history.undos[-1].failed = True
        case "done" if history.undos:
            undo = history.undos[-1]
            undo.left = tuple(line.get("left", undo.left))
            _finish(history, undo)
        case _:
            pass  # of a later version


def _add_file(turn: CheckpointTurn, line: Json) -> None:
    path = Path(line["file"])
    known = turn.files.get(path)
    mode_changed = bool(line.get("mode_changed"))
    if known is not None and not line.get("anew"):
        known.after = line["after"]
        known.mode_changed = known.mode_changed or mode_changed
        known.left.append(known.after)
        return
    folders = tuple(Path(folder) for folder in line.get("folders", ()))
    before = FileContent.from_json(line["before"])
    turn.files[path] = FileChange(
        path, before, line["after"], bool(line["kept"]), folders, mode_changed, [line["after"]]
    )


def _add_cell(turn: CheckpointTurn, line: Json) -> None:
    key = Path(line["notebook"]), str(line["cell"])
    known = turn.cells.get(key)
    if known is None or line.get("anew"):
        turn.cells[key] = known = CellChange(
            *key, line["before"], line["after"], anchor_id=line["beside"], kept=bool(line["kept"])
        )
        known.before_source = line["before_source"]
    known.moved = known.moved or bool(line.get("moved"))
    known.after, known.after_source = line["after"], line["after_source"]
    if known.after != UNKNOWN:
        known.left.append(known.after_source)


def _undone(line: Json) -> Undone:
    return Undone(
        number=int(line["undo"]),
        at=float(line["at"]),
        turns=tuple(line["turns"]),
        code=bool(line["code"]),
        files=tuple(FileStep.from_json(step) for step in line["files"]),
        cells=tuple(CellStep.from_json(step) for step in line["cells"]),
        left=tuple(line["left"]),
        as_after=line["as_after"],
        was_after=line["was_after"],
        redo_of=line["redo_of"],
    )


def _finish(history: History, undo: Undone) -> None:
    undo.done = True
    for undid in history.undos:
        undid.redone = undid.redone or (undo.redo_of is not None and undid.number == undo.redo_of)
    for turn in history.turns:
        if turn.number not in undo.turns:
            continue
        if undo.code:
            turn.files_undone = undo.redo_of is None
            turn.left = frozenset(undo.left)
        if undo.as_after is not None:
            turn.conversation_undone = undo.redo_of is None


def journal_of(session: Session) -> Journal:
    """The journal of `session`; a fork's begins with the turns it was forked after. In memory, if the session is.

    Raises OSError when there is one that cannot be read.
    """
    if session.path is None:
        return Journal(None)
    path = journal_path(session.id)
    journal = Journal(path, _lines(path))
    if not journal.lines and session.forked_from is not None:
        others = _lines(journal_path(session.forked_from))
        # up to the first turn that began after the fork
        later = (at for at, line in enumerate(others) if "turn" in line and line["seq"] >= session.next_seq)
        kept = others[: next(later, len(others))]
        journal.inherit([line for line in kept if "checkpoints" not in line])
    return journal


class Journal:
    """One session's journal. `path` is None for one that is kept in memory. One process writes to it: the lease's holder.

    `inherited` are the lines of another session's, not written yet.
    """

    def __init__(self, path: Path | None, lines: Sequence[Json] = ()) -> None:
        self.path = path
        self.lines = list(lines)
        self.inherited: list[Json] = []
        self.history = History()
        self._take(self.lines)

    def inherit(self, lines: Sequence[Json]) -> None:
        """Begin with the turns of another session."""
        self.inherited = list(lines)
        self._take(lines)

    def _take(self, lines: Sequence[Json]) -> None:
        for line in lines:
            with suppress(KeyError, TypeError, ValueError):  # not as it was written: it protects nothing any more
                add(self.history, line)

    def append(self, *lines: Json) -> None:
        """Add `lines`; what protects a change is on the disk itself when this returns, with all that was added before.

        Raises OSError, and then none of them counts.
        """
        if self.path is not None:
            first = [{"checkpoints": FORMAT}, *self.inherited] if not self.lines else []
            self._write([*first, *lines])
            self.lines += first
            self.inherited = []
        self.lines += lines
        for line in lines:
            add(self.history, line)

    def _write(self, lines: Sequence[Json]) -> None:
        assert self.path is not None
        make_private_folder(self.path.parent)
        data = b"".join(json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode() + b"\n" for line in lines)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), PRIVATE_FILE)
        with os.fdopen(descriptor, "rb+", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            if size and file.seek(size - 1) >= 0 and file.read(1) != b"\n":
                data = b"\n" + data  # behind a line that a crash cut off
            try:
                while data:
                    data = data[file.write(data) :]
                if any(key in line for line in lines for key in _PROTECTING):
                    os.fsync(descriptor)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise


def drop_journals_older_than(seconds: float) -> None:
    """Delete the journals of sessions that nothing was added to for so long."""
    before = time.time() - seconds
    for path in checkpoints_folder().glob("*.jsonl"):
        with suppress(OSError):  # another process may drop it at the same time
            if path.stat().st_mtime < before:
                path.unlink()


def _lines(path: Path) -> list[Json]:
    """The whole lines of a journal, as far as they can be read; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    found: list[Json] = []
    for raw in data.split(b"\n"):
        with suppress(ValueError):
            line = json.loads(raw)
            if isinstance(line, dict):
                found.append(line)
    return found


def names_of(turns: Sequence[CheckpointTurn]) -> str:
    """`turn 3 “Rename it”`, `turns 2 to 4`"""
    numbers = sorted(turn.number for turn in turns)
    if len(numbers) == 1:
        return f"turn {numbers[0]} “{turns[0].prompt}”"
    return f"turns {', '.join(map(str, numbers))}"


def name_of(undo: Undone, history: History) -> str:
    """Name an undo or a redo, as the beginning of a sentence: `The undo of turn 3 “Rename it”`."""
    turns = [turn for turn in history.turns if turn.number in undo.turns]
    return f"The {'undo' if undo.redo_of is None else 'redo'} of {names_of(turns) if turns else 'a turn'}"


def describe_undos(history: History, cwd: Path) -> str:
    """Describe for Claude what happened to its changes since it was last asked; empty where nothing did."""
    parts = [_undo_note(undo, history, cwd) for undo in history.unreported()]
    if not parts:
        return ""
    return "<undo>\n" + "\n".join(parts) + "\nRead files and cells again before you rely on their contents.\n</undo>"


def _undo_note(undo: Undone, history: History, cwd: Path) -> str:
    turns = [turn for turn in history.turns if turn.number in undo.turns]
    which = names_of(turns) if turns else "a turn"
    changed = [shown_path(cwd, step.path) for step in undo.files]
    changed += [f"{shown_path(cwd, step.notebook)}#{step.cell_id}" for step in undo.cells]
    listed = ", ".join(bounded(changed)) or "nothing"
    if undo.redo_of is not None:
        return f"The user has redone {which}. Restored to the state in which your turn left them: {listed}."
    parts = [f"The user has undone {which}."]
    if undo.code:
        parts.append(f"Restored to the state before your changes: {listed}.")
    else:
        kept = [shown_path(cwd, path) for turn in turns for path in turn.files if turn.files[path].changed]
        parts.append(f"Changes in files stay: {', '.join(bounded(kept)) or 'nothing'}.")
    if undo.left:
        parts.append(f"Not restored, because it has changed since: {', '.join(bounded(list(undo.left)))}.")
    if undo.as_after is not None:
        parts.append("Its messages are no longer in this conversation.")
    return " ".join(parts)


def bounded(lines: list[str]) -> list[str]:
    """`lines`, or the first of them and how many more there are."""
    return lines if len(lines) <= LISTED else [*lines[:LISTED], f"… and {len(lines) - LISTED} more"]
