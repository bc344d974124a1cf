"""Turns taken back, and brought back: planned, then done. What is done is written down before it is done.

A plan for files and for the cells of notebooks is worked out without doing anything. A file is followed from what it holds
now back through the turns. If it is not what a turn left, somebody else has changed it since: from there on nothing is
taken back, unless that was asked for.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.checkpoints.journal import CellChange as KeptChange
from cellwright.checkpoints.journal import (
    CellStep,
    CheckpointTurn,
    FileChange,
    FileContent,
    FileStep,
    Journal,
    Undone,
    name_of,
)
from cellwright.checkpoints.turn_recorder import COUNTED_BYTES, PathState, at, cell_data, line_counts
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import Changed
from cellwright.sessions.file_changes import CallId, changing_call
from cellwright.sessions.session import Session
from cellwright.text import counted
from cellwright.tools.files.atomic_write import FileWrite, recover_changes, write_together
from cellwright.tools.files.file_state import FileState, keep_original, original, sha256
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import (
    Cell,
    CellChange,
    CellPosition,
    Delete,
    Insert,
    Move,
    OpenNotebook,
    OpenNotebooks,
    Replace,
    cell_name,
)
from cellwright.tools.paths import file_errors, shown_path

What = Literal["code", "conversation", "both"]

Blocked = Callable[[Path], str]
"""The reason the file at a path must not be written now; empty where it may be."""

FindNotebook = Callable[[Path], OpenNotebook]
"""The notebook at a path, where it can be changed now. Raises ToolError that says why it cannot."""


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
    alone = len(turns) == 1
    return [_back_through(path, back, blocked, alone=alone, force=force) for path, back in changes.items()]


def _since(turn: CheckpointTurn, *, alone: bool) -> str:
    """Say since when something should not have changed; `alone`: only one turn is spoken of."""
    return "since then" if alone else f"since turn {turn.number}"


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
    path: Path, back: Sequence[tuple[CheckpointTurn, FileChange]], blocked: Blocked, *, alone: bool, force: bool
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
            conflict = now.problem or f"it has changed {_since(turn, alone=alone)}"
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


class CellTarget(Struct, frozen=True, kw_only=True):
    """The state to restore a cell to: `target` names a cell in the store (None: no cell), `anchor_id` the one before it.

    `expected` are the sources (hashes; None: no cell) that it may have now without anybody else having changed it.
    """

    notebook: Path
    cell_id: str
    expected: Collection[str | None]
    target: str | None
    anchor_id: str = ""
    moved: bool = False
    since: str = ""
    """Since when it should not have changed, in words."""


class CellUndo(Struct, frozen=True, kw_only=True):
    """The undo of one cell: it is `now` (None: not there), and these `changes` make it what it shall be.

    `refused` says why nothing is done, and `conflict` that it is because somebody else changed it: it can be forced.
    """

    about: CellTarget
    now: Cell | None = None
    anchor_id: str = ""
    """The cell before it now."""
    changes: tuple[CellChange, ...] = ()
    refused: str = ""
    conflict: bool = False

    @property
    def name(self) -> str:
        return f"{self.about.notebook}#{self.about.cell_id}"

    def shown(self, cwd: Path, own: Path | None) -> Changed:
        """For people: what the undo does to the cell. A cell of the notebook `own` is named without it."""
        target = _kept(self.about.target)
        kind: Literal["created", "changed", "deleted"] = (
            "deleted" if self.about.target is None else "created" if self.now is None else "changed"
        )
        before = None if self.now is None else self.now.source.encode("utf-8", "surrogatepass")
        after = None if target is None else str(target["source"]).encode("utf-8", "surrogatepass")
        # by the number that its user sees beside it, or gets back beside it
        kept = target or {}
        number = kept.get("execution_count")
        if self.now is None:
            where = cell_name(None, number, str(kept.get("source", "")))
        else:
            where = cell_name(self.now.position, number or self.now.execution_count, self.now.source)
        if self.about.notebook != own:
            where += f" in {shown_path(cwd, self.about.notebook)}"
        return Changed(where, kind, *line_counts(before, after))

    def step(self) -> CellStep:
        """For the journal: what a redo would have to make of the cell."""
        target = _kept(self.about.target)
        return CellStep(
            self.about.notebook,
            self.about.cell_id,
            None if self.now is None else sha256(cell_data(self.now)),
            self.about.target,
            None if target is None else sha256(str(target["source"]).encode("utf-8", "surrogatepass")),
            self.anchor_id,
        )


def undone_cells(turns: Sequence[CheckpointTurn]) -> list[CellTarget]:
    """Work out what taking back `turns` (newest first) makes of each of their cells, as far as the journal knows."""
    targets: dict[tuple[Path, str], CellTarget] = {}
    for turn in turns:
        for cell in turn.changed_cells:
            key = cell.notebook, cell.cell_id
            target = _target(cell, turn, alone=len(turns) == 1)
            later = targets.get(key)
            # its later changes must have been made from what this turn left: else somebody else was there in between
            fits = later is None or cell.after_source in later.expected
            expected = target.expected if later is None else later.expected if fits else ()
            targets[key] = replace(target, expected=expected, moved=target.moved or (later is not None and later.moved))
    return list(targets.values())


def redone_cells(steps: Sequence[CellStep]) -> list[CellTarget]:
    """Work out what taking back an undo makes of the cells that it changed."""
    return [
        CellTarget(
            notebook=step.notebook,
            cell_id=step.cell_id,
            expected=(step.now_source,),
            target=step.was,
            anchor_id=step.anchor_id,
            since="since the undo",
        )
        for step in steps
    ]


async def cell_undos(targets: Sequence[CellTarget], find: FindNotebook, *, force: bool) -> list[CellUndo]:
    """Work out what has to be done to each cell, as its notebook is now."""
    undos: list[CellUndo] = []
    for path in dict.fromkeys(target.notebook for target in targets):
        mine = [target for target in targets if target.notebook == path]
        try:
            cells = await find(path).cells()
        except ToolError as error:
            undos += [CellUndo(about=target, refused=error.message) for target in mine]
            continue
        by_id = {cell.id: cell for cell in cells}
        restored = {target.cell_id for target in mine if target.target is not None}
        undos += [_undo(target, by_id, cells, restored, force=force) for target in mine]
    return undos


def changes_of(undos: Sequence[CellUndo]) -> list[tuple[Path, list[CellUndo]]]:
    """The undos that do something, by notebook, in an order in which each new cell finds the one beside it."""
    needed = [undo for undo in undos if undo.changes and not undo.refused]
    return [
        (path, _ordered([undo for undo in needed if undo.about.notebook == path]))
        for path in dict.fromkeys(undo.about.notebook for undo in needed)
    ]


def _target(cell: KeptChange, turn: CheckpointTurn, *, alone: bool) -> CellTarget:
    return CellTarget(
        notebook=cell.notebook,
        cell_id=cell.cell_id,
        expected=(cell.before_source, *cell.left),
        target=cell.before,
        anchor_id=cell.anchor_id,
        moved=cell.moved,
        since=_since(turn, alone=alone),
    )


def _undo(
    target: CellTarget, by_id: dict[str, Cell], cells: Sequence[Cell], restored: Collection[str], *, force: bool
) -> CellUndo:
    now = by_id.get(target.cell_id)
    anchor_id = cells[now.position - 1].id if now is not None and now.position else ""
    undo = CellUndo(about=target, now=now, anchor_id=anchor_id)
    content = _kept(target.target)
    if target.target is not None and content is None:
        return replace(undo, refused="its earlier content was not kept")
    holds = None if now is None else now.sha256
    if holds not in target.expected and not force:
        return replace(undo, refused=f"it has changed {target.since}", conflict=True)
    position = (
        CellPosition("after", target.anchor_id) if target.anchor_id in {*by_id, *restored} else CellPosition("start")
    )
    if target.anchor_id and position.where == "start":
        position = CellPosition("end")  # the cell it stood behind is gone
    return replace(undo, changes=_changes(target, now, content, position))


def _changes(
    target: CellTarget, now: Cell | None, content: dict[str, Any] | None, position: CellPosition
) -> tuple[CellChange, ...]:
    if content is None:
        return () if now is None else (Delete(cell_id=target.cell_id, expect=now.sha256),)
    parts: dict[str, Any] = {
        "source": content["source"],
        "cell_type": content["cell_type"],
        "attachments": content["attachments"],
        "outputs": tuple(content["outputs"]),
        "execution_count": content["execution_count"],
    }
    if now is None:
        return (Insert(place=position, cell_id=target.cell_id, metadata=content["metadata"], **parts),)
    changes: list[CellChange] = []
    if (now.source, now.cell_type) != (content["source"], content["cell_type"]):
        changes.append(Replace(cell_id=target.cell_id, expect=now.sha256, **parts))
    if target.moved and position.anchor_id != target.cell_id:
        changes.append(Move(cell_id=target.cell_id, place=position))
    return tuple(changes)


def _ordered(undos: Sequence[CellUndo]) -> list[CellUndo]:
    waiting, ordered = list(undos), list[CellUndo]()
    restored = {undo.about.cell_id for undo in undos if undo.now is None and undo.about.target is not None}
    while waiting:
        ready = [undo for undo in waiting if undo.now is not None or undo.about.anchor_id not in restored]
        ready = ready or waiting  # in a circle, which no notebook has
        ordered += ready
        restored -= {undo.about.cell_id for undo in ready}
        waiting = [undo for undo in waiting if undo not in ready]
    # what goes away does so last: a cell that comes back may stand beside it
    return sorted(ordered, key=lambda undo: any(isinstance(change, Delete) for change in undo.changes))


def _kept(name: str | None) -> dict[str, Any] | None:
    data = None if name is None else original(name)
    return None if data is None else dict(json.loads(data))


class UndoPlan(Struct, frozen=True, kw_only=True):
    """The plan of an undo: `turns` taken back (newest first), or brought back where `redo_of` says which undo is.

    `as_after`: the event up to which the conversation would go; None: it stays as it is. `passed_over` are later turns that
    only had effects that cannot be taken back (commands, code in the kernel).
    """

    turns: tuple[CheckpointTurn, ...]
    files: tuple[FileUndo, ...] = ()
    cells: tuple[CellUndo, ...] = ()
    code: bool = True
    as_after: int | None = None
    redo_of: int | None = None
    passed_over: tuple[CheckpointTurn, ...] = ()
    own_notebook: Path | None = None
    """The notebook of the kernel: its cells are named without it."""

    @property
    def file_changes(self) -> list[FileUndo]:
        return [file for file in self.files if file.needed]

    @property
    def cell_changes(self) -> list[CellUndo]:
        return [cell for cell in self.cells if cell.changes and not cell.refused]

    @property
    def refused(self) -> list[FileUndo | CellUndo]:
        """The files and cells that are left out, each with its reason."""
        return [undo for undo in self._all if undo.refused]

    @property
    def conflicts(self) -> bool:
        """True when something is left out only because somebody else changed it."""
        return any(undo.conflict for undo in self._all)

    @property
    def _all(self) -> list[FileUndo | CellUndo]:
        return [*self.files, *self.cells]

    @property
    def effects(self) -> list[tuple[CheckpointTurn, str]]:
        """The effects that cannot be taken back, with their turns, in the order in which they came about."""
        if self.redo_of is not None:
            return []
        turns = sorted((*self.turns, *self.passed_over), key=lambda turn: turn.number)
        return [(turn, effect) for turn in turns for effect in turn.effects]

    @property
    def does_something(self) -> bool:
        return bool(self.file_changes or self.cell_changes or self.as_after is not None or not self.refused)


class Undo(Struct, frozen=True, kw_only=True):
    """Takes back turns of `session`, whose `journal` it is. Its coroutines run on the agent's loop, while no turn does."""

    journal: Journal
    session: Session
    file_state: FileState
    notebooks: OpenNotebooks
    cwd: Path

    async def plan(self, turns: Sequence[CheckpointTurn], what: What, *, force: bool = False) -> UndoPlan:
        """Plan what taking back `turns` (newest first) would do."""
        await asyncio.to_thread(recover_changes)
        await self.finish_cut_off()
        code = what != "conversation"
        back = turns if code else ()
        await self.notebooks.settled()
        files = await asyncio.to_thread(file_undos, back, self._blocked, force=force)
        cells = await cell_undos(undone_cells(back), self._notebook, force=force)
        as_after = None if what == "code" else min(turn.seq for turn in turns)
        taken = {turn.number for turn in turns}
        passed_over = [
            turn for turn in self.journal.history.only_effects(min(taken, default=0)) if turn.number not in taken
        ]
        return UndoPlan(
            turns=tuple(turns),
            files=tuple(files),
            cells=tuple(cells),
            code=code,
            as_after=as_after,
            passed_over=tuple(passed_over),
            own_notebook=self._own_notebook(),
        )

    async def plan_redo(self, undo: Undone, *, force: bool = False) -> UndoPlan:
        """Plan what taking back `undo` would do."""
        await asyncio.to_thread(recover_changes)
        await self.finish_cut_off()
        turns = tuple(turn for turn in self.journal.history.turns if turn.number in undo.turns)
        await self.notebooks.settled()
        files = await asyncio.to_thread(file_redos, undo.files, self._blocked, force=force)
        cells = await cell_undos(redone_cells(undo.cells), self._notebook, force=force)
        return UndoPlan(
            turns=turns,
            files=tuple(files),
            cells=tuple(cells),
            code=undo.code,
            as_after=None if undo.as_after is None else undo.was_after,
            redo_of=undo.number,
            own_notebook=self._own_notebook(),
        )

    def _own_notebook(self) -> Path | None:
        own = self.notebooks.own()
        return None if own is None else own.path

    async def apply(self, plan: UndoPlan) -> list[str]:
        """Do what was planned; gives what of it could not be done: cells that somebody changed just now.

        All files or none: raises CellwrightError when one has changed since the plan was made.
        """
        undo = self._record(plan)
        try:
            await asyncio.to_thread(self._write_files, plan, undo)
        except (ToolError, OSError) as error:
            with suppress(OSError):  # a disk that is full: what is on it says that nothing was changed
                await asyncio.to_thread(self.journal.append, {"failed": undo.number})
            message = error.message if isinstance(error, ToolError) else str(error)
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{message} Nothing was taken back.") from error
        done, failed = await self._change_cells(plan)
        if plan.as_after is not None and self.session.next_seq != undo.was_after:
            failed.append("A run has begun meanwhile: the conversation stays as it is.")
        elif plan.as_after is not None:
            self.session.return_to(plan.as_after)
            self.session.flush()
        left = [*undo.left, *(cell.name for cell in plan.cell_changes if cell not in done)]
        await asyncio.to_thread(self.journal.append, {"done": undo.number, "left": left})
        return failed

    async def finish_cut_off(self) -> None:
        """Do what is left of an undo that was cut off, when its files are as it wanted them (`cut_off_undo`): its cells."""
        history = self.journal.history
        if (undo := history.cut_off()) is None:
            return
        await self.notebooks.settled()
        turns = [turn for turn in reversed(history.turns) if turn.number in undo.turns]
        targets = undone_cells(turns)
        if undo.redo_of is not None:
            targets = redone_cells(
                [step for each in history.undos if each.number == undo.redo_of for step in each.cells]
            )
        begun = {(step.notebook, step.cell_id) for step in undo.cells}
        mine = [target for target in targets if (target.notebook, target.cell_id) in begun]
        cells = await cell_undos(mine, self._notebook, force=False)
        plan = UndoPlan(turns=tuple(turns), cells=tuple(cells))
        done, _ = await self._change_cells(plan)
        left = [cell.name for cell in cells if cell.refused or (cell.changes and cell not in done)]
        await asyncio.to_thread(self.journal.append, {"done": undo.number, "left": [*undo.left, *left]})

    def _record(self, plan: UndoPlan) -> Undone:
        history = self.journal.history
        return Undone(
            number=max((undo.number for undo in history.undos), default=0) + 1,
            at=round(time.time(), 3),
            turns=tuple(turn.number for turn in plan.turns),
            code=plan.code,
            files=tuple(FileStep(file.path, file.now.held, file.target, file.folders) for file in plan.file_changes),
            cells=tuple(cell.step() for cell in plan.cell_changes),
            left=tuple(str(undo.path) if isinstance(undo, FileUndo) else undo.name for undo in plan.refused),
            as_after=plan.as_after,
            was_after=None if plan.as_after is None else self.session.next_seq,
            redo_of=plan.redo_of,
        )

    def _write_files(self, plan: UndoPlan, undo: Undone) -> None:
        files = plan.file_changes
        try:
            with file_errors("The files"):
                writes = [self._write_of(file) for file in files]
                self.journal.append(undo.to_json())
                # no call: its outcome is for people, should it be cut off
                changing_call.set(CallId(self.session.id, ""))
                write_together(writes, what=name_of(undo, self.journal.history))
        except FileChanged as error:
            path = error.args[0] if error.args else self.cwd
            message = f"{shown_path(self.cwd, path)} was changed by someone else just now."
            raise ToolError(message, code=ErrorCode.FILE_ACCESS_ERROR) from None
        self.file_state.forget(file.path for file in files)
        for folder in [folder for file in files if file.target is None for folder in file.folders]:
            with suppress(OSError):  # somebody has put something else in it
                folder.rmdir()

    def _write_of(self, file: FileUndo) -> FileWrite:
        after = None
        if file.target is not None and (after := original(file.target.sha256)) is None:
            raise ToolError(f"What {shown_path(self.cwd, file.path)} held before could not be read.")
        if file.now.held is not None:
            data = file.path.read_bytes()
            if sha256(data) != file.now.held.sha256:
                raise FileChanged(file.path)
            if not keep_original(data, file.now.held.sha256, safely=True):
                name = shown_path(self.cwd, file.path)
                raise ToolError(f"What {name} holds now could not be kept, so that it could not be brought back.")
        is_new = file.target is not None and file.now.held is None
        mode = file.target.mode if file.target is not None and (file.set_mode or is_new) else None
        return FileWrite(path=file.path, replacing=file.now.status, after=after, mode=mode)

    async def _change_cells(self, plan: UndoPlan) -> tuple[list[CellUndo], list[str]]:
        done: list[CellUndo] = []
        failed: list[str] = []
        for path, undos in changes_of(plan.cells):
            try:
                await self._notebook(path).change([change for undo in undos for change in undo.changes])
            except ToolError as error:
                failed.append(error.message)
            else:
                done += undos
        return done, failed

    def _notebook(self, path: Path) -> OpenNotebook:
        """The notebook where it can be changed: where it is open, else its file."""
        if (found := self.notebooks.at(path)) is not None:
            return found
        own = self.notebooks.own()
        if own is not None and own.path == path:
            return own
        if refusal := self.notebooks.refusal(path):
            raise ToolError(refusal, code=ErrorCode.FILE_ACCESS_ERROR)
        if not path.is_file():
            raise ToolError(f"{shown_path(self.cwd, path)} is neither open nor there any more.")
        return FileNotebook(path)

    def _blocked(self, path: Path) -> str:
        if self.file_state.is_unsaved(path):
            return "it is open in an editor with changes that are not saved"
        return self.notebooks.refusal(path) if path.suffix.lower() == ".ipynb" else ""


def end_cut_off_undo(journal: Journal, session: Session) -> str:
    """End the undo that was cut off, but for its cells (`Undo.finish_cut_off`); gives what the user must know, or "".

    Where none of its files was changed it has not happened. Raises OSError when the journal cannot be written.
    """
    undo = journal.history.cut_off()
    if undo is None or journal.inherited:  # a fork has begun none of its own
        return ""
    recover_changes()
    left = [step for step in undo.files if at(step.path).sha256 != (None if step.now is None else step.now.sha256)]
    name = name_of(undo, journal.history)
    if undo.files and len(left) == len(undo.files):
        journal.append({"failed": undo.number})
        verb = "/undo" if undo.redo_of is None else "/redo"
        return f"{name} was cut off when its process was killed, and has changed nothing. {verb} starts it again."
    if undo.as_after is not None and session.next_seq == undo.was_after:
        session.return_to(undo.as_after)
        session.flush()
    undo.left = (*undo.left, *(str(step.path) for step in left))
    if not undo.cells:
        journal.append({"done": undo.number, "left": list(undo.left)})
    files = f": {counted(len(undo.files) - len(left), 'file')} changed back" if undo.files else ""
    return f"{name} was cut off when its process was killed. It is finished now{files}."
