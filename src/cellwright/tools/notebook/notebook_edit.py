"""NotebookRead and NotebookEdit: cells of notebook files, shown and changed so that the rest keeps every byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.tool import CannotBeDone, Tool, ToolContext, ToolError, ToolLimits, ToolResult
from cellwright.errors import ErrorCode
from cellwright.events import Preview
from cellwright.tools.files.changes import Change, Input, writing_call, writing_preview
from cellwright.tools.files.file_state import FileState
from cellwright.tools.live_edits import make_live_edit, preview_live_edit
from cellwright.tools.notebook.cell_edits import plan_notebook_edit
from cellwright.tools.notebook.notebook_read import notebook_read_tool
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebooks
from cellwright.tools.paths import real_path, resolve_path, shown_path
from cellwright.tools.schema import object_schema

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
