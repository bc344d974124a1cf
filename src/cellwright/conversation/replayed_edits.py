"""Edits of a recording made again in their place: files no editor holds, cells of the notebook as its user sees it.

Each is made once: what is there already stays, and if something else is there nothing is touched. It is kept like any
other change, so that it can be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from cellwright.agent.recording.recorder import apply_edit
from cellwright.agent.recording.recordings import Edit
from cellwright.conversation.tools.toolset import KeptChanges
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.file_state import FileState, UpcomingChange
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import (
    Cell,
    CellChange,
    CellConflict,
    CellPosition,
    Delete,
    Insert,
    Move,
    OpenNotebook,
    OpenNotebooks,
    Replace,
)
from cellwright.tools.paths import real_path, shown_path

CELL_STATES = "cell_sha256"
"""In the `display` of a call that changed a cell: `{"before", "after"}`, hashes of its source; None: there is no cell."""

States = frozenset[str | None]


class ReplayedEdits:
    """The place where edits are made again; `replay.EditTarget`. `on_disk` gives a notebook that nobody has open."""

    def __init__(
        self, cwd: Path, state: FileState, notebooks: OpenNotebooks, on_disk: Callable[[Path], OpenNotebook]
    ) -> None:
        self._cwd = cwd
        self._state = state
        self._notebooks = notebooks
        self._on_disk = on_disk

    async def write_file(self, edit: Edit, content: bytes) -> None:
        """Give the file its recorded content. Raises ToolError where an editor holds changes of it; OSError."""
        if self._state.is_unsaved(edit.path):
            raise ToolError(
                f"{shown_path(self._cwd, edit.path)} is open in an editor with unsaved changes, which would be lost. It was "
                "left untouched. Save or close it, and run the cell again.",
                code=ErrorCode.FILE_ACCESS_ERROR,
            )
        await asyncio.to_thread(self._write, edit.path, edit, content)

    def _write(self, path: Path, edit: Edit, content: bytes) -> None:
        status = path.stat() if path.exists() else None
        before = path.read_bytes() if status is not None else None
        self._state.keeper.before_changes([UpcomingChange(path=path, before=before, after=content, status=status)])
        apply_edit(edit, content)
        self._state.keeper.after_changes([path])

    async def edit_cell(self, tool_input: Mapping[str, Any], display: Mapping[str, Any], later: States) -> bool:
        """Make a recorded edit of a cell, if the recording tells enough of it; `later` are its sources in later steps.

        False: the notebook is a file like any other, and its content is in the recording. Raises ToolError.
        """
        await self._notebooks.settled()
        path = real_path(self._cwd / str(tool_input["notebook_path"]))
        display_path = shown_path(self._cwd, path)
        live = self._notebooks.at(path)
        if live is None and (refusal := self._notebooks.refusal(path)):
            raise ToolError(refusal, code=ErrorCode.FILE_ACCESS_ERROR)
        if not isinstance(display.get(CELL_STATES), Mapping):
            if live is not None:
                raise ToolError(f"{display_path} is open, and this recording cannot be played there. Record it again.")
            return False
        if live is None and not path.is_file():
            raise ToolError(f"{display_path} is not there any more; it was when this turn was recorded.")
        await _change_cell(live or self._on_disk(path), display_path, tool_input, display, later)
        return True


async def _change_cell(
    notebook: OpenNotebook, display_path: str, tool_input: Mapping[str, Any], display: Mapping[str, Any], later: States
) -> None:
    cells = await notebook.cells(outputs=False)
    change = _Recorded(tool_input, display, later, display_path).change(cells)
    if change is None:
        return
    try:
        await notebook.change([change])
    except CellConflict:
        raise _drift(display_path, str(display["cell_id"]), "was changed just now") from None


class _Recorded:
    """One recorded edit of a cell, held against the cells as they are."""

    def __init__(
        self, tool_input: Mapping[str, Any], display: Mapping[str, Any], later: States, display_path: str
    ) -> None:
        states = display[CELL_STATES]
        self.before: str | None = states.get("before")
        self.after: str | None = states.get("after")
        self.cell_id = str(display["cell_id"])
        self.done: States = frozenset({self.after}) | later
        self.input = tool_input
        self.display_path = display_path

    def change(self, cells: list[Cell]) -> CellChange | None:
        """Return what is left to do; None where it is done. Raises ToolError where something else is there."""
        mode = self.input.get("edit_mode", "replace")
        ids = [cell.id for cell in cells]
        now = cells[ids.index(self.cell_id)] if self.cell_id in ids else None
        state = None if now is None else now.sha256
        if mode == "move" and now is not None:
            return self._move(ids)
        target = self.input.get("cell_type")
        has_other_type = target is not None and now is not None and now.cell_type != target and state == self.before
        if state in self.done and not has_other_type:
            return None
        if state != self.before:
            raise _drift(self.display_path, self.cell_id, _what(now, self.before))
        if mode == "insert":
            place = self._anchor("cell_id", ids)
            kind: Literal["code", "markdown", "raw"] = self.input["cell_type"]
            return Insert(place=place, cell_type=kind, source=str(self.input["new_source"]), cell_id=self.cell_id)
        assert state is not None, "a cell that was there before has a source"
        if mode == "delete":
            return Delete(cell_id=self.cell_id, expect=state)
        return Replace(
            cell_id=self.cell_id,
            expect=state,
            source=self.input.get("new_source"),
            cell_type=self.input.get("cell_type"),
        )

    def _move(self, ids: list[str]) -> Move | None:
        place = self._anchor("target_id", ids)
        others = [each for each in ids if each != self.cell_id]
        if place.where in ("start", "end"):
            target = 0 if place.where == "start" else len(others)
        else:
            target = others.index(place.anchor_id) + (place.where == "after")
        return None if ids.index(self.cell_id) == target else Move(cell_id=self.cell_id, place=place)

    def _anchor(self, key: str, ids: list[str]) -> CellPosition:
        anchor_id, position = self.input.get(key), self.input.get("position")
        if anchor_id is None:
            return CellPosition("start" if position == "start" else "end")
        if anchor_id not in ids:
            raise _drift(
                self.display_path, self.cell_id, f"belongs beside cell {anchor_id}, which is not there any more"
            )
        return CellPosition("before" if position == "before" else "after", str(anchor_id))


def _what(now: Cell | None, before: str | None) -> str:
    if now is None:
        return "is not there any more; it was when this turn was recorded"
    if before is None:
        return "is there already, with another source than this turn gave it"
    return "is not as it was when this turn was recorded"


def _drift(display_path: str, cell_id: str, what: str) -> ToolError:
    message = (
        f"Cell {cell_id} of {display_path} {what}. Nothing was changed. Bring it back to that state, or record again."
    )
    return ToolError(message, code=ErrorCode.FILE_ACCESS_ERROR)


def replay_place(cwd: Path, state: FileState, notebooks: OpenNotebooks, kept: KeptChanges) -> ReplayedEdits:
    """The place of the runs in `cwd` that share `state` and `notebooks`."""
    return ReplayedEdits(cwd, state, kept.recorded_notebooks(notebooks), lambda path: kept.recorded(FileNotebook(path)))
