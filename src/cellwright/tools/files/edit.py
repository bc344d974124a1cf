"""Edit: text in a file replaced, literally."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.tools.files.changes import Change, FilesOutput, Plan, make_change, preview_change
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.replace import (
    EDITED_BYTES,
    check_editable,
    creation,
    on_disk,
    replaced,
    stale_error,
    update,
)
from cellwright.tools.inputs import AllowSyntaxErrors, EncodingName, FilePath
from cellwright.tools.paths import not_found, real_path, shown_path

DESCRIPTION = """\
Replace text in a file, literally (no patterns).
- Read the file first. old_string must be in the file exactly once, including indentation; leave out the line numbers \
that Read shows. If it is there more often, give more of the surrounding lines, or set replace_all to change every one.
- An empty old_string creates a file that does not exist yet.
- Encoding, line ends and mode are kept; write line ends as \\n. Source that parsed must still parse. For notebooks \
(.ipynb) use NotebookEdit; for several changes of one file MultiEdit."""


class EditInput(ToolInput):
    """The input of Edit."""

    file_path: FilePath
    old_string: Annotated[str, Meta(description="The text to replace, exactly as it is in the file.")]
    new_string: Annotated[str, Meta(description="The text to put in its place; must differ from it.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence, for example to rename something in the file.")
    ] = False
    allow_syntax_errors: AllowSyntaxErrors = False
    encoding: EncodingName | None = None


def edit_tool(state: FileState, cwd: Path) -> Tool:
    """Edit. `state` is the session's memory of files; relative paths start at `cwd`."""

    def title(input: EditInput) -> str:
        return f"Edit {shown_path(cwd, cwd / input.file_path)}"

    def plan(input: EditInput) -> Plan:
        return lambda path, display_path: plan_edit(path, display_path, input, state)

    async def preview(input: EditInput) -> Preview:
        return await preview_change(plan(input), input.file_path, cwd, title(input))

    @tool(
        name="Edit",
        other_names=(
            "edit_file",
            "replace_in_file",
            "str_replace",
            "search_replace",
            "replace",
        ),
        output=FilesOutput,
        description=DESCRIPTION,
        access=ToolAccess("edit", "file_path"),
        category="files",
        everyday=True,
        best_for="changes",
        limits=ToolLimits(file_bytes=EDITED_BYTES),
        examples=[{"file_path": "app.py", "old_string": "retries = 3", "new_string": "retries = 5"}],
        title=title,
        preview=preview,
    )
    async def edit(input: EditInput) -> ToolResult:
        return await make_change(plan(input), input.file_path, cwd, state)

    return edit


def plan_edit(path: Path, display_path: str, input: EditInput, state: FileState) -> Change:
    """The file with `old_string` replaced.

    It must have been read. Has it changed since, an `old_string` that is there exactly once is replaced all the same.
    """
    real, old_string, new_string = real_path(path), input.old_string, input.new_string
    if old_string == new_string:
        raise ToolError("old_string and new_string are the same.", code=ErrorCode.INVALID_PARAMETERS)
    old = on_disk(real, display_path, state, input.encoding)
    if old is None:
        if old_string:
            raise not_found(path, display_path)
        return creation(real, display_path, new_string, input.encoding)
    check_editable(real, display_path, old, old_string)
    if old.stale and input.replace_all:
        raise stale_error(display_path)
    if not old.text and not old_string:
        text, count = new_string, 1
    else:
        text, count = replaced(old, old_string, new_string, input.replace_all, display_path)
    change = update(
        real,
        display_path,
        old,
        text,
        ("Edit", "Edited"),
        allow_syntax_errors=input.allow_syntax_errors,
        whole=old.known,
        about=f", {count} places" if count > 1 else "",
    )
    return replace(change, replacements=count)
