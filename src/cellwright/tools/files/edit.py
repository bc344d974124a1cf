"""The tools that change text files: Write and Edit, and with them MultiEdit, ApplyPatch and EditSymbol."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolLimits
from cellwright.tools.code.edit_symbol import edit_symbol_tool
from cellwright.tools.code.syntax import ALLOW, ALLOW_FIELD
from cellwright.tools.files.apply_patch import apply_patch_tool
from cellwright.tools.files.changes import Change, writing_call, writing_preview
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.multi_edit import multi_edit_tool
from cellwright.tools.files.replace import EDITED_BYTES, plan_edit, plan_write
from cellwright.tools.paths import shown_path
from cellwright.tools.schema import FILE_PATH, object_schema

WRITE_DESCRIPTION = """\
Write a whole file: create it (missing folders are made) or replace all its content.
- An existing file must have been read to its end in this session, and not have changed since. To change a part of a \
file use Edit, which costs less and shows the user a smaller diff.
- Encoding, line ends and mode of an existing file are kept. Source that parsed must still parse."""

EDIT_DESCRIPTION = """\
Replace text in a file, literally (no patterns).
- Read the file first. old_string must be in the file exactly once, including indentation; leave out the line numbers \
that Read shows. If it is there more often, give more of the surrounding lines, or set replace_all to change every one.
- An empty old_string creates a file that does not exist yet.
- Encoding, line ends and mode are kept; write line ends as \\n. Source that parsed must still parse. For notebooks \
(.ipynb) use NotebookEdit; for several changes of one file MultiEdit."""


def editing_tools(state: FileState, cwd: Path) -> list[Tool]:
    """What changes text files. `state` is the session's memory of files; relative paths start at `cwd`."""
    return [
        _write_tool(state, cwd),
        _edit_tool(state, cwd),
        multi_edit_tool(state, cwd),
        apply_patch_tool(state, cwd),
        edit_symbol_tool(state, cwd),
    ]


def _write_tool(state: FileState, cwd: Path) -> Tool:
    def plan(path: Path, shown: str, tool_input: Mapping[str, Any]) -> Change:
        return plan_write(path, shown, tool_input, state)

    def title(tool_input: Mapping[str, Any]) -> str:
        return f"Write {_shown(cwd, tool_input)}"

    return Tool(
        name="Write",
        description=WRITE_DESCRIPTION,
        input_schema=object_schema(
            {
                "file_path": FILE_PATH,
                "content": {"type": "string", "description": "The whole new content of the file."},
                ALLOW: ALLOW_FIELD,
            },
            required=["file_path", "content"],
        ),
        call=writing_call(plan, "file_path", state, cwd),
        rule_key="file_path",
        category="files",
        limits=ToolLimits(file_bytes=EDITED_BYTES),
        input_examples=({"file_path": "docs/plan.md", "content": "# Plan\n"},),
        title=title,
        preview=writing_preview(plan, "file_path", title, cwd),
    )


def _edit_tool(state: FileState, cwd: Path) -> Tool:
    def plan(path: Path, shown: str, tool_input: Mapping[str, Any]) -> Change:
        return plan_edit(path, shown, tool_input, state)

    def title(tool_input: Mapping[str, Any]) -> str:
        return f"Edit {_shown(cwd, tool_input)}"

    return Tool(
        name="Edit",
        description=EDIT_DESCRIPTION,
        input_schema=object_schema(
            {
                "file_path": FILE_PATH,
                "old_string": {"type": "string", "description": "The text to replace, exactly as it is in the file."},
                "new_string": {"type": "string", "description": "The text to put in its place; must differ from it."},
                "replace_all": {
                    "type": "boolean",
                    "default": False,
                    "description": "Replace every occurrence, for example to rename something in the file.",
                },
                ALLOW: ALLOW_FIELD,
            },
            required=["file_path", "old_string", "new_string"],
        ),
        call=writing_call(plan, "file_path", state, cwd),
        rule_key="file_path",
        category="files",
        limits=ToolLimits(file_bytes=EDITED_BYTES),
        input_examples=({"file_path": "app.py", "old_string": "retries = 3", "new_string": "retries = 5"},),
        title=title,
        preview=writing_preview(plan, "file_path", title, cwd),
    )


def _shown(cwd: Path, tool_input: Mapping[str, Any]) -> str:
    return shown_path(cwd, cwd / str(tool_input["file_path"]))
