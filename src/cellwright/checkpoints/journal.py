"""The journal of a session: the turns there were and what they changed, on disk before each change.

It is only ever added to: a JSON Lines file beside the contents it names, in the state folder's `checkpoints/`, for
the user alone. A line that was not finished, by a crash, is passed over.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cellwright.checkpoints.records import CheckpointTurn, History, Json, Undone, add
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import PRIVATE_FILE, checkpoints_folder, journal_path, make_private_folder
from cellwright.tools.paths import shown_path

FORMAT = 1

_PROTECTING = ("file", "cell", "undo", "done")

LISTED = 40


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
        journal.inherit(_up_to(others, session.next_seq))
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


def _up_to(lines: Sequence[Json], seq: int) -> list[Json]:
    """The lines of a journal up to the first turn that began at the event `seq` or later."""
    later = (at for at, line in enumerate(lines) if "turn" in line and line["seq"] >= seq)
    return [line for line in lines[: next(later, len(lines))] if "checkpoints" not in line]


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
