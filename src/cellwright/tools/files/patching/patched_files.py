"""Files that are changed together: what becomes of them is checked, shown as one diff, and written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import counted
from cellwright.tools.code.syntax_check import EditedFile, check_all
from cellwright.tools.files.atomic_write import FileWrite, write_together
from cellwright.tools.files.changes import AffectedFile, FilesOutput
from cellwright.tools.files.diff import Diff, diff_texts, prefixed
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.formats.encodings import NotText, decode
from cellwright.tools.files.originals import UpcomingChange, kept_originals, sha256
from cellwright.tools.files.patching.patch_plan import PatchedFile
from cellwright.tools.files.writing.open_folder import FileChanged
from cellwright.tools.paths import file_errors


class PatchedFiles(Struct, frozen=True):
    """Planned changes of several files, in words and pictures: `lines` for the model, `diff` for people."""

    files: Sequence[PatchedFile]
    diffs: Sequence[Diff]
    lines: Sequence[str]

    @property
    def summary(self) -> str:
        """`3 files (+10 −4)`"""
        added, removed = sum(diff.added for diff in self.diffs), sum(diff.removed for diff in self.diffs)
        return f"{counted(len(self.diffs), 'file')} (+{added} −{removed})"

    @property
    def diff(self) -> str:
        """One diff of all files."""
        return "".join(diff.text for diff in self.diffs)

    def write(self, state: FileState, stopped: Callable[[], bool]) -> None:
        """Write all files, unless `stopped()`, one of them changed meanwhile, or is open with unsaved changes."""
        if stopped():
            raise ToolError("Stopped before anything was written; all files are unchanged.", code=ErrorCode.INTERRUPTED)
        _check_saved(self.files, state)
        _write(self.files, state)

    def display(self) -> dict[str, Any]:
        """Build what views and hooks get: one diff of all files, and what became of each."""
        hashes = {file.display_path: sha256(file.before) for file in self.files if file.before is not None}
        files = [_file_display(file) for file in self.files]
        return {"diff": self.diff, "type": "patch", "files": files, **kept_originals(hashes)}

    def output(self) -> FilesOutput:
        """The changes for programs."""
        return FilesOutput(summary=self.summary, files=tuple(map(_affected, self.files)), edit_summary=self.summary)


def patched_files(files: Sequence[PatchedFile], *, allow_syntax_errors: bool) -> PatchedFiles:
    """The changes of these files, with their diffs. ToolError where one breaks a file's syntax."""
    moved = {id(file.origin) for file in files if file.origin is not None and file.origin.now is None}
    shown = [file for file in files if id(file) not in moved]
    diffs = [_diff(file) for file in shown]
    for file, diff in zip(shown, diffs, strict=True):
        if file.was != file.now and not diff.added + diff.removed and (file.was or file.now):
            file.notes.append("only line ends, or the byte order mark, are changed")
    notes = _checked(shown, allowed=allow_syntax_errors)
    lines = [_line(file, diff) + note for file, diff, note in zip(shown, diffs, notes, strict=True)]
    return PatchedFiles(files, diffs, lines)


def _check_saved(files: Sequence[PatchedFile], state: FileState) -> None:
    unsaved = [file.display_path for file in files if file.before is not None and state.is_unsaved(file.path)]
    if unsaved:
        names = " and ".join(unsaved)
        raise ToolError(
            f"{names} {'is' if len(unsaved) == 1 else 'are'} open in the user's editor with unsaved changes, which would be "
            "lost; nothing was written. Ask the user to save (then read it again) or to close it. Cells of an open "
            "notebook are changed with NotebookEdit.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        )


def _text(data: bytes | None, file: PatchedFile) -> str | None:
    if data is None:
        return None
    try:
        return decode(data, file.encoding)[0]
    except NotText:  # it may be renamed or given another mode; there is nothing to show of it
        return ""


def _diff(file: PatchedFile) -> Diff:
    diff = diff_texts(_text(file.was, file), _text(file.now, file), file.display_path)
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
        headers.insert(0, f"diff --git {prefixed('a/', name)} {prefixed('b/', file.display_path)}")
    return replace(diff, header=[*headers, *diff.header])


def _checked(files: Sequence[PatchedFile], *, allowed: bool) -> list[str]:
    """A note on each file's syntax. ToolError if the patch breaks any of them."""
    edited: dict[int, EditedFile] = {}
    for number, file in enumerate(files):
        before, after = _text(file.was, file), _text(file.now, file)
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


def _write(files: Sequence[PatchedFile], state: FileState) -> None:
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
        with file_errors("Nothing was written, all files are unchanged"):
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
            state.wrote(file.path, status, sha256(file.now), whole=file.known, encoding=file.encoding)


def _like(file: PatchedFile) -> tuple[Path, Any] | None:
    if file.origin is None or file.origin.status is None:
        return None
    return file.origin.path, file.origin.status


def _affected(file: PatchedFile) -> AffectedFile:
    diff = diff_texts(_text(file.was, file), _text(file.now, file), file.display_path)
    return AffectedFile(path=file.path.as_posix(), type=_type(file), added=diff.added, removed=diff.removed)


def _type(file: PatchedFile) -> Literal["create", "update", "delete"]:
    return "create" if file.before is None else "delete" if file.now is None else "update"


def _file_display(file: PatchedFile) -> dict[str, Any]:
    return {
        "path": file.path.as_posix(),
        "type": _type(file),
        "before_sha256": None if file.before is None else sha256(file.before),
        "after_sha256": None if file.now is None else sha256(file.now),
        "structuredPatch": diff_texts(
            _text(file.before, file), _text(file.now, file), file.display_path
        ).structured_patch(),
    }
