"""ApplyPatch: a unified diff over any number of files, applied to all of them or to none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import CannotBeDone, Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.permissions.judges.patch import paths_in_patch
from cellwright.permissions.patch_text import PatchProblem
from cellwright.text import counted
from cellwright.tools.code.syntax import EditedFile, check_all
from cellwright.tools.files.atomic_write import FileWrite, write_together
from cellwright.tools.files.changes import AffectedFile, FilesOutput, in_thread
from cellwright.tools.files.diff import Diff, diff_texts
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.formats.text import NotText, decode
from cellwright.tools.files.originals import UpcomingChange, kept_originals, sha256
from cellwright.tools.files.patch_plan import PatchedFile, plan_patch
from cellwright.tools.files.replace import EDITED_BYTES
from cellwright.tools.files.writing.open_folder import FileChanged
from cellwright.tools.inputs import AllowSyntaxErrors
from cellwright.tools.paths import file_errors, shown_path

DESCRIPTION = """\
Apply a unified diff (as of `git diff`) to one or many files: edit, create, delete, rename, chmod. All of it or nothing.
- Names are relative to the working directory, or absolute; a/ and b/ before them are taken off. Several hunks per file, in \
the file's order, with three lines of context each.
- A hunk may be elsewhere than its line number says. In a file that was read, white space may differ (the result tells); in \
one that was not, every line must be exact. A hunk that fits in several places is refused.
- Create: `--- /dev/null`. Delete: `+++ /dev/null`, with all lines. Rename: git's `rename from` and `rename to` lines."""


class _Result(Struct, frozen=True):
    """A planned patch in words and pictures: `lines` for the model, `diff` for people."""

    files: list[PatchedFile]
    diffs: list[Diff]
    lines: list[str]

    @property
    def summary(self) -> str:
        """`3 files (+10 −4)`"""
        added, removed = sum(diff.added for diff in self.diffs), sum(diff.removed for diff in self.diffs)
        return f"{counted(len(self.diffs), 'file')} (+{added} −{removed})"

    @property
    def diff(self) -> str:
        return "".join(diff.text for diff in self.diffs)


class ApplyPatchInput(ToolInput):
    """The input of ApplyPatch."""

    patch: Annotated[str, Meta(min_length=1, description="The whole unified diff.")]
    strip: (
        Annotated[
            int,
            Meta(ge=0, le=20, description="How many leading parts of the names to take off, as with patch -p."),
        ]
        | None
    ) = None
    allow_syntax_errors: AllowSyntaxErrors = False


def apply_patch_tool(state: FileState, cwd: Path) -> Tool:
    """ApplyPatch. `state` is the session's memory of files; relative names start at `cwd`."""

    async def preview(input: ApplyPatchInput) -> Preview:
        return await in_thread(lambda _: _preview(input, state, cwd))

    @tool(
        name="ApplyPatch",
        output=FilesOutput,
        description=DESCRIPTION,
        access=ToolAccess("patch", "patch"),
        category="files",
        best_for="changes of several files",
        limits=ToolLimits(seconds=60, file_bytes=EDITED_BYTES),
        examples=[
            {"patch": "--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,3 @@\n import sys\n+import os\n \n"},
            {
                "patch": "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n",
                "strip": 1,
            },
        ],
        title=lambda input: _title(input, cwd),
        preview=preview,
    )
    async def apply_patch(input: ApplyPatchInput) -> ToolResult:
        return await in_thread(lambda stopped: _apply(input, state, cwd, stopped))

    return apply_patch


def _title(input: ApplyPatchInput, cwd: Path) -> str:
    try:
        paths = paths_in_patch(input.patch, input.strip)
    except PatchProblem:
        return "Apply a patch"
    names = list(dict.fromkeys(name for name, _ in paths))
    first = shown_path(cwd, cwd / names[0])
    return f"Patch {first}" if len(names) == 1 else f"Patch {first} and {len(names) - 1} more"


def _apply(input: ApplyPatchInput, state: FileState, cwd: Path, stopped: Callable[[], bool]) -> ToolResult:
    result = _plan(input, state, cwd)
    if stopped():
        raise ToolError("Stopped before anything was written; all files are unchanged.", code=ErrorCode.INTERRUPTED)
    if not result.files:
        nothing = "All files are already as the patch would make them; nothing was written."
        return ToolResult(nothing, structured=FilesOutput(summary=nothing, files=()))
    _write(result.files, state)
    text = "\n".join([f"Patched {result.summary}:", *result.lines])
    return ToolResult(text, _display(result), structured=_output(result))


def _preview(input: ApplyPatchInput, state: FileState, cwd: Path) -> Preview:
    try:
        result = _plan(input, state, cwd)
    except ToolError as error:
        raise CannotBeDone(error, Preview(_title(input, cwd), input.patch, "diff"), _named(input, cwd)) from error
    notes = [f"{file.display_path}: {note}" for file in result.files for note in file.notes]
    named = _named(input, cwd)
    links = [f"{shown_path(cwd, path)} is a symbolic link to {path.resolve()}." for path in named if path.is_symlink()]
    first = result.files[0].path.as_posix() if result.files else ""
    title = f"{_title(input, cwd)}: {result.summary}"
    return Preview(title, result.diff, "diff", path=first, warning="\n".join([*links, *notes]))


def _named(input: ApplyPatchInput, cwd: Path) -> list[Path]:
    """The files that the patch names; none where it cannot be read."""
    try:
        paths = paths_in_patch(input.patch, input.strip)
    except PatchProblem:
        return []
    return list(dict.fromkeys(cwd / name for name, _ in paths))


def _plan(input: ApplyPatchInput, state: FileState, cwd: Path) -> _Result:
    files = plan_patch(input.patch, input.strip, cwd, state)
    moved = {id(file.origin) for file in files if file.origin is not None and file.origin.now is None}
    shown = [file for file in files if id(file) not in moved]
    diffs = [_diff(file) for file in shown]
    for file, diff in zip(shown, diffs, strict=True):
        if file.was != file.now and not diff.added + diff.removed and (file.was or file.now):
            file.notes.append("only line ends, or the byte order mark, are changed")
    notes = _checked(shown, allowed=input.allow_syntax_errors)
    lines = [_line(file, diff) + note for file, diff, note in zip(shown, diffs, notes, strict=True)]
    return _Result(files, diffs, lines)


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return decode(data)[0]
    except NotText:  # it may be renamed or given another mode; there is nothing to show of it
        return ""


def _diff(file: PatchedFile) -> Diff:
    diff = diff_texts(_text(file.was), _text(file.now), file.display_path)
    headers = []
    if file.now is None:
        # views show the second name of a file, and here it is /dev/null
        headers.append("deleted file mode 100644")
    if file.executable is not None and file.was is not None:
        headers.append(f"new mode {'100755' if file.executable else '100644'}")
    if file.origin is not None:
        word = "rename" if file.origin.now is None else "copy"
        headers += [f"{word} from {file.origin.display_path}", f"{word} to {file.display_path}"]
    if headers:
        name = file.origin.display_path if file.origin is not None else file.display_path
        headers.insert(0, f"diff --git a/{name} b/{file.display_path}")
    return replace(diff, header=[*headers, *diff.header])


def _checked(files: list[PatchedFile], *, allowed: bool) -> list[str]:
    """A note on each file's syntax. ToolError if the patch breaks any of them."""
    edited: dict[int, EditedFile] = {}
    for number, file in enumerate(files):
        before, after = _text(file.was), _text(file.now)
        if after is not None and after != before:
            edited[number] = EditedFile(file.path, before, after, file.display_path)
    notes = dict(zip(edited, check_all(list(edited.values()), allowed=allowed), strict=True))
    return [notes.get(number, "") for number in range(len(files))]


def _line(file: PatchedFile, diff: Diff) -> str:
    """One line for a file, and one for each of its notes."""
    if file.origin is not None:
        what = f"{'R' if file.origin.now is None else 'C'} {file.origin.display_path} → {file.display_path}"
    else:
        what = f"{'A' if file.before is None else 'D' if file.now is None else 'M'} {file.display_path}"
    mode = "" if file.executable is None else f", {'' if file.executable else 'not '}executable"
    notes = [*(file.origin.notes if file.origin is not None else []), *file.notes]
    return "\n".join([f"{what} ({diff.counts}{mode})", *(f"  {note}" for note in notes)])


def _write(files: list[PatchedFile], state: FileState) -> None:
    state.keeper.before_changes(
        [
            UpcomingChange(
                path=file.path,
                before=file.before,
                after=file.now,
                status=file.status,
                changes_mode=file.executable is not None,
            )
            for file in files
        ]
    )
    writes = [
        FileWrite(
            path=file.path,
            replacing=file.status,
            after=file.now,
            like=_like(file),
            executable=file.executable,
        )
        for file in files
    ]
    try:
        with file_errors("The patch was not applied, all files are unchanged"):
            statuses = write_together(writes)
    except FileChanged as error:
        changed = next(
            (file.display_path for file in files if error.args and file.path == error.args[0]), "A folder on the way"
        )
        raise ToolError(
            f"{changed} was changed by someone else just now; nothing was written. Read it again.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        ) from None
    state.keeper.after_changes([file.path for file in files])
    for file, status in zip(files, statuses, strict=True):
        if status is not None and file.now is not None:
            state.wrote(file.path, status, sha256(file.now), whole=file.known)


def _like(file: PatchedFile) -> tuple[Path, Any] | None:
    if file.origin is None or file.origin.status is None:
        return None
    return file.origin.path, file.origin.status


def _display(result: _Result) -> dict[str, Any]:
    """Build what views and hooks get: one diff of all files, and what became of each."""
    hashes = {file.display_path: sha256(file.before) for file in result.files if file.before is not None}
    files = [_file_display(file) for file in result.files]
    return {"diff": result.diff, "type": "patch", "files": files, **kept_originals(hashes)}


def _output(result: _Result) -> FilesOutput:
    return FilesOutput(summary=result.summary, files=tuple(map(_affected, result.files)))


def _affected(file: PatchedFile) -> AffectedFile:
    diff = diff_texts(_text(file.was), _text(file.now), file.display_path)
    return AffectedFile(path=file.path.as_posix(), type=_type(file), added=diff.added, removed=diff.removed)


def _type(file: PatchedFile) -> Literal["create", "update", "delete"]:
    return "create" if file.before is None else "delete" if file.now is None else "update"


def _file_display(file: PatchedFile) -> dict[str, Any]:
    return {
        "path": file.path.as_posix(),
        "type": _type(file),
        "before_sha256": None if file.before is None else sha256(file.before),
        "after_sha256": None if file.now is None else sha256(file.now),
        "structuredPatch": diff_texts(_text(file.before), _text(file.now), file.display_path).structured_patch(),
    }
