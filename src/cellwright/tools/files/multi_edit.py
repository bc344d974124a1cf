"""MultiEdit: several replacements in one file, one after the other, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolLimits
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.syntax import ALLOW, ALLOW_FIELD
from cellwright.tools.files.changes import Change, Input, writing_call, writing_preview
from cellwright.tools.files.diff import common_start
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.replace import (
    EDITED_BYTES,
    FileOnDisk,
    check_editable,
    creation,
    on_disk,
    replace_text,
    replaced,
    stale_error,
    update,
)
from cellwright.tools.paths import not_found, real_path, shown_path
from cellwright.tools.schema import FILE_PATH, counted, object_schema

DESCRIPTION = """\
Make several edits of one file in one call: all of them, or none if one does not fit.
- Each edit is as in Edit (old_string exactly once, or replace_all) and works on what the ones before it left.
- Read the file first. The result says for each edit where it was made; an error, which ones would fit.
- To create a file, let the first edit have an empty old_string."""

EDIT_FIELDS = {
    "old_string": {"type": "string", "description": "The text to replace, exactly as it is in the file by then."},
    "new_string": {"type": "string", "description": "The text to put in its place; must differ from it."},
    "replace_all": {"type": "boolean", "default": False, "description": "Replace every occurrence."},
}


def multi_edit_tool(state: FileState, cwd: Path) -> Tool:
    """MultiEdit. `state` is the session's memory of files; relative paths start at `cwd`."""

    def plan(path: Path, shown: str, tool_input: Input) -> Change:
        return plan_multi_edit(path, shown, tool_input, state)

    def title(tool_input: Mapping[str, Any]) -> str:
        return (
            f"Edit {shown_path(cwd, cwd / str(tool_input['file_path']))} ({counted(len(tool_input['edits']), 'edit')})"
        )

    return Tool(
        name="MultiEdit",
        description=DESCRIPTION,
        input_schema=object_schema(
            {
                "file_path": FILE_PATH,
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "items": object_schema(EDIT_FIELDS, required=["old_string", "new_string"]),
                    "description": "The edits, in the order in which they are made.",
                },
                ALLOW: ALLOW_FIELD,
            },
            required=["file_path", "edits"],
        ),
        call=writing_call(plan, "file_path", state, cwd),
        rule_key="file_path",
        category="files",
        limits=ToolLimits(file_bytes=EDITED_BYTES),
        input_examples=(
            {
                "file_path": "app.py",
                "edits": [
                    {"old_string": "import sys\n", "new_string": "import os\nimport sys\n"},
                    {"old_string": "tmp", "new_string": "scratch", "replace_all": True},
                ],
            },
        ),
        title=title,
        preview=writing_preview(plan, "file_path", title, cwd),
    )


@dataclass(frozen=True, slots=True)
class _Status:
    """What becomes of one edit: where it is made, or why it cannot be."""

    words: str
    error: ToolError | None = None


def plan_multi_edit(path: Path, shown: str, tool_input: Input, state: FileState) -> Change:
    """The file with all edits made. ToolError with the status of each, if one does not fit."""
    real, edits = real_path(path), tool_input["edits"]
    old = on_disk(real, shown, state)
    if old is None:
        if edits[0]["old_string"]:
            raise not_found(path, shown)
        text, statuses = _made(edits[1:], edits[0]["new_string"], shown, None)
        statuses.insert(0, _Status(f"the file, {counted(len(edits[0]['new_string']), 'character')}"))
        _check_all(edits, statuses, shown)
        change = creation(real, shown, text)
        return replace(change, result=f"{change.result}\n{_listed(edits, statuses)}")
    check_editable(real, shown, old, edits[0]["old_string"])
    text, statuses = _made(edits, old.text, shown, old)
    _check_all(edits, statuses, shown)
    change = update(real, shown, old, text, ("Edit", "Edited"), tool_input, whole=old.known)
    listed = _listed(edits, statuses)
    return replace(change, result=f"{change.result}\n{listed}" if change.after != change.before else change.result)


def _made(edits: Sequence[Input], text: str, shown: str, old: FileOnDisk | None) -> tuple[str, list[_Status]]:
    """The text after the edits that fit, and what became of each."""
    statuses: list[_Status] = []
    for edit in edits:
        try:
            after, count = _edited(edit, text, shown, old)
        except ToolError as error:
            statuses.append(_Status(error.message, error))
            continue
        line = after.count("\n", 0, common_start(text, after)) + 1
        statuses.append(_Status(f"line {line}" if count == 1 else f"{count} places"))
        text = after
    return text, statuses


def _edited(edit: Input, text: str, shown: str, old: FileOnDisk | None) -> tuple[str, int]:
    old_string, new_string = edit["old_string"], edit["new_string"]
    replace_all = bool(edit.get("replace_all", False))
    if old_string == new_string:
        raise ToolError("old_string and new_string are the same.", code=ErrorCode.INVALID_PARAMETERS)
    if not old_string:
        if not text:
            return new_string, 1
        raise ToolError(
            "old_string is empty: that is only for the first edit of a file that is new or empty.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    if old is None:
        return replace_text(text, old_string, new_string, replace_all=replace_all, shown=shown)
    if old.stale and replace_all:
        raise stale_error(shown)
    return replaced(replace(old, text=text), old_string, new_string, replace_all, shown)


def _check_all(edits: Sequence[Input], statuses: Sequence[_Status], shown: str) -> None:
    failed = [status.error for status in statuses if status.error is not None]
    if not failed:
        return
    raise ToolError(
        f"{len(failed)} of {counted(len(edits), 'edit')} of {shown} cannot be made, so none was:\n"
        + _listed(edits, statuses, "would be made at ")
        + ("\nAn edit may depend on one before it that does not fit." if len(edits) > len(failed) else ""),
        code=failed[0].code,
        details={"edits": [{"fits": status.error is None, "status": status.words} for status in statuses]},
    )


def _listed(edits: Sequence[Input], statuses: Sequence[_Status], fits: str = "") -> str:
    """One line for each edit; errors, which may be longer, in full."""
    lines = []
    for number, (edit, status) in enumerate(zip(edits, statuses, strict=True), 1):
        first = edit["old_string"].strip().split("\n")[0][:60]
        lines.append(f"{number}. {first!r}: {'' if status.error else fits}{status.words}")
    return "\n".join(lines)
