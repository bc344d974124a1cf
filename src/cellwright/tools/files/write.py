"""Write: a whole file, created or replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.changes import Change, FilesOutput, previewed_and_made
from cellwright.tools.files.encodings import named_encoding
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.replace import (
    EDITED_BYTES,
    check_notebook,
    creation,
    on_disk,
    stale_error,
    update,
    with_cell_ids,
)
from cellwright.tools.files.text import main_line_end, with_line_ends
from cellwright.tools.inputs import ENCODING_NAME, AllowSyntaxErrors, FilePath
from cellwright.tools.paths import real_path, shown_path

DESCRIPTION = """\
Write a whole file: create it (missing folders are made) or replace all its content.
- An existing file must have been read to its end in this session, and not have changed since. To change a part of a \
file use Edit, which costs less and shows the user a smaller diff.
- Encoding, line ends and mode of an existing file are kept. Source that parsed must still parse."""


class WriteInput(ToolInput):
    """The input of Write."""

    file_path: FilePath
    content: Annotated[str, Meta(description="The whole new content of the file.")]
    allow_syntax_errors: AllowSyntaxErrors = False
    encoding: (
        Annotated[
            str,
            Meta(
                pattern=ENCODING_NAME,
                description="The encoding to write (utf-8, gb18030, windows-1251). Left out: the file's own; UTF-8 if new.",
            ),
        ]
        | None
    ) = None


def write_tool(state: FileState, cwd: Path) -> Tool:
    """Write. `state` is the session's memory of files; relative paths start at `cwd`."""

    def title(input: WriteInput) -> str:
        return f"Write {shown_path(cwd, cwd / input.file_path)}"

    preview, make = previewed_and_made(plan_write, title, cwd, state)

    @tool(
        name="Write",
        other_names=(
            "write_file",
            "create_file",
            "save_file",
        ),
        output=FilesOutput,
        description=DESCRIPTION,
        access=ToolAccess("edit", "file_path"),
        category="files",
        everyday=True,
        best_for="new files",
        limits=ToolLimits(file_bytes=EDITED_BYTES),
        examples=[{"file_path": "docs/plan.md", "content": "# Plan\n"}],
        title=title,
        preview=preview,
    )
    async def write(input: WriteInput) -> ToolResult:
        return await make(input)

    return write


def plan_write(path: Path, display_path: str, input: WriteInput, state: FileState) -> Change:
    """The whole file anew. An existing one must have been read to its end, and be as it was then."""
    real, content, note = real_path(path), input.content, ""
    if real.suffix.lower() == ".ipynb":
        check_notebook(content, display_path)
        content, note = with_cell_ids(content)
    change = _written(real, display_path, content, input, state)
    return replace(change, result=change.result + note) if note and change.after != change.before else change


def _written(real: Path, display_path: str, content: str, input: WriteInput, state: FileState) -> Change:
    old = on_disk(real, display_path, state)
    if old is None:
        return creation(real, display_path, content, input.encoding)
    if not old.seen.whole:
        raise ToolError(
            f"Only a part of {display_path} was read in this session. Read all of it before you overwrite it, "
            "or change the part with Edit.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        )
    if old.stale:
        raise stale_error(display_path)
    if "\r\n" not in content:
        content = with_line_ends(content, old.text, main_line_end(old.text))
    return update(
        real,
        display_path,
        old,
        content,
        ("Overwrite", "Wrote"),
        allow_syntax_errors=input.allow_syntax_errors,
        whole=True,
        encoding=None if input.encoding is None else named_encoding(input.encoding),
    )
