"""The plan of an undo for files, worked out without doing anything: the content each would have again, or why not.

A file is followed from what it holds now back through the turns. If it is not what a turn left, somebody else has
changed it since: from there on nothing is taken back, unless that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from cellwright.checkpoints.records import CheckpointTurn, FileChange, FileContent, FileStep
from cellwright.checkpoints.turn_recorder import COUNTED_BYTES, PathState, at, line_counts
from cellwright.events import Changed
from cellwright.tools.files.originals import original
from cellwright.tools.paths import shown_path

What = Literal["code", "conversation", "both"]

Blocked = Callable[[Path], str]
"""The reason the file at a path must not be written now; empty where it may be."""


class FileUndo(Struct, frozen=True, kw_only=True):
    """The undo of one file: it holds `now` and shall hold `target` (None: no file), with its mode if `set_mode`.

    `refused` says why nothing is done, and `conflict` that it is because somebody else changed it: it can be forced.
    """

    path: Path
    now: PathState
    target: FileContent | None = None
    set_mode: bool = False
    folders: tuple[Path, ...] = ()
    refused: str = ""
    conflict: bool = False

    @property
    def needed(self) -> bool:
        """True when there is something to do, and it can be done."""
        if self.refused:
            return False
        if self.target is None or self.now.held is None:
            return self.target != self.now.held
        other_mode = self.set_mode and self.now.held.mode != self.target.mode
        return other_mode or self.target.sha256 != self.now.held.sha256

    def shown(self, cwd: Path) -> Changed:
        """For people: what the undo does to the file."""
        where = shown_path(cwd, self.path)
        kind: Literal["created", "changed", "deleted"] = (
            "deleted" if self.target is None else "created" if self.now.held is None else "changed"
        )
        after = None if self.target is None else original(self.target.sha256)
        try:
            small = self.now.status is None or self.now.status.st_size <= COUNTED_BYTES
            before = None if self.now.held is None else self.path.read_bytes() if small else None
        except OSError:
            return Changed(where, kind)
        if (before is None) != (self.now.held is None) or (after is None) != (self.target is None):
            return Changed(where, kind)
        return Changed(where, kind, *line_counts(before, after))


def file_undos(turns: Sequence[CheckpointTurn], blocked: Blocked, *, force: bool) -> list[FileUndo]:
    """Work out what taking back `turns` (newest first) makes of each of their files."""
    changes: dict[Path, list[tuple[CheckpointTurn, FileChange]]] = {}
    for turn in turns:
        for file in turn.changed_files:
            changes.setdefault(file.path, []).append((turn, file))
    return [_back_through(path, back, blocked, force=force) for path, back in changes.items()]


def file_redos(steps: Sequence[FileStep], blocked: Blocked, *, force: bool) -> list[FileUndo]:
    """Work out what taking back an undo makes of the files that it wrote."""
    undos: list[FileUndo] = []
    for step in steps:
        now = at(step.path)
        expected = None if step.now is None else step.now.sha256
        target = None if step.was is None else step.was.sha256
        known = not now.problem and now.sha256 in (expected, target)
        undo = FileUndo(path=step.path, now=now, target=step.was, set_mode=True, folders=step.folders)
        undos.append(_checked(undo, blocked, "" if known else "it has changed since the undo", force=force))
    return undos


def _back_through(
    path: Path, back: Sequence[tuple[CheckpointTurn, FileChange]], blocked: Blocked, *, force: bool
) -> FileUndo:
    now = at(path)
    holds, target, set_mode, conflict = now.sha256, now.held, False, ""
    folders: list[Path] = []
    for turn, file in back:
        before = None if file.before is None else file.before.sha256
        # of a turn that was cut off the last change may not have come to be
        left = [file.after] if turn.ended else file.left[-2:]
        known = not now.problem and holds in (before, *left)
        if not known and not conflict:
            conflict = now.problem or f"it has changed since turn {turn.number}"
        if conflict and not force:
            break
        holds, target = before, file.before
        set_mode = set_mode or file.mode_changed
        folders += file.folders
    undo = FileUndo(path=path, now=now, target=target, set_mode=set_mode, folders=tuple(folders))
    return _checked(undo, blocked, conflict, force=force)


def _checked(undo: FileUndo, blocked: Blocked, conflict: str, *, force: bool) -> FileUndo:
    """The same, refused where it cannot be done or must not."""
    refused, forcible = "", False
    if undo.now.problem:
        refused = undo.now.problem
    elif conflict and not force:
        refused, forcible = conflict, True
    elif undo.needed and undo.target is not None and original(undo.target.sha256) is None:
        refused = "its earlier content was not kept"
    elif undo.needed:
        refused = blocked(undo.path)
    if not refused:
        return undo
    return FileUndo(path=undo.path, now=undo.now, target=undo.target, refused=refused, conflict=forcible)
