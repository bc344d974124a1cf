"""NotebookEdit: one cell of a notebook changed, where its user sees it or in its file; the rest keeps every byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import CannotBeDone, Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import code_fence
from cellwright.tools.files.changes import (
    AffectedFile,
    Change,
    FilesOutput,
    Plan,
    diff_texts,
    make_change,
    preview_change,
)
from cellwright.tools.files.encodings import UTF_8, Encoding, NotText, encode, encoding_note
from cellwright.tools.files.file_state import FileState, SeenFile, is_stale, sha256
from cellwright.tools.files.replace import check_size, stale_error
from cellwright.tools.files.text import read_bytes
from cellwright.tools.inputs import NotebookPath
from cellwright.tools.notebook.file_notebook import NOTEBOOK_BYTES
from cellwright.tools.notebook.notebook_json import (
    CellEdit,
    Notebook,
    as_utf_8,
    check_valid,
    delete_cell,
    in_words,
    insert_cell,
    move_cell,
    on_disk_bytes,
    parse_notebook,
    replace_cell,
)
from cellwright.tools.notebook.notebook_page import source_digest
from cellwright.tools.notebook.notebook_source import NotANotebook, notebook_bytes
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
from cellwright.tools.paths import not_found, real_path, resolve_path, shown_path

QUOTED_CHARS = 6_000
"""The number of characters that a conflict quotes of each version of a cell."""


DESCRIPTION = """\
Change one cell of a Jupyter notebook (.ipynb): replace, insert, delete or move it, or change its type. A notebook that is \
open in the user's front end is changed there, unsaved changes included; any other in its file.
- Show the cell first (Read or NotebookRead): that gives its id. Cells without one are named cell-0, cell-1, …
- insert puts the new cell after cell_id; without cell_id at the END of the notebook. `position` says otherwise. The \
result says where the cell is.
- A code cell whose source changes loses its outputs and execution count. Nothing is executed."""


class NotebookEditInput(ToolInput):
    """The input of NotebookEdit."""

    notebook_path: NotebookPath
    new_source: (
        Annotated[
            str,
            Meta(
                description="The cell's whole new source. For replace with a new cell_type it may be left out: it stays."
            ),
        ]
        | None
    ) = None
    cell_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="The cell to replace, delete or move; for insert, the cell beside which the new one goes.",
            ),
        ]
        | None
    ) = None
    cell_type: (
        Annotated[CellType, Meta(description="Required for insert. For replace: leave it out to keep the cell's type.")]
        | None
    ) = None
    edit_mode: Annotated[
        Literal["replace", "insert", "delete", "move"], Meta(description="What to do; replace by default.")
    ] = "replace"
    position: (
        Annotated[
            Literal["before", "after", "start", "end"],
            Meta(
                description="For insert and move: before or after a cell (insert: cell_id, move: target_id), or at the "
                "start or end of the notebook."
            ),
        ]
        | None
    ) = None
    target_id: (
        Annotated[str, Meta(min_length=1, description="For move: the cell beside which cell_id goes.")] | None
    ) = None

    @property
    def anchor_id(self) -> str | None:
        """The cell beside which the new or the moved one goes; None: it goes to the notebook's start or end."""
        return self.target_id if self.edit_mode == "move" else self.cell_id

    @property
    def place(self) -> CellPosition:
        """The place the new or the moved cell goes to."""
        if self.anchor_id is not None:
            return CellPosition("before" if self.position == "before" else "after", self.anchor_id)
        return CellPosition("start" if self.position == "start" else "end")


class NotebookEditOutput(FilesOutput):
    """A change of a notebook and of which cell: its id and its index, from 0, afterwards (of one deleted: before).

    `open_in` is the front end in which the notebook is open, and was changed; None: the file was.
    """

    cell_id: str | None = None
    index: int | None = None
    open_in: str | None = None


def notebook_edit_tool(state: FileState, cwd: Path, notebooks: OpenNotebooks | None = None) -> Tool:
    """NotebookEdit. `state` is the session's memory of files; relative paths start at `cwd`.

    `notebooks` are those that are open; None: there are none.
    """
    opened = notebooks or NothingOpen()

    def seen_in(input: NotebookEditInput) -> str:
        path, own = cwd / input.notebook_path, opened.own()
        # its user reads the title beside it
        return "" if own is not None and own.path == real_path(path) else f" in {shown_path(cwd, path)}"

    def title(input: NotebookEditInput) -> str:
        # until the notebook is read, and the cell has its number
        verb = {"insert": "Insert", "move": "Move", "delete": "Delete"}.get(input.edit_mode, "Edit")
        place = input.place if input.edit_mode in ("insert", "move") else None
        beside = "" if place is None or place.anchor_id else f" {in_words(place)}"
        return f"{verb} a cell{beside}" + seen_in(input)

    def plan(input: NotebookEditInput) -> Plan:
        return lambda path, display_path: plan_notebook_edit(path, display_path, input, state, seen_in(input))

    async def preview(input: NotebookEditInput) -> Preview:
        await opened.settled()
        path = cwd / input.notebook_path
        if (notebook := opened.at(real_path(path))) is not None:
            return await preview_live_edit(notebook, shown_path(cwd, path), input, state, title(input), seen_in(input))
        if refusal := opened.refusal(real_path(path)):
            preview = Preview(title(input), kind="diff", path=shown_path(cwd, path))
            raise CannotBeDone(ToolError(refusal, code=ErrorCode.FILE_ACCESS_ERROR), preview, [path])
        return await preview_change(plan(input), input.notebook_path, cwd, title(input))

    @tool(
        name="NotebookEdit",
        other_names=(
            "edit_notebook",
            "edit_notebook_file",
            "edit_cell",
        ),
        output=NotebookEditOutput,
        description=DESCRIPTION,
        access=ToolAccess("edit", "notebook_path"),
        category="notebooks",
        everyday=True,
        best_for="cells",
        asks_together=True,
        limits=ToolLimits(seconds=60, file_bytes=NOTEBOOK_BYTES),
        examples=[
            {"notebook_path": "analysis.ipynb", "cell_id": "3f2a9c1e", "new_source": "df = load()\ndf.head()"},
            {
                "notebook_path": "analysis.ipynb",
                "edit_mode": "insert",
                "cell_type": "markdown",
                "new_source": "# Results",
            },
            {
                "notebook_path": "analysis.ipynb",
                "edit_mode": "move",
                "cell_id": "3f2a9c1e",
                "position": "before",
                "target_id": "cell-2",
            },
        ],
        title=title,
        preview=preview,
    )
    async def notebook_edit(input: NotebookEditInput) -> ToolResult:
        await opened.settled()
        path = resolve_path(cwd, input.notebook_path)
        if (notebook := opened.at(real_path(path))) is not None:
            return await make_live_edit(notebook, shown_path(cwd, path), input, state, seen_in(input))
        if refusal := opened.refusal(real_path(path)):
            raise ToolError(refusal, code=ErrorCode.FILE_ACCESS_ERROR)
        made = await make_change(plan(input), input.notebook_path, cwd, state)
        about, output = made.display or {}, made.structured
        whole = NotebookEditOutput(
            summary=output.summary, files=output.files, cell_id=about.get("cell_id"), index=about.get("index")
        )
        return ToolResult(made.content, made.display, structured=whole)

    return notebook_edit


def _check_fields(input: NotebookEditInput) -> None:
    """Check what the schema cannot say: which fields go together."""
    mode = input.edit_mode
    problem = ""
    if mode != "insert" and input.cell_id is None:
        problem = f"{mode} needs cell_id. Read the notebook to see the ids."
    elif mode == "insert" and input.cell_type is None:
        problem = "insert needs cell_type: code, markdown or raw."
    elif mode == "insert" and input.new_source is None:
        problem = "insert needs new_source; it may be empty."
    elif mode == "replace" and input.new_source is None and input.cell_type is None:
        problem = "replace needs new_source, or a new cell_type."
    elif mode in ("replace", "delete") and input.position is not None:
        problem = f"position is for insert and move, not for {mode}."
    elif mode != "move" and input.target_id is not None:
        problem = "target_id is for move. For insert, cell_id is the cell beside which the new one goes."
    elif mode in ("insert", "move"):
        problem = _position_problem(input)
    if problem:
        raise ToolError(f"{problem} Nothing was changed.", code=ErrorCode.INVALID_PARAMETERS)
    encode(input.new_source or "", UTF_8, "The notebook")


def _position_problem(input: NotebookEditInput) -> str:
    field = "cell_id" if input.edit_mode == "insert" else "target_id"
    if input.position in ("before", "after") and input.anchor_id is None:
        return f"position {input.position} needs {field}: the cell it is meant of."
    if input.position in ("start", "end") and input.anchor_id is not None:
        return f"position {input.position} applies to the whole notebook: omit {field}, or use 'before' or 'after'."
    if input.edit_mode == "move" and input.position is None and input.anchor_id is None:
        return "move needs position: start or end, or before or after with target_id."
    return ""


def _edit_of(
    notebook: Notebook, input: NotebookEditInput, display_path: str, check_known: Callable[[int], None]
) -> CellEdit:
    """Do to `notebook` what is asked for; `check_known` raises where the model does not know the cell at a position."""
    if input.edit_mode == "insert":
        assert input.cell_type is not None, "insert was checked to have one"
        return insert_cell(notebook, input.cell_type, input.new_source or "", input.place, display_path)
    assert input.cell_id is not None, "all but insert were checked to have one"
    at = notebook.find(input.cell_id)
    if input.edit_mode == "move":
        return move_cell(notebook, at, input.place, display_path)
    check_known(at)
    if input.edit_mode == "delete":
        return delete_cell(notebook, at, display_path)
    return replace_cell(notebook, at, input.cell_type, input.new_source, display_path)


def _not_shown(cell_id: str, display_path: str) -> ToolError:
    """The error for a cell that the model has not seen as it is."""
    return ToolError(
        f"Cell {cell_id} of {display_path} was not shown in this session. Show it first: "
        f'NotebookRead with cell_ids=["{cell_id}"].',
        code=ErrorCode.FILE_ACCESS_ERROR,
    )


class _OnDisk(Struct, frozen=True):
    """A notebook file as it is now. `data` are its own bytes, the notebook's are UTF-8.

    `stale`: it has changed since it was read, maybe only by outputs of a run.
    """

    notebook: Notebook
    data: bytes
    encoding: Encoding
    status: os.stat_result
    seen: SeenFile
    stale: bool


def plan_notebook_edit(
    path: Path, display_path: str, input: NotebookEditInput, state: FileState, seen_in: str
) -> Change:
    """The notebook with one cell changed, valid by nbformat's schema, or not less valid than it was.

    `seen_in` ends the title: " in analysis.ipynb", or nothing.
    """
    real = real_path(path)
    _check_fields(input)
    old = _on_disk(path, real, display_path, state)

    def check_known(position: int) -> None:
        name, source = old.notebook.ids()[position], old.notebook.text(position)
        if old.stale and not _is_known(old, position, state.cells.last(real, name)):
            raise stale_error(display_path)
        if not old.stale and not old.seen.whole and source_digest(source) not in old.seen.parts:
            raise _not_shown(name, display_path)

    try:
        edit = _edit_of(old.notebook, input, display_path, check_known)
        note = check_valid(old.notebook, edit, display_path)
    except NotANotebook as error:
        raise _not_changeable(display_path, str(error)) from error
    after = on_disk_bytes(edit.data, old.encoding, display_path, old.data)
    note += encoding_note(old.encoding, display_path)
    check_size(len(after), NOTEBOOK_BYTES, display_path)
    if old.stale and input.edit_mode in ("insert", "move"):
        for name in {input.cell_id, input.anchor_id} - {None}:
            check_known(old.notebook.find(str(name)))
    parts = old.seen.parts | ({source_digest(edit.after)} if edit.after is not None and edit.changed else set())
    all_known = not old.stale
    if old.stale:
        now = parse_notebook(edit.data)
        all_known = parts >= {source_digest(now.text(position)) for position in range(len(now.heads))}
    if not all_known:
        note += "\n[It had changed on disk since it was read; nothing else was touched. Read it to see the rest.]"
    return Change(
        path=real,
        display_path=display_path,
        before=old.data,
        replacing=old.status,
        after=after,
        diff=edit.diff(display_path),
        title=edit.title + seen_in,
        result=edit.result + note,
        whole=old.seen.whole and all_known,
        parts=parts,
        cells={} if edit.after is None else {edit.name: edit.after},
        moves_cells=input.edit_mode != "replace",
        about={
            "title": edit.title + seen_in,
            "cell_id": edit.name,
            "index": edit.position,
            "cell_sha256": _cell_states(old.notebook, edit),
        },
    )


def _is_known(old: _OnDisk, position: int, last: str | None) -> bool:
    """Return whether a cell of a notebook that has changed is still what the model knows by its name."""
    source = old.notebook.text(position)
    if source == last:
        return True
    # a cell without an id is named by its place, where another may stand now
    has_id = bool(old.notebook.heads[position].get("id"))
    return has_id and source_digest(source) in old.seen.parts


def _cell_states(before: Notebook, edit: CellEdit) -> dict[str, str | None]:
    """The hashes of the cell's source before and after; None where there is no cell."""
    after = parse_notebook(edit.data)
    ids = (before.ids(), after.ids())
    sources = [
        notebook.text(names.index(edit.name)) if edit.name in names else None
        for notebook, names in zip((before, after), ids, strict=True)
    ]
    was, now = (None if source is None else source_sha256(source) for source in sources)
    return {"before": was, "after": now}


def _on_disk(path: Path, real: Path, display_path: str, state: FileState) -> _OnDisk:
    if not real.exists():
        raise not_found(path, display_path)
    if real.suffix.lower() != ".ipynb":
        raise ToolError(
            f"{display_path} is not a notebook (.ipynb). Change it with Edit.", code=ErrorCode.FILE_PATH_INVALID
        )
    seen = state.require(real, display_path)
    data, status = read_bytes(real, display_path, NOTEBOOK_BYTES, "Change it with Python (nbformat).")
    stale = is_stale(seen, status, sha256(data))
    try:
        encoding, utf_8 = as_utf_8(data)
        return _OnDisk(parse_notebook(utf_8), data, encoding, status, seen, stale)
    except NotText:
        raise _not_changeable(display_path, "it is binary data") from None
    except NotANotebook as error:
        raise _not_changeable(display_path, str(error)) from error


def _not_changeable(display_path: str, problem: str) -> ToolError:
    return ToolError(
        f"{display_path} is not a notebook that can be changed: {problem}.", code=ErrorCode.FILE_ACCESS_ERROR
    )


class LiveEdit(Struct, frozen=True):
    """A planned edit: what it is for people, and the change; None where the cell is so already."""

    edit: CellEdit
    change: CellChange | None


class LiveConflict(ToolError):
    """The cell is not what the model was shown. `base` is what it knew, `now` what is there, `mine` what it wants."""

    def __init__(self, display_path: str, cell_id: str, base: str | None, now: str | None, mine: str | None) -> None:
        if now is None:
            text = f"Cell {cell_id} of {display_path} was deleted since you read it. Nothing was changed."
        else:
            was = "" if base is None else f"You knew it as:\n{_quoted(base)}\n"
            # its first line is all that is kept of it in the notebook
            text = (
                f"Cell {cell_id} of {display_path} has changed since you read it. Nothing was changed.\n{was}It is now:\n"
                f"{_quoted(now)}\nTake over what others changed, then call again."
            )
        versions = {"cell_id": cell_id, "base": base, "now": now, "mine": mine}
        super().__init__(text, code=ErrorCode.FILE_ACCESS_ERROR, details={"conflict": versions})
        self.display_path, self.cell_id = display_path, cell_id
        self.base, self.now, self.mine = base, now, mine

    def three_way(self) -> str:
        """Both sides as diffs from what the model knew."""
        base = self.base if self.base is not None else self.now
        sides = {"as it is now": self.now, "as Claude wants it": self.mine}
        diffs = (
            diff_texts(_ended(base), _ended(side), f"{self.display_path}#{self.cell_id}, {what}")
            for what, side in sides.items()
        )
        # the headers say which is which: they are no paths
        return "".join(
            replace(
                diff, header=[line.replace("--- a/", "--- ", 1).replace("+++ b/", "+++ ", 1) for line in diff.header]
            ).text
            for diff in diffs
        )


async def preview_live_edit(
    notebook: OpenNotebook, display_path: str, input: NotebookEditInput, state: FileState, title: str, seen_in: str
) -> Preview:
    """Build what the user is asked: the diff against the live source, or why it cannot be done."""
    try:
        planned = await plan_live_edit(notebook, display_path, input, state, seen_in)
    except LiveConflict as conflict:
        warning = "Somebody changed this cell since Claude read it: nothing will be changed."
        return Preview(title, conflict.three_way(), "diff", path=display_path, warning=warning)
    except ToolError as error:
        raise CannotBeDone(error, Preview(title, kind="diff", path=display_path), [notebook.path]) from error
    diff = planned.edit.diff(display_path)
    return Preview(f"{planned.edit.title} ({diff.counts})", diff.text, "diff", path=display_path)


async def make_live_edit(
    notebook: OpenNotebook, display_path: str, input: NotebookEditInput, state: FileState, seen_in: str
) -> ToolResult:
    """Make the change in the front end. "Done" is said of what was read back."""
    try:
        planned = await plan_live_edit(notebook, display_path, input, state, seen_in)
        edit, change = planned.edit, planned.change
        if change is None:
            return ToolResult(edit.result, structured=NotebookEditOutput(summary=edit.title, files=()))
        changed = await _made(notebook, edit, change, display_path, state)
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
    diff = edit.diff(display_path)
    affected = AffectedFile(path=notebook.path.as_posix(), type="update", added=diff.added, removed=diff.removed)
    output = NotebookEditOutput(
        summary=f"{edit.title} ({diff.counts})",
        files=(affected,),
        cell_id=changed.id,
        index=changed.position,
        open_in=notebook.where if notebook.live else None,
    )
    display = _display(notebook, edit, changed, display_path)
    return ToolResult(result + moved + _where_it_is(notebook), display, structured=output)


def _where_it_is(notebook: OpenNotebook) -> str:
    if not notebook.live:
        return f" [Saved in {notebook.where}: it is not open in JupyterLab.]"
    return (
        f" [Open in {notebook.where}: the user sees the change there and can undo it. It is not saved to disk; "
        "the file still has the last saved version.]"
    )


async def plan_live_edit(
    notebook: OpenNotebook, display_path: str, input: NotebookEditInput, state: FileState, seen_in: str
) -> LiveEdit:
    """Work the change out from the cells as they are now. Raises LiveConflict, and ToolError for what cannot be done."""
    _check_fields(input)
    cells = await notebook.cells(outputs=False)
    parsed = parse_notebook(notebook_bytes(cells, outputs=False))

    def check_known(position: int) -> None:
        _check_known(cells[position], notebook.path, display_path, input, state)

    try:
        edit = _edit_of(parsed, input, display_path, check_known)
    except ToolError as error:
        base = None if input.cell_id is None else state.cells.last(notebook.path, input.cell_id)
        if input.cell_id is None or base is None or input.cell_id in parsed.ids():
            raise
        raise LiveConflict(display_path, input.cell_id, base, None, input.new_source) from error
    return LiveEdit(replace(edit, title=edit.title + seen_in), _change(parsed, cells, edit, input))


def _check_known(cell: Cell, path: Path, display_path: str, input: NotebookEditInput, state: FileState) -> None:
    """Raise ToolError if the model does not know the cell's source as it is now."""
    base = state.cells.last(path, cell.id)
    if base == cell.source:
        return
    seen = state.get(path)
    if seen is not None and source_digest(cell.source) in seen.parts:
        return  # it was read or written in the file, before that was opened
    if base is None:
        raise _not_shown(cell.id, display_path)
    raise LiveConflict(display_path, cell.id, base, cell.source, input.new_source)


async def _made(
    notebook: OpenNotebook, edit: CellEdit, change: CellChange, display_path: str, state: FileState
) -> ChangedCell:
    """Make the change. Raises LiveConflict for what others have changed in the moment before."""
    try:
        [changed] = await notebook.change([change])
    except CellConflict as conflict:
        found: Conflict = conflict.conflicts[0]
        base = state.cells.last(notebook.path, found.cell_id)
        raise LiveConflict(display_path, found.cell_id, base, found.now, edit.after) from None
    return changed


def _change(notebook: Notebook, cells: Sequence[Cell], edit: CellEdit, input: NotebookEditInput) -> CellChange | None:
    """The edit as a change of the live notebook."""
    if edit.data == notebook.data:
        return None
    if input.edit_mode == "insert":
        assert input.cell_type is not None, "insert was checked to have one"
        return Insert(place=input.place, cell_type=input.cell_type, source=input.new_source or "", cell_id=edit.name)
    if input.edit_mode == "move":
        return Move(cell_id=edit.name, place=input.place)
    cell = cells[edit.position]
    expect = source_sha256(cell.source)
    if input.edit_mode == "delete":
        return Delete(cell_id=edit.name, expect=expect)
    kind = input.cell_type or cast("CellType", cell.cell_type)
    return Replace(cell_id=edit.name, expect=expect, source=edit.after, cell_type=kind)


def _display(notebook: OpenNotebook, edit: CellEdit, changed: ChangedCell, display_path: str) -> dict[str, Any]:
    """Build what views, hooks and recordings get; as for a file, but there is no file that was written."""
    diff = edit.diff(display_path)
    return {
        "title": edit.title,
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
    quoted = source[:QUOTED_CHARS]
    fence = code_fence(quoted)
    more = len(source) - len(quoted)
    rest = f"\n[{more:,} more characters: NotebookRead shows them]" if more else ""
    return f"{fence}\n{quoted}\n{fence}{rest}"


def _ended(source: str | None) -> str | None:
    return None if source is None else f"{source}\n"
