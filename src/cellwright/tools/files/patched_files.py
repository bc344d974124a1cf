"""Several files changed as one, by a patch or by a tool that works out what each becomes: checked, shown, written whole.

The outcome is worked out for all of the files before anything is written. A hunk is looked for at the place its header
names, then everywhere after the hunk before it: exactly as it stands, then without regard to line ends, to white space at
the ends of lines, and to indentation that is off by the same amount on every line. The first way that gives one place
wins; several places are refused, never guessed among.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError
from cellwright.permissions.patch_text import FilePatch, Hunk, PatchProblem, read_patch
from cellwright.text import counted
from cellwright.tools.code.syntax_check import EditedFile, check_all
from cellwright.tools.files.atomic_write import FileWrite, write_together
from cellwright.tools.files.changes import AffectedFile, Diff, FilesOutput, diff_texts, prefixed
from cellwright.tools.files.encodings import (
    UTF_8,
    Encoding,
    NotText,
    decode,
    encode,
    encode_changed,
    encoding_note,
)
from cellwright.tools.files.file_state import FileState, UpcomingChange, is_stale, kept_originals, sha256
from cellwright.tools.files.replace import (
    EDITED_BYTES,
    TOO_LARGE,
    check_editable_notebook,
    check_notebook,
    check_size,
    nearest_place,
)
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.files.text import main_line_end, read_bytes
from cellwright.tools.paths import file_errors, not_found, real_path, resolve_path, shown_path

EXACTLY, LINE_ENDS, TRAILING_SPACE, INDENTATION = range(4)
"""The differences that are overlooked, in this order."""

_KEYS: tuple[Callable[[str], str], ...] = (
    lambda line: line,
    lambda line: line[:-2] + "\n" if line.endswith("\r\n") else line,
    str.rstrip,
    str.strip,
)

_WORDS = ("", "", "white space at line ends differs", "indentation differs")


class HunkMisfit(Struct, frozen=True):
    """A hunk that could not be applied, and why. `searched` is the text it looked for."""

    number: int
    hunk: Hunk
    why: str
    searched: str


class AppliedPatch(Struct):
    """A text with the hunks that fit; `notes` say what was overlooked, `misfits` what did not fit."""

    text: str
    notes: list[str] = field(default_factory=list)
    misfits: list[HunkMisfit] = field(default_factory=list)


def apply_hunks(text: str, hunks: Sequence[Hunk], *, exact: bool) -> AppliedPatch:
    """`text` with `hunks` applied, one after the other.

    `exact`: nothing is overlooked but line ends, and each hunk must name a line that is there; its place may still differ.
    """
    lines = split_lines(text)
    result = AppliedPatch(text)
    done = moved = 0
    for number, hunk in enumerate(hunks, 1):
        expected = max(hunk.old_start - 1 if hunk.old else hunk.old_start, 0) + moved
        fit = _fit(lines, hunk, expected, done, LINE_ENDS if exact else INDENTATION) or _why_not(text, hunk)
        if isinstance(fit, str) or (exact and lines and not any(line.strip() for line in hunk.old)):
            why = fit if isinstance(fit, str) else "no line of it says what must be there. Read the file first"
            result.misfits.append(HunkMisfit(number, hunk, why, "".join(hunk.old)))
            # after so many hunks of a file that do not fit, the others are not looked for: each search goes through
            # the file
            if len(result.misfits) == 10:
                break
            continue
        start, level = fit
        new = _new_lines(lines, hunk, start, level)
        lines[start : start + len(hunk.old)] = new
        done = start + len(new) - _trailing_context(hunk)
        result.notes += _notes(number, hunk, level, start - expected, start)
        moved += start - expected + len(new) - len(hunk.old)
    result.text = "".join(lines)
    return result


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with its end; only LF ends a line."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _fit(lines: list[str], hunk: Hunk, expected: int, done: int, loosest: int) -> tuple[int, int] | str:
    """The line where the hunk fits, and what is overlooked; or why it does not fit, "" if it is nowhere."""
    old = hunk.old
    if not old:
        return _inserted(lines, hunk, expected, done)
    for level in range(loosest + 1):
        if level > LINE_ENDS and not any(line.strip() for line in old):
            break
        starts = _candidates(lines, old, level, expected, done, at_end=_ends_file(hunk))
        if len(starts) == 1:
            return starts[0], level
        if starts:
            numbers = ", ".join(str(start + 1) for start in starts)
            return f"it fits in several places (lines {numbers}, …). Give more lines of context"
    return ""


def _why_not(text: str, hunk: Hunk) -> str:
    """Explain why the lines of a hunk are nowhere after the hunk before it, judged by the text as it was."""
    lines = split_lines(text)
    if any(line.strip() for line in hunk.new) and _candidates(lines, hunk.new, EXACTLY, hunk.new_start - 1, 0):
        return "the lines it adds are already there; it may have been applied before"
    if _candidates(lines, hunk.old, EXACTLY, hunk.old_start - 1, 0):
        return "its lines are before those of the hunk before it. Put the hunks in the file's order"
    return "its lines are not in the file"


def _inserted(lines: list[str], hunk: Hunk, expected: int, done: int) -> tuple[int, int] | str:
    """The place of a hunk that only adds, without a line around it: where its header says."""
    if not done <= expected <= len(lines):
        return f"the file has only {len(lines)} lines"
    joins = expected and not lines[expected - 1].endswith("\n")
    if joins or (expected < len(lines) and _ends_file(hunk)):
        return "it does not fit the newline at the end of the file"
    return expected, EXACTLY


def _ends_file(hunk: Hunk) -> bool:
    """Return whether the hunk takes the newline at the end of the file away: then it fits nowhere else."""
    return bool(hunk.new) and not hunk.new[-1].endswith("\n") and (not hunk.old or hunk.old[-1].endswith("\n"))


def _candidates(
    lines: list[str], old: list[str], level: int, expected: int, done: int, *, at_end: bool = False
) -> list[int]:
    """Find where `old` is: the expected place alone if it is there, else at most two others from line `done` on."""
    key = _KEYS[level]
    wanted = [key(line) for line in old]
    found: list[int] = []

    def fits(start: int) -> bool:
        here = lines[start : start + len(wanted)]
        if at_end and start + len(wanted) != len(lines):
            return False
        if [key(line) for line in here] != wanted:
            return False
        return level != INDENTATION or _shift(here, old) is not None

    if done <= expected and fits(expected):
        return [expected]
    where: dict[str, list[int]] = defaultdict(list)
    rare = set(wanted)
    for number, line in enumerate(lines):
        if (line_key := key(line)) in rare:
            where[line_key].append(number)
    # the line that is there least often leaves the fewest places to look at
    anchor = min(range(len(wanted)), key=lambda number: len(where[wanted[number]]))
    for number in where[wanted[anchor]]:
        if number - anchor >= done and fits(number - anchor):
            found.append(number - anchor)
            if len(found) == 2:
                break
    return found


def _shift(here: Sequence[str], old: Sequence[str]) -> tuple[str, str] | None:
    """Return the indentation to take from and put before each line to turn `old` into `here`; None if they differ."""
    shifts = set()
    for there, line in zip(here, old, strict=True):
        if line.strip():
            is_, was = _indentation(there), _indentation(line)
            longer, shorter = (is_, was) if len(is_) >= len(was) else (was, is_)
            if not longer.startswith(shorter):
                return None
            extra = longer[len(shorter) :]
            shifts.add(("", extra) if longer is is_ else (extra, ""))
    return shifts.pop() if len(shifts) == 1 else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _new_lines(lines: list[str], hunk: Hunk, start: int, level: int) -> list[str]:
    """Return what stands in the hunk's place then: the file's own lines where it keeps them."""
    if level == EXACTLY:
        return hunk.new
    here = lines[start : start + len(hunk.old)]
    take, put = (_shift(here, hunk.old) or ("", "")) if level == INDENTATION else ("", "")
    keeps_cr = any(line.endswith("\r\n") for _, line in hunk.lines)
    new: list[str] = []
    at = 0
    for mark, line in hunk.lines:
        if mark != "+":
            if mark == " ":
                new.append(here[at])
            at += 1
            continue
        if line.strip():
            line = put + line.removeprefix(take)
        if not keeps_cr and line.endswith("\n") and _crlf_near(lines, start + at):
            line = line[:-1] + "\r\n"
        new.append(line)
    return _ended_as_before(new, hunk, here, "".join(lines))


def _crlf_near(lines: list[str], at: int) -> bool:
    """Return whether the line before `at` ends in CRLF; at the start of the text, the one that is there."""
    near = lines[at - 1] if at else lines[0] if lines else ""
    return near.endswith("\r\n")


def _ended_as_before(new: list[str], hunk: Hunk, here: list[str], text: str) -> list[str]:
    """`new` with the line end that the file has at its end, where the hunk says nothing of it."""
    if not new or not here:
        return new
    end = main_line_end(text)
    whole = [line if line.endswith("\n") else line + end for line in new[:-1]] + new[-1:]
    hunk_keeps_it = hunk.old[-1].endswith("\n") == hunk.new[-1].endswith("\n")
    if hunk_keeps_it and not here[-1].endswith("\n"):
        whole[-1] = whole[-1].removesuffix("\n").removesuffix("\r")
    elif hunk_keeps_it and not whole[-1].endswith("\n"):
        whole[-1] += end
    return whole


def _trailing_context(hunk: Hunk) -> int:
    count = 0
    for mark, _ in reversed(hunk.lines):
        if mark != " ":
            break
        count += 1
    return count


def _notes(number: int, hunk: Hunk, level: int, offset: int, start: int) -> list[str]:
    found = []
    if offset:
        found.append(f"at line {start + 1}, {abs(offset)} {'after' if offset > 0 else 'before'} its place")
    if level >= TRAILING_SPACE:
        found.append(f"fuzzy: {_WORDS[level]}")
    if hunk.recounted:
        found.append("the counts in its header were wrong")
    return [f"hunk {number}: {'; '.join(found)}"] if found else []


PROBLEMS_NAMED = 10
TOGETHER_BYTES = 50 * 2**20
"""The size that all files of a patch may have together: they are in memory at once."""

_NO_FILES = {"120000": "a symbolic link", "160000": "a submodule"}
_BOM = "\ufeff"


class PatchedFile(Struct):
    """A file on its way through the patch: what is on disk, and what it is by now (`None`: there is no file).

    `fresh`: the model has read it as it is; then white space may differ. `known`: it has read all of it. `origin` is the
    file that this one was renamed or copied from. `encoding` is that of its text, once that was looked at.
    """

    path: Path
    display_path: str
    status: os.stat_result | None = None
    before: bytes | None = None
    now: bytes | None = None
    fresh: bool = True
    known: bool = True
    executable: bool | None = None
    origin: PatchedFile | None = None
    encoding: Encoding | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def touched(self) -> bool:
        """True when the patch leaves it otherwise than it was."""
        return self.now != self.before or self.executable is not None

    @property
    def was(self) -> bytes | None:
        """The content that it held before, also where it had another name then."""
        return self.origin.before if self.origin is not None and self.before is None else self.before


class _Plan(Struct):
    cwd: Path
    state: FileState
    files: dict[Path, PatchedFile] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    held: int = 0
    """Bytes of all files so far."""

    def file(self, name: str) -> PatchedFile:
        """The file of that name, as the patch has left it so far."""
        path = resolve_path(self.cwd, name)
        display_path = shown_path(self.cwd, path)
        real = real_path(path)
        if real not in self.files:
            with file_errors(display_path):
                self.files[real] = file_on_disk(real, display_path, self.state)
            self.held += len(self.files[real].before or b"")
            if self.held > TOGETHER_BYTES:
                raise ToolError(f"The files of the patch hold more than {TOGETHER_BYTES // 2**20} MB. Split it.")
        return self.files[real]


def plan_patch(patch: str, strip: int | None, cwd: Path, state: FileState) -> list[PatchedFile]:
    """All files that the patch would change. ToolError that names what does not fit, in any of them."""
    try:
        files = read_patch(patch, strip)
    except PatchProblem as problem:
        raise ToolError(f"{problem} Nothing was applied.", code=ErrorCode.INVALID_PARAMETERS) from problem
    plan = _Plan(cwd, state)
    for file in files:
        try:
            _apply(plan, file)
        except ToolError as error:
            plan.problems.append(error.message)
    if plan.problems:
        raise _refusal(plan.problems)
    return [file for file in plan.files.values() if file.touched]


def _refusal(problems: list[str]) -> ToolError:
    more = len(problems) - PROBLEMS_NAMED
    listed = "\n".join(f"- {problem}" for problem in problems[:PROBLEMS_NAMED])
    return ToolError(
        f"The patch does not fit, so nothing of it was applied:\n{listed}"
        + (f"\n- and {more} more" if more > 0 else ""),
        code=ErrorCode.INVALID_PARAMETERS,
        details={"problems": problems[:PROBLEMS_NAMED]},
    )


def file_on_disk(real: Path, display_path: str, state: FileState) -> PatchedFile:
    """A file as it is, before anything is done to it."""
    if not real.exists():
        return PatchedFile(real, display_path)
    data, status = read_bytes(real, display_path, EDITED_BYTES, TOO_LARGE)
    seen = state.get(real)
    fresh = seen is not None and not is_stale(seen, status, sha256(data))
    known = fresh and seen is not None and seen.whole
    encoding = seen.encoding if fresh and seen is not None else None
    return PatchedFile(real, display_path, status, data, data, fresh, known, encoding=encoding)


def _apply(plan: _Plan, file: FilePatch) -> None:
    for mode in (file.old_mode, file.new_mode):
        if mode in _NO_FILES:
            raise ToolError(f"{file.new or file.old} is {_NO_FILES[mode]}: that cannot be patched here.")
    if file.old is None:
        target = _absent(plan, file.new or "")
        if any(hunk.old for hunk in file.hunks):
            raise ToolError(f"{file.new} is to be created, but the patch expects lines in it.")
        content = "".join(line for hunk in file.hunks for line in hunk.new)
        target.now, target.encoding = encode(content, UTF_8, target.display_path), UTF_8
        target.fresh = target.known = True
    else:
        target = _from(plan, file, plan.file(file.old))
    if target.path.suffix.lower() == ".ipynb" and target.now is not None and target.now != target.was:
        check_notebook(decode(target.now)[0], target.display_path)
    if target.now is not None:
        check_size(len(target.now), EDITED_BYTES, target.display_path)
    if file.new_mode is not None and file.new_mode != file.old_mode and target.now is not None:
        target.executable = file.new_mode == "100755"


def _from(plan: _Plan, file: FilePatch, source: PatchedFile) -> PatchedFile:
    """Apply what starts from an existing file."""
    # a copy is made of what was there before the patch, as git has it
    data = source.before if file.action == "copy" and source.before is not None else source.now
    if data is None:
        raise not_found(source.path, source.display_path)
    if file.action in ("rename", "delete") and resolve_path(plan.cwd, file.old or "").is_symlink():
        raise ToolError(f"{source.display_path} is a symbolic link: change the file it leads to, {source.path}.")
    after = _patched(plan, source, data, file.hunks)
    if file.action == "edit":
        source.now = after
        return source
    if file.action == "delete":
        if after:
            raise ToolError(f"{source.display_path} is to be deleted, but the patch does not have all of its lines.")
        source.now = None
        return source
    target = _absent(plan, file.new or "")
    target.now, target.fresh, target.known, target.encoding = after, source.fresh, source.known, source.encoding
    target.origin = source
    if file.action == "rename":
        source.now = None
    return target


def _absent(plan: _Plan, name: str) -> PatchedFile:
    target = plan.file(name)
    if target.now is not None:
        raise ToolError(f"{target.display_path} is to be created, but it exists already.")
    return target


def _patched(plan: _Plan, file: PatchedFile, data: bytes, hunks: tuple[Hunk, ...]) -> bytes:
    """Return the file's content after the hunks. Those that do not fit are added to the plan's problems."""
    if not hunks:
        return data
    try:
        text, encoding = _decoded(data, hunks, file.encoding)
    except NotText:
        raise ToolError(f"{file.display_path} is binary data, not text. {TOO_LARGE}") from None
    check_editable_notebook(file.path, file.display_path, text)
    applied = apply_hunks(text, hunks, exact=not file.fresh)
    plan.problems += [_words(file, misfit, text) for misfit in applied.misfits]
    file.notes += applied.notes
    file.encoding = encoding
    if note := encoding_note(encoding, file.display_path):
        file.notes.append(note.strip())
    return encode_changed(data, text, applied.text, encoding, file.display_path)


def _decoded(data: bytes, hunks: tuple[Hunk, ...], known: Encoding | None) -> tuple[str, Encoding]:
    marked = any(line.startswith(_BOM) for hunk in hunks for _, line in hunk.lines)
    text, encoding = decode(data, known)
    # git shows the byte order mark as a part of the first line, Read does not show it at all
    if marked and encoding.name == "utf-8":
        return data.decode(), UTF_8
    return text, encoding


def _words(file: PatchedFile, misfit: HunkMisfit, text: str) -> str:
    where = f"{file.display_path}, hunk {misfit.number} (line {misfit.hunk.at} of the patch): {misfit.why}."
    if not file.fresh:
        # what is there now was not shown to the model, and is not told to it by the way
        return f"{where} It was not read as it is now: read it, then white space may differ too."
    hint = (
        nearest_place(text.replace("\r\n", "\n"), misfit.searched, "the hunk")
        if "not in the file" in misfit.why
        else ""
    )
    return f"{where} {hint}".rstrip()


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
        files = []
        for file in self.files:
            diff = diff_texts(_text(file.was, file), _text(file.now, file), file.display_path)
            path, kind = file.path.as_posix(), _type(file)
            files.append(AffectedFile(path=path, type=kind, added=diff.added, removed=diff.removed))
        return FilesOutput(summary=self.summary, files=tuple(files), edit_summary=self.summary)


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
