"""NotebookEdit: one cell of a notebook file, changed so that the rest of the file keeps every byte."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.changes import Change, Input, sha256, writing_call, writing_preview
from cellwright.tools.diffs import diff_texts
from cellwright.tools.file_state import FileState, is_stale
from cellwright.tools.notebook_json import NotANotebook, Notebook, parse_notebook
from cellwright.tools.paths import not_found, real_path, shown_path
from cellwright.tools.reading import NOTEBOOK_BYTES
from cellwright.tools.schemas import object_schema
from cellwright.tools.text_files import Encoding, NotText, decode, encode, read_bytes

DESCRIPTION = """\
Change one cell of a Jupyter notebook file (.ipynb): replace its source, insert a new cell, or delete it.
- Read the notebook first: it shows each cell's id. Cells without one are named cell-0, cell-1, … by position.
- insert puts the new cell after cell_id; without cell_id at the END of the notebook. The result says where it is.
- A code cell whose source changes loses its outputs and execution count. Nothing is executed."""


@dataclass(frozen=True, slots=True)
class CellEdit:
    """What an edit does to the notebook's text and to the cell's source (None: there is no cell before, or after)."""

    text: str
    cell_id: str
    before: str | None
    after: str | None
    title: str
    result: str


def notebook_file_tools(state: FileState, cwd: Path) -> list[Tool]:
    """NotebookEdit. `state` is the session's memory of files; relative paths start at `cwd`."""

    def plan(path: Path, shown: str, tool_input: Input) -> Change:
        return plan_notebook_edit(path, shown, tool_input, state)

    def title(tool_input: Mapping[str, Any]) -> str:
        shown = shown_path(cwd, cwd / str(tool_input["notebook_path"]))
        mode, cell_id = tool_input.get("edit_mode", "replace"), tool_input.get("cell_id")
        if mode == "insert":
            return f"Insert a cell {f'after {cell_id}' if cell_id else 'at the end'} in {shown}"
        return f"{'Delete' if mode == 'delete' else 'Edit'} cell {cell_id} in {shown}"

    return [
        Tool(
            name="NotebookEdit",
            description=DESCRIPTION,
            input_schema=object_schema(FIELDS, required=["notebook_path", "new_source"]),
            call=writing_call(plan, "notebook_path", state, cwd),
            rule_key="notebook_path",
            title=title,
            preview=writing_preview(plan, "notebook_path", title, cwd),
        )
    ]


FIELDS: dict[str, Any] = {
    "notebook_path": {
        "type": "string",
        "minLength": 1,
        "description": "The notebook file: an absolute path, or one relative to the working directory.",
    },
    "new_source": {"type": "string", "description": "The cell's whole new source; empty for delete."},
    "cell_id": {
        "type": "string",
        "minLength": 1,
        "description": "The cell to replace or delete; for insert, the cell after which the new one goes.",
    },
    "cell_type": {
        "type": "string",
        "enum": ["code", "markdown"],
        "description": "Required for insert. For replace: leave it out to keep the cell's type.",
    },
    "edit_mode": {
        "type": "string",
        "enum": ["replace", "insert", "delete"],
        "default": "replace",
        "description": "What to do; replace by default.",
    },
}


def plan_notebook_edit(path: Path, shown: str, tool_input: Input, state: FileState) -> Change:
    """The notebook with one cell changed, valid by nbformat's schema, or not less valid than it was."""
    real = real_path(path)
    notebook, encoding, data, status, whole = _on_disk(path, real, shown, state)
    edit = _edit(notebook, tool_input, shown)
    note = ""
    if edit.text != notebook.text and (problem := _problem(edit.text)):
        if not _problem(notebook.text):
            raise ToolError(
                f"{shown} would no longer be a valid notebook: {problem}. Nothing was written.",
                code=ErrorCode.INVALID_PARAMETERS,
            )
        note = f"\n[The notebook was not quite valid before and is not now: {problem}]"
    return Change(
        path=real,
        shown=shown,
        before=data,
        replacing=status,
        after=encode(edit.text, encoding, shown),
        # a source rarely ends with a line end, and no view should make a point of it
        diff=diff_texts(_ended(edit.before), _ended(edit.after) or "", f"{shown}#{edit.cell_id}"),
        title=edit.title,
        result=edit.result + note,
        whole=whole,
        about={"cell_id": edit.cell_id},
    )


def _on_disk(
    path: Path, real: Path, shown: str, state: FileState
) -> tuple[Notebook, Encoding, bytes, os.stat_result, bool]:
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
        text, encoding = decode(data)
        return parse_notebook(text), encoding, data, status, seen.whole
    except NotText:
        problem = "it is binary data"
    except NotANotebook as error:
        problem = str(error)
    raise ToolError(f"{shown} is not a notebook that can be changed: {problem}.", code=ErrorCode.FILE_ACCESS_ERROR)


def _edit(notebook: Notebook, tool_input: Input, shown: str) -> CellEdit:
    mode = tool_input.get("edit_mode", "replace")
    if mode == "insert":
        return _insert(notebook, tool_input, shown)
    if "cell_id" not in tool_input:
        raise ToolError(f"{mode} needs cell_id. Read the notebook to see the ids.", code=ErrorCode.INVALID_PARAMETERS)
    position = notebook.find(tool_input["cell_id"])
    if mode == "delete":
        return _delete(notebook, position, shown)
    return _replace(notebook, position, tool_input, shown)


def _insert(notebook: Notebook, tool_input: Input, shown: str) -> CellEdit:
    if "cell_type" not in tool_input:
        raise ToolError("insert needs cell_type: code or markdown.", code=ErrorCode.INVALID_PARAMETERS)
    count, kind, after = len(notebook.cells), tool_input["cell_type"], tool_input.get("cell_id")
    position = notebook.find(after) + 1 if after is not None else count
    text, name = notebook.with_cell(position, kind, tool_input["new_source"])
    where = f"after {after}" if after is not None else "at the end"
    return CellEdit(
        text=text,
        cell_id=name,
        before=None,
        after=tool_input["new_source"],
        title=f"Insert a {kind} cell {where} in {shown}",
        result=f"Inserted {kind} cell {name} {where} of {shown}: it is cell {position + 1} of {count + 1}.",
    )


def _delete(notebook: Notebook, position: int, shown: str) -> CellEdit:
    cell, name = notebook.cells[position], notebook.ids()[position]
    left = len(notebook.cells) - 1
    return CellEdit(
        text=notebook.without(position),
        cell_id=name,
        before=cell.source,
        after=None,
        title=f"Delete {cell.kind} cell {name} in {shown}",
        result=f"Deleted {cell.kind} cell {name}, which was cell {position + 1} of {left + 1} in {shown}."
        + ("" if cell.value.get("id") else " The cells after it are now named by their new positions."),
    )


def _replace(notebook: Notebook, position: int, tool_input: Input, shown: str) -> CellEdit:
    cell, name, source = notebook.cells[position], notebook.ids()[position], tool_input["new_source"]
    kind = tool_input.get("cell_type", cell.kind)
    where = f"{kind} cell {name} (cell {position + 1} of {len(notebook.cells)}) in {shown}"
    if kind != cell.kind:
        text = notebook.with_type(position, kind, source)
        result = f"Changed {where}: it was a {cell.kind} cell."
    elif source != cell.source:
        text = notebook.with_source(position, source)
        cleared = " Its outputs were cleared; it has not been run." if cell.kind == "code" else ""
        result = f"Replaced the source of {where}.{cleared}"
    else:
        text, result = notebook.text, f"The source of {where} is exactly this already; nothing was written."
    return CellEdit(text, name, cell.source, source, f"Edit {kind} cell {name} in {shown}", result)


def _ended(source: str | None) -> str | None:
    return None if source is None else f"{source}\n"


def _problem(text: str) -> str:
    """What nbformat's schema has against a notebook; empty if nothing."""
    from nbformat.validator import iter_validate  # 1 s to import: this runs in a worker thread

    # not `validate`: it repairs what it is given, and warns on the way
    error = next(iter_validate(json.loads(text)), None)  # type: ignore[no-untyped-call]
    return "" if error is None else str(error).splitlines()[0]
