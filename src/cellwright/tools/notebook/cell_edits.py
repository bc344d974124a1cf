"""What NotebookEdit would make of a notebook: worked out from what is on disk now, nothing written."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.changes import Change, Input
from cellwright.tools.files.diff import Diff, diff_texts
from cellwright.tools.files.file_state import FileState, SeenFile, is_stale
from cellwright.tools.files.formats.text import UTF_8, Encoding, NotText, decode, encode, read_bytes
from cellwright.tools.files.originals import sha256
from cellwright.tools.notebook.json import InsertIndex, Notebook, parse_notebook
from cellwright.tools.notebook.open_notebook import source_sha256
from cellwright.tools.notebook.pages import source_digest
from cellwright.tools.notebook.schema import cell_value, first_problem, new_cell_problems
from cellwright.tools.notebook.source import CHECKED_BYTES
from cellwright.tools.notebook.spans import BLOCK_BYTES, NotANotebook
from cellwright.tools.paths import not_found, real_path

NOTEBOOK_BYTES = 100 * 2**20

OUTLINE_CHARS = 60
"""How much of each cell's first line the diff of a move shows."""


@dataclass(frozen=True, slots=True)
class CellEdit:
    """What an edit makes of the notebook.

    `before` and `after` are what the diff compares (None: there is no cell), `name` and `position` the cell's, then.
    `changed` is its position before and after, as far as its content is new.
    """

    data: bytes
    name: str
    position: int
    before: str | None
    after: str | None
    title: str
    result: str
    changed: tuple[int | None, int] | None = None

    def diff(self, shown: str) -> Diff:
        """What the user is shown of it."""
        # a source rarely ends with a line end, and no view should make a point of it
        return diff_texts(_ended(self.before), _ended(self.after) or "", f"{shown}#{self.name}")


@dataclass(frozen=True, slots=True)
class _OnDisk:
    """A notebook file as it is now. `data` are its own bytes, the notebook's are UTF-8."""

    notebook: Notebook
    data: bytes
    encoding: Encoding
    status: os.stat_result
    seen: SeenFile


def plan_notebook_edit(path: Path, shown: str, tool_input: Input, state: FileState) -> Change:
    """The notebook with one cell changed, valid by nbformat's schema, or not less valid than it was."""
    real = real_path(path)
    check_input(tool_input)
    old = _on_disk(path, real, shown, state)

    def check_known(position: int) -> None:
        if not old.seen.whole and source_digest(old.notebook.text(position)) not in old.seen.parts:
            raise not_shown(old.notebook.ids()[position], shown)

    try:
        edit = edit_of(old.notebook, tool_input, shown, check_known)
        note = _checked(old.notebook, edit, shown)
    except NotANotebook as error:
        raise _not_changeable(shown, str(error)) from error
    parts = old.seen.parts | ({source_digest(edit.after)} if edit.after is not None and edit.changed else set())
    return Change(
        path=real,
        shown=shown,
        before=old.data,
        replacing=old.status,
        after=on_disk_bytes(edit.data, old.encoding, shown),
        diff=edit.diff(shown),
        title=edit.title,
        result=edit.result + note,
        whole=old.seen.whole,
        parts=parts,
        about={"cell_id": edit.name, "index": edit.position, "cell_sha256": _cell_states(old.notebook, edit)},
    )


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


def check_input(tool_input: Input) -> None:
    """What the schema cannot say: which fields go together."""
    mode = tool_input.get("edit_mode", "replace")
    problem = ""
    if mode != "insert" and "cell_id" not in tool_input:
        problem = f"{mode} needs cell_id. Read the notebook to see the ids."
    elif mode == "insert" and "cell_type" not in tool_input:
        problem = "insert needs cell_type: code, markdown or raw."
    elif mode == "insert" and "new_source" not in tool_input:
        problem = "insert needs new_source; it may be empty."
    elif mode == "replace" and "new_source" not in tool_input and "cell_type" not in tool_input:
        problem = "replace needs new_source, or a new cell_type."
    elif mode in ("replace", "delete") and "position" in tool_input:
        problem = f"position is for insert and move, not for {mode}."
    elif mode != "move" and "target_id" in tool_input:
        problem = "target_id is for move. For insert, cell_id is the cell beside which the new one goes."
    elif mode in ("insert", "move"):
        problem = _position_problem(mode, tool_input)
    if problem:
        raise ToolError(f"{problem} Nothing was changed.", code=ErrorCode.INVALID_PARAMETERS)
    source = tool_input.get("new_source", "")
    encode(source, UTF_8, "The notebook")


def _position_problem(mode: str, tool_input: Input) -> str:
    key = "cell_id" if mode == "insert" else "target_id"
    position = tool_input.get("position")
    if position in ("before", "after") and key not in tool_input:
        return f"position {position} needs {key}: the cell it is meant of."
    if position in ("start", "end") and key in tool_input:
        return f"position {position} is meant of the whole notebook: leave out {key}, or say before or after."
    if mode == "move" and position is None and key not in tool_input:
        return "move needs position: start or end, or before or after with target_id."
    return ""


def _on_disk(path: Path, real: Path, shown: str, state: FileState) -> _OnDisk:
    if not real.exists():
        raise not_found(path, shown)
    if real.suffix.lower() != ".ipynb":
        raise ToolError(f"{shown} is not a notebook (.ipynb). Change it with Edit.", code=ErrorCode.FILE_PATH_INVALID)
    seen = state.require(real, shown)
    data, status = read_bytes(real, shown, NOTEBOOK_BYTES, "Change it with Python (nbformat).")
    if is_stale(seen, status, sha256(data)):
        raise ToolError(
            f"{shown} has changed on disk since it was read. Read it again before you change it.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        )
    try:
        encoding, utf_8 = as_utf_8(data)
        return _OnDisk(parse_notebook(utf_8), data, encoding, status, seen)
    except NotText:
        raise _not_changeable(shown, "it is binary data") from None
    except NotANotebook as error:
        raise _not_changeable(shown, str(error)) from error


def _not_changeable(shown: str, problem: str) -> ToolError:
    return ToolError(f"{shown} is not a notebook that can be changed: {problem}.", code=ErrorCode.FILE_ACCESS_ERROR)


def as_utf_8(data: bytes) -> tuple[Encoding, bytes]:
    """JSON is UTF-8; whoever wrote it otherwise gets it back so."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        # block by block: the text of 100 MB may take 400 MB
        for start in range(0, len(data), BLOCK_BYTES):
            decoder.decode(data[start : start + BLOCK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        text, encoding = decode(data)
        return encoding, text.encode()
    return UTF_8, data


def on_disk_bytes(utf_8: bytes, encoding: Encoding, shown: str) -> bytes:
    """A notebook's UTF-8 as its file has it."""
    return utf_8 if encoding == UTF_8 else encode(utf_8.decode(), encoding, shown)


def edit_of(notebook: Notebook, tool_input: Input, shown: str, check_known: Callable[[int], None]) -> CellEdit:
    """What `tool_input` makes of `notebook`; `check_known` raises where the model does not know the cell at a position."""
    mode = tool_input.get("edit_mode", "replace")
    if mode == "insert":
        return _insert(notebook, tool_input, shown)
    position = notebook.find(tool_input["cell_id"])
    if mode == "move":
        return _move(notebook, position, tool_input, shown)
    check_known(position)
    if mode == "delete":
        return _delete(notebook, position, shown)
    return _replace(notebook, position, tool_input, shown)


def not_shown(cell_id: str, shown: str) -> ToolError:
    """The error for a cell that the model has not seen as it is."""
    return ToolError(
        f"Cell {cell_id} of {shown} was not shown in this session. Show it first: "
        f'NotebookRead with cell_ids=["{cell_id}"].',
        code=ErrorCode.FILE_ACCESS_ERROR,
    )


def _place(notebook: Notebook, tool_input: Input, key: str) -> tuple[InsertIndex, str]:
    """Where a cell goes, and in words."""
    position, beside = tool_input.get("position"), tool_input.get(key)
    if beside is not None:
        after = position != "before"
        return notebook.place_at(notebook.find(beside), after=after), f"{'after' if after else 'before'} {beside}"
    start = position == "start"
    return notebook.end_place(start=start), f"at the {'start' if start else 'end'}"


def _insert(notebook: Notebook, tool_input: Input, shown: str) -> CellEdit:
    count, kind, source = len(notebook.heads), tool_input["cell_type"], tool_input["new_source"]
    place, where = _place(notebook, tool_input, "cell_id")
    data, name = notebook.with_cell(place, kind, source)
    return CellEdit(
        data=data,
        name=name,
        position=place.position,
        before=None,
        after=source,
        title=f"Insert a {kind} cell {where} in {shown}",
        result=f"Inserted {kind} cell {name} {where} of {shown}: {_at(place.position, count + 1)}.",
        changed=(None, place.position),
    )


def _delete(notebook: Notebook, position: int, shown: str) -> CellEdit:
    kind, name, count = notebook.kind(position), notebook.ids()[position], len(notebook.heads)
    renamed = any("id" not in head for head in notebook.heads[position + 1 :])
    return CellEdit(
        data=notebook.without(position),
        name=name,
        position=position,
        before=notebook.text(position),
        after=None,
        title=f"Delete {kind} cell {name} in {shown}",
        result=f"Deleted {kind} cell {name}, which was cell {position + 1} of {count} in {shown}."
        + (" The cells after it are now named by their new positions." if renamed else ""),
    )


def _move(notebook: Notebook, position: int, tool_input: Input, shown: str) -> CellEdit:
    kind, name, count = notebook.kind(position), notebook.ids()[position], len(notebook.heads)
    place, where = _place(notebook, tool_input, "target_id")
    data = notebook.moved(position, place)
    now = place.position - (place.position > position)
    lines = _outline(notebook)
    moved = lines[:position] + lines[position + 1 :]
    moved.insert(now, lines[position])
    has_id = bool(notebook.heads[position].get("id"))
    new_name = name if has_id else f"cell-{now}"
    renamed = "" if has_id or now == position else " Cells without ids are now named by their new positions."
    result = f"Moved {kind} cell {name} {where} of {shown}: {_at(now, count)}, {new_name}.{renamed}"
    if now == position:
        result = f"{kind.capitalize()} cell {name} is there already ({_at(now, count)}); nothing was written."
    return CellEdit(
        data=data,
        name=new_name,
        position=now,
        before="\n".join(lines),
        after="\n".join(moved),
        title=f"Move {kind} cell {name} {where} in {shown}",
        result=result,
    )


def _replace(notebook: Notebook, position: int, tool_input: Input, shown: str) -> CellEdit:
    old_kind, name, old_source = notebook.kind(position), notebook.ids()[position], notebook.text(position)
    kind, source = tool_input.get("cell_type", old_kind), tool_input.get("new_source", old_source)
    where = f"{kind} cell {name} (cell {position + 1} of {len(notebook.heads)}) in {shown}"
    cleared = " Its outputs were cleared; it has not been run." if old_kind == "code" else ""
    changed: tuple[int | None, int] | None = (position, position)
    if kind != old_kind:
        data = notebook.with_type(position, kind, source)
        lost = notebook.heads[position].get("attachments") if kind == "code" else None
        attachments = " Its attachments are gone: code cells have none." if lost else ""
        gone = " Its outputs are gone." if old_kind == "code" else ""
        result = f"Changed {where}: it was a {old_kind} cell.{gone}{attachments}"
    elif source != old_source:
        data = notebook.with_source(position, source)
        result = f"Replaced the source of {where}.{cleared}"
    else:
        data, changed = notebook.data, None
        result = f"The source of {where} is exactly this already; nothing was written."
    return CellEdit(data, name, position, old_source, source, f"Edit {kind} cell {name} in {shown}", result, changed)


def _at(position: int, count: int) -> str:
    return f"it is cell {position + 1} of {count} (index {position})"


def _outline(notebook: Notebook) -> list[str]:
    """A line for each cell; without ids the position would make every line differ."""
    return [
        f"{head.get('id', '')} {notebook.text(number).strip().partition(chr(10))[0][:OUTLINE_CHARS]}".strip()
        for number, head in enumerate(notebook.heads)
    ]


def _ended(source: str | None) -> str | None:
    return None if source is None else f"{source}\n"


def _checked(notebook: Notebook, edit: CellEdit, shown: str) -> str:
    """A note if the notebook is not valid; an error if it is the edit that makes it so."""
    if edit.data == notebook.data:
        return ""
    new = parse_notebook(edit.data)
    if edit.changed is not None:
        was, now = edit.changed
        before = None if was is None else cell_value(notebook.source, was)
        if problem := new_cell_problems(new.source, before, cell_value(new.source, now)):
            raise ToolError(
                f"{shown} would no longer be a valid notebook: {problem}. Nothing was written.",
                code=ErrorCode.INVALID_PARAMETERS,
            )
    # in a large notebook the cells that stay as they are are not gone through only to say this
    problem = first_problem(new.source) if len(edit.data) <= CHECKED_BYTES else ""
    return f"\n[The notebook was not quite valid before and is not now: {problem}]" if problem else ""
