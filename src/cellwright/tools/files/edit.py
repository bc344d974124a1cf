"""Edit and MultiEdit: text in a file replaced, literally, at one place or at several, all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import counted
from cellwright.tools.files.changes import Change, FilesOutput, common_start, previewed_and_made
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
from cellwright.tools.inputs import AllowSyntaxErrors, EncodingName, FilePath
from cellwright.tools.paths import not_found, real_path, shown_path

EDIT_DESCRIPTION = """\
Replace text in a file, literally (no patterns).
- Read the file first. old_string must be in the file exactly once, including indentation; leave out the line numbers \
that Read shows. If it is there more often, give more of the surrounding lines, or set replace_all to change every one.
- An empty old_string creates a file that does not exist yet.
- Encoding, line ends and mode are kept; write line ends as \\n. Source that parsed must still parse. For notebooks \
(.ipynb) use NotebookEdit; for several changes of one file MultiEdit."""

MULTI_EDIT_DESCRIPTION = """\
Make several edits of one file in one call: all of them, or none if one does not fit.
- Each edit is as in Edit (old_string exactly once, or replace_all) and works on what the ones before it left.
- Read the file first. The result says for each edit where it was made; an error, which ones would fit.
- To create a file, let the first edit have an empty old_string."""


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

    preview, make = previewed_and_made(plan_edit, title, cwd, state)

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
        description=EDIT_DESCRIPTION,
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
        return await make(input)

    return edit


def plan_edit(path: Path, display_path: str, input: EditInput, state: FileState) -> Change:
    """The file with `old_string` replaced.

    It must have been read. Has it changed since, an `old_string` that is there exactly once is replaced all the same.
    """
    real = real_path(path)
    _check_differs(input)
    old = on_disk(real, display_path, state, input.encoding)
    if old is None:
        if input.old_string:
            raise not_found(path, display_path)
        return creation(real, display_path, input.new_string, input.encoding)
    check_editable(real, display_path, old, input.old_string)
    text, count = _edited(input, old.text, display_path, old)
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


class ReplacementInput(ToolInput):
    """One of the edits."""

    old_string: Annotated[str, Meta(description="The text to replace, exactly as it is in the file by then.")]
    new_string: Annotated[str, Meta(description="The text to put in its place; must differ from it.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class MultiEditInput(ToolInput):
    """The input of MultiEdit."""

    file_path: FilePath
    edits: Annotated[
        tuple[ReplacementInput, ...],
        Meta(min_length=1, description="The edits, in the order in which they are made."),
    ]
    allow_syntax_errors: AllowSyntaxErrors = False
    encoding: EncodingName | None = None


def multi_edit_tool(state: FileState, cwd: Path) -> Tool:
    """MultiEdit. `state` is the session's memory of files; relative paths start at `cwd`."""

    def title(input: MultiEditInput) -> str:
        return f"Edit {shown_path(cwd, cwd / input.file_path)} ({counted(len(input.edits), 'edit')})"

    preview, make = previewed_and_made(plan_multi_edit, title, cwd, state)

    @tool(
        name="MultiEdit",
        other_names=(
            "edit_file",
            "replace_in_file",
        ),
        rarely_used=True,
        output=FilesOutput,
        description=MULTI_EDIT_DESCRIPTION,
        access=ToolAccess("edit", "file_path"),
        category="files",
        best_for="several changes of a file",
        limits=ToolLimits(file_bytes=EDITED_BYTES),
        examples=[
            {
                "file_path": "app.py",
                "edits": [
                    {"old_string": "import sys\n", "new_string": "import os\nimport sys\n"},
                    {"old_string": "tmp", "new_string": "scratch", "replace_all": True},
                ],
            },
        ],
        title=title,
        preview=preview,
    )
    async def multi_edit(input: MultiEditInput) -> ToolResult:
        return await make(input)

    return multi_edit


class _Status(Struct, frozen=True):
    """The fate of one edit: where it is made, or why it cannot be."""

    words: str
    error: ToolError | None = None
    places: int = 1


def plan_multi_edit(path: Path, display_path: str, input: MultiEditInput, state: FileState) -> Change:
    """The file with all edits made. ToolError with the status of each, if one does not fit."""
    real, edits = real_path(path), input.edits
    old = on_disk(real, display_path, state, input.encoding)
    if old is None:
        if edits[0].old_string:
            raise not_found(path, display_path)
        text, statuses = _made(edits[1:], edits[0].new_string, display_path, None)
        statuses.insert(0, _Status(f"the file, {counted(len(edits[0].new_string), 'character')}"))
        _check_all(edits, statuses, display_path)
        change = creation(real, display_path, text, input.encoding)
        made = sum(status.places for status in statuses[1:])
        return replace(change, result=f"{change.result}\n{_listed(edits, statuses)}", replacements=made)
    check_editable(real, display_path, old, edits[0].old_string)
    text, statuses = _made(edits, old.text, display_path, old)
    _check_all(edits, statuses, display_path)
    verb = ("Edit", "Edited")
    change = update(real, display_path, old, text, verb, allow_syntax_errors=input.allow_syntax_errors, whole=old.known)
    change = replace(change, replacements=sum(status.places for status in statuses))
    listed = _listed(edits, statuses)
    return replace(change, result=f"{change.result}\n{listed}" if change.after != change.before else change.result)


def _made(
    edits: Sequence[ReplacementInput], text: str, display_path: str, old: FileOnDisk | None
) -> tuple[str, list[_Status]]:
    """The text after the edits that fit, and what became of each."""
    statuses: list[_Status] = []
    for edit in edits:
        try:
            after, count = _edited(edit, text, display_path, old)
        except ToolError as error:
            statuses.append(_Status(error.message, error))
            continue
        line = after.count("\n", 0, common_start(text, after)) + 1
        statuses.append(_Status(f"line {line}" if count == 1 else f"{count} places", places=count))
        text = after
    return text, statuses


def _check_differs(edit: EditInput | ReplacementInput) -> None:
    if edit.old_string == edit.new_string:
        raise ToolError("old_string and new_string are the same.", code=ErrorCode.INVALID_PARAMETERS)


def _edited(
    edit: EditInput | ReplacementInput, text: str, display_path: str, old: FileOnDisk | None
) -> tuple[str, int]:
    """The text after one edit, and the number of places; `old` is the file that it was read from, None for a new one."""
    old_string, new_string, replace_all = edit.old_string, edit.new_string, edit.replace_all
    _check_differs(edit)
    if old is not None and old.stale and replace_all:
        raise stale_error(display_path)
    if not old_string:
        if not text:
            return new_string, 1
        raise ToolError(
            "old_string is empty: that is only for the first edit of a file that is new or empty.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    if old is None:
        return replace_text(text, old_string, new_string, replace_all=replace_all, display_path=display_path)
    return replaced(replace(old, text=text), old_string, new_string, replace_all, display_path)


def _check_all(edits: Sequence[ReplacementInput], statuses: Sequence[_Status], display_path: str) -> None:
    failed = [status.error for status in statuses if status.error is not None]
    if not failed:
        return
    raise ToolError(
        f"{len(failed)} of {counted(len(edits), 'edit')} of {display_path} cannot be made, so none was:\n"
        + _listed(edits, statuses, "would be made at ")
        + ("\nAn edit may depend on one before it that does not fit." if len(edits) > len(failed) else ""),
        code=failed[0].code,
        details={"edits": [{"fits": status.error is None, "status": status.words} for status in statuses]},
    )


def _listed(edits: Sequence[ReplacementInput], statuses: Sequence[_Status], fits: str = "") -> str:
    """One line for each edit; errors, which may be longer, in full."""
    lines = []
    for number, (edit, status) in enumerate(zip(edits, statuses, strict=True), 1):
        first = edit.old_string.strip().split("\n")[0][:60]
        lines.append(f"{number}. {first!r}: {'' if status.error else fits}{status.words}")
    return "\n".join(lines)
