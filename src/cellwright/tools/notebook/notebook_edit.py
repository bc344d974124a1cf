"""NotebookRead and NotebookEdit: cells of notebook files, shown and changed so that the rest keeps every byte.

What NotebookEdit makes of a notebook that is open in a front end: one change of one cell, by compare and set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from cellwright.agent.tool import CannotBeDone, Tool, ToolContext, ToolLimits, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import code_fence
from cellwright.tools.files.changes import Change, Input, writing_call, writing_preview
from cellwright.tools.files.diff import diff_texts
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.cell_edits import CellEdit, check_input, edit_of, not_shown, plan_notebook_edit
from cellwright.tools.notebook.json import Notebook, parse_notebook
from cellwright.tools.notebook.live_source import notebook_bytes
from cellwright.tools.notebook.notebook_read import notebook_read_tool
from cellwright.tools.notebook.open_notebook import (
    Cell,
    CellChange,
    CellConflict,
    CellPosition,
    CellType,
    ChangedCell,
    Conflict,
    Delete,
    Insert,
    Move,
    NothingOpen,
    OpenNotebook,
    OpenNotebooks,
    Replace,
    source_sha256,
)
from cellwright.tools.notebook.pages import source_digest
from cellwright.tools.paths import real_path, resolve_path, shown_path
from cellwright.tools.schema import object_schema

QUOTED_CHARS = 6_000
"""How much of each version of a cell a conflict quotes."""


@dataclass(frozen=True, slots=True)
class LiveEdit:
    """A planned edit: what it is for people, and the change; None where the cell is so already."""

    edit: CellEdit
    change: CellChange | None


class LiveConflict(ToolError):
    """The cell is not what the model was shown. `base` is what it knew, `now` what is there, `mine` what it wants."""

    def __init__(self, shown: str, cell_id: str, base: str | None, now: str | None, mine: str | None) -> None:
        if now is None:
            text = f"Cell {cell_id} of {shown} was deleted since you read it. Nothing was changed."
        else:
            was = "" if base is None else f"You knew it as:\n{_quoted(base)}\n"
            # its first line is all that is kept of it in the notebook
            text = (
                f"Cell {cell_id} of {shown} has changed since you read it. Nothing was changed.\n{was}It is now:\n"
                f"{_quoted(now)}\nTake over what others changed, then call again."
            )
        versions = {"cell_id": cell_id, "base": base, "now": now, "mine": mine}
        super().__init__(text, code=ErrorCode.FILE_ACCESS_ERROR, details={"conflict": versions})
        self.shown, self.cell_id = shown, cell_id
        self.base, self.now, self.mine = base, now, mine

    def three_way(self) -> str:
        """Both sides as diffs from what the model knew."""
        base = self.base if self.base is not None else self.now
        sides = {"as it is now": self.now, "as Claude wants it": self.mine}
        diffs = (
            diff_texts(_ended(base), _ended(side), f"{self.shown}#{self.cell_id}, {what}")
            for what, side in sides.items()
        )
        # the headers say which is which: they are no paths
        return "".join(diff.text.replace("--- a/", "--- ", 1).replace("+++ b/", "+++ ", 1) for diff in diffs)


async def preview_live_edit(
    notebook: OpenNotebook, shown: str, tool_input: Input, state: FileState, title: str
) -> Preview:
    """What the user is asked: the diff against the live source, or why it cannot be done."""
    try:
        planned = await plan_live_edit(notebook, shown, tool_input, state)
    except LiveConflict as conflict:
        warning = "Somebody changed this cell since Claude read it: nothing will be changed."
        return Preview(title, conflict.three_way(), "diff", path=shown, warning=warning)
    except ToolError as error:
        raise CannotBeDone(error, Preview(title, kind="diff", path=shown), [notebook.path]) from error
    diff = planned.edit.diff(shown)
    return Preview(f"{planned.edit.title} ({diff.counts})", diff.text, "diff", path=shown)


async def make_live_edit(notebook: OpenNotebook, shown: str, tool_input: Input, state: FileState) -> ToolResult:
    """Make the change in the front end. "Done" is said of what was read back."""
    try:
        planned = await plan_live_edit(notebook, shown, tool_input, state)
        edit, change = planned.edit, planned.change
        if change is None:
            return ToolResult(edit.result)
        changed = await _made(notebook, edit, change, shown, state)
    except LiveConflict as conflict:
        if conflict.now is not None and len(conflict.now) <= QUOTED_CHARS:
            # the error tells the model the source: it knows it now
            state.cells.add(notebook.path, {conflict.cell_id: conflict.now})
        raise
    if changed.after is not None and not isinstance(change, Move):
        state.cells.add(notebook.path, {changed.id: changed.after.source})
    result = edit.result.replace(edit.name, changed.id) if isinstance(change, Insert) else edit.result
    moved = (
        f" Others have moved it meanwhile: its index is {changed.position}."
        if changed.position != edit.position
        else ""
    )
    return ToolResult(result + moved + _where_it_is(notebook), _display(notebook, edit, changed, shown))


def _where_it_is(notebook: OpenNotebook) -> str:
    if not notebook.live:
        return f" [Saved in {notebook.where}: nobody has it open.]"
    return (
        f" [Open in {notebook.where}: the user sees the change there and can undo it. It is not saved to disk; "
        "the file still holds what was saved last.]"
    )


async def plan_live_edit(notebook: OpenNotebook, shown: str, tool_input: Input, state: FileState) -> LiveEdit:
    """Work the change out from the cells as they are now. Raises LiveConflict, and ToolError for what cannot be done."""
    check_input(tool_input)
    cells = await notebook.cells(outputs=False)
    parsed = parse_notebook(notebook_bytes(cells, outputs=False))

    def check_known(position: int) -> None:
        _check_known(cells[position], notebook.path, shown, tool_input, state)

    try:
        edit = edit_of(parsed, tool_input, shown, check_known)
    except ToolError as error:
        base = state.cells.last(notebook.path, str(tool_input.get("cell_id", "")))
        if base is None or tool_input["cell_id"] in parsed.ids():
            raise
        raise LiveConflict(shown, str(tool_input["cell_id"]), base, None, tool_input.get("new_source")) from error
    return LiveEdit(edit, _change(parsed, cells, edit, tool_input))


def _check_known(cell: Cell, path: Path, shown: str, tool_input: Input, state: FileState) -> None:
    """Raise ToolError if the model does not know the cell's source as it is now."""
    base = state.cells.last(path, cell.id)
    if base == cell.source:
        return
    seen = state.get(path)
    if seen is not None and source_digest(cell.source) in seen.parts:
        return  # it was read or written in the file, before that was opened
    if base is None:
        raise not_shown(cell.id, shown)
    raise LiveConflict(shown, cell.id, base, cell.source, tool_input.get("new_source"))


async def _made(
    notebook: OpenNotebook, edit: CellEdit, change: CellChange, shown: str, state: FileState
) -> ChangedCell:
    """Make the change. Raises LiveConflict for what others have changed in the moment before."""
    try:
        [changed] = await notebook.change([change])
    except CellConflict as conflict:
        found: Conflict = conflict.conflicts[0]
        base = state.cells.last(notebook.path, found.cell_id)
        raise LiveConflict(shown, found.cell_id, base, found.now, edit.after) from None
    return changed


def _change(notebook: Notebook, cells: Sequence[Cell], edit: CellEdit, tool_input: Input) -> CellChange | None:
    """The edit as a change of the live notebook."""
    mode = tool_input.get("edit_mode", "replace")
    if edit.data == notebook.data:
        return None
    if mode == "insert":
        kind = cast("CellType", tool_input["cell_type"])
        place = _place(tool_input, "cell_id")
        return Insert(place=place, cell_type=kind, source=tool_input["new_source"], cell_id=edit.name)
    if mode == "move":
        return Move(cell_id=edit.name, place=_place(tool_input, "target_id"))
    expect = source_sha256(cells[edit.position].source)
    if mode == "delete":
        return Delete(cell_id=edit.name, expect=expect)
    kind = cast("CellType", tool_input.get("cell_type", cells[edit.position].cell_type))
    return Replace(cell_id=edit.name, expect=expect, source=edit.after, cell_type=kind)


def _place(tool_input: Input, key: str) -> CellPosition:
    beside, position = tool_input.get(key), tool_input.get("position")
    where: Literal["before", "after", "start", "end"]
    if beside is not None:
        where = "before" if position == "before" else "after"
        return CellPosition(where, str(beside))
    where = "start" if position == "start" else "end"
    return CellPosition(where)


def _display(notebook: OpenNotebook, edit: CellEdit, changed: ChangedCell, shown: str) -> dict[str, Any]:
    """What views, hooks and recordings get; as for a file, but there is no file that was written."""
    diff = edit.diff(shown)
    return {
        "diff": diff.text,
        "structuredPatch": diff.structured_patch(),
        "path": notebook.path.as_posix(),
        "type": "update",
        "cell_id": changed.id,
        "index": changed.position,
        "open_in": notebook.where,
        "cell_sha256": {
            "before": changed.before.sha256 if changed.before is not None else None,
            "after": changed.after.sha256 if changed.after is not None else None,
        },
    }


def _quoted(source: str) -> str:
    shown = source[:QUOTED_CHARS]
    fence = code_fence(shown)
    more = len(source) - len(shown)
    rest = f"\n[{more:,} more characters: NotebookRead shows them]" if more else ""
    return f"{fence}\n{shown}\n{fence}{rest}"


def _ended(source: str | None) -> str | None:
    return None if source is None else f"{source}\n"


DESCRIPTION = """\
Change one cell of a Jupyter notebook (.ipynb): replace, insert, delete or move it, or change its type. A notebook that is \
open in the user's front end is changed there, unsaved changes included; any other in its file.
- Show the cell first (Read or NotebookRead): that gives its id. Cells without one are named cell-0, cell-1, …
- insert puts the new cell after cell_id; without cell_id at the END of the notebook. `position` says otherwise. The \
result says where the cell is.
- A code cell whose source changes loses its outputs and execution count. Nothing is executed."""

FIELDS: dict[str, Any] = {
    "notebook_path": {
        "type": "string",
        "minLength": 1,
        "description": "The notebook file: an absolute path, or one relative to the working directory.",
    },
    "new_source": {
        "type": "string",
        "description": "The cell's whole new source. For replace with a new cell_type it may be left out: it stays.",
    },
    "cell_id": {
        "type": "string",
        "minLength": 1,
        "description": "The cell to replace, delete or move; for insert, the cell beside which the new one goes.",
    },
    "cell_type": {
        "type": "string",
        "enum": ["code", "markdown", "raw"],
        "description": "Required for insert. For replace: leave it out to keep the cell's type.",
    },
    "edit_mode": {
        "type": "string",
        "enum": ["replace", "insert", "delete", "move"],
        "default": "replace",
        "description": "What to do; replace by default.",
    },
    "position": {
        "type": "string",
        "enum": ["before", "after", "start", "end"],
        "description": "For insert and move: before or after a cell (insert: cell_id, move: target_id), or at the start "
        "or end of the notebook.",
    },
    "target_id": {
        "type": "string",
        "minLength": 1,
        "description": "For move: the cell beside which cell_id goes.",
    },
}

EXAMPLES: tuple[dict[str, Any], ...] = (
    {"notebook_path": "analysis.ipynb", "cell_id": "3f2a9c1e", "new_source": "df = load()\ndf.head()"},
    {"notebook_path": "analysis.ipynb", "edit_mode": "insert", "cell_type": "markdown", "new_source": "# Results"},
    {
        "notebook_path": "analysis.ipynb",
        "edit_mode": "move",
        "cell_id": "3f2a9c1e",
        "position": "before",
        "target_id": "cell-2",
    },
)


def notebook_file_tools(state: FileState, cwd: Path, notebooks: OpenNotebooks | None = None) -> list[Tool]:
    """NotebookEdit and NotebookRead. `state` is the session's memory of files; relative paths start at `cwd`.

    `notebooks` are those that are open; None: there are none.
    """
    notebooks = notebooks or NothingOpen()

    def plan(path: Path, shown: str, tool_input: Input) -> Change:
        return plan_notebook_edit(path, shown, tool_input, state)

    def title(tool_input: Mapping[str, Any]) -> str:
        return _title(tool_input, shown_path(cwd, cwd / str(tool_input["notebook_path"])))

    write = writing_call(plan, "notebook_path", state, cwd)
    preview_write = writing_preview(plan, "notebook_path", title, cwd)

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        await notebooks.settled()
        path = resolve_path(cwd, tool_input["notebook_path"])
        if (notebook := notebooks.at(real_path(path))) is not None:
            return await make_live_edit(notebook, shown_path(cwd, path), tool_input, state)
        if refusal := notebooks.refusal(real_path(path)):
            raise ToolError(refusal, code=ErrorCode.FILE_ACCESS_ERROR)
        return await write(tool_input, ctx)

    async def preview(tool_input: Input) -> Preview:
        await notebooks.settled()
        path = cwd / tool_input["notebook_path"]
        if (notebook := notebooks.at(real_path(path))) is not None:
            return await preview_live_edit(notebook, shown_path(cwd, path), tool_input, state, title(tool_input))
        if refusal := notebooks.refusal(real_path(path)):
            shown = Preview(title(tool_input), kind="diff", path=shown_path(cwd, path))
            raise CannotBeDone(ToolError(refusal, code=ErrorCode.FILE_ACCESS_ERROR), shown, [path])
        return await preview_write(tool_input)

    edit = Tool(
        name="NotebookEdit",
        description=DESCRIPTION,
        input_schema=object_schema(FIELDS, required=["notebook_path"]),
        input_examples=EXAMPLES,
        call=call,
        rule_key="notebook_path",
        category="notebooks",
        asks_together=True,
        limits=ToolLimits(seconds=60, file_bytes=100 * 2**20),
        title=title,
        preview=preview,
    )
    return [edit, notebook_read_tool(state, cwd, notebooks)]


def _title(tool_input: Mapping[str, Any], shown: str) -> str:
    mode, cell_id = tool_input.get("edit_mode", "replace"), tool_input.get("cell_id")
    target = tool_input.get("target_id") if mode == "move" else cell_id
    position = tool_input.get("position", "after" if target else "end")
    where = f"{position} {target}" if position in ("before", "after") else f"at the {position}"
    if mode == "insert":
        return f"Insert a cell {where} in {shown}"
    if mode == "move":
        return f"Move cell {cell_id} {where} in {shown}"
    return f"{'Delete' if mode == 'delete' else 'Edit'} cell {cell_id} in {shown}"
