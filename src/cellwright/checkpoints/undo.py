"""Turns taken back, and brought back: planned, then done. What is done is written down before it is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from cellwright.checkpoints.journal import Journal, name_of
from cellwright.checkpoints.plan import (
    CellUndo,
    FileUndo,
    What,
    cell_undos,
    changes_of,
    file_redos,
    file_undos,
    redone_cells,
    undone_cells,
)
from cellwright.checkpoints.records import CheckpointTurn, FileStep, Undone
from cellwright.checkpoints.turn_recorder import at
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.sessions.file_changes import CallId, changing_call
from cellwright.sessions.session import Session
from cellwright.text import counted
from cellwright.tools.files.atomic_write import FileWrite, write_together
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.originals import keep_original, original, sha256
from cellwright.tools.files.recovery import recover_changes
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import OpenNotebook, OpenNotebooks
from cellwright.tools.paths import file_errors, shown_path


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
