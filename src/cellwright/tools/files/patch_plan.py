"""What a patch would make of the files it names: worked out for all of them before anything is written."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.permissions.patch_names import PatchProblem
from cellwright.permissions.patch_text import FilePatch, Hunk, read_patch
from cellwright.tools.files.file_state import FileState, is_stale
from cellwright.tools.files.formats.text import UTF_8, Encoding, NotText, decode, encode, read_bytes
from cellwright.tools.files.nearest import nearest_place
from cellwright.tools.files.originals import sha256
from cellwright.tools.files.replace import EDITED_BYTES, TOO_LARGE, check_editable_notebook, check_notebook
from cellwright.tools.patch_matching import Misfit, apply_hunks
from cellwright.tools.paths import file_errors, not_found, real_path, resolve_path, shown_path

PROBLEMS_NAMED = 10
TOGETHER_BYTES = 50 * 2**20
"""What all files of a patch may hold together: they are in memory at once."""

_NO_FILES = {"120000": "a symbolic link", "160000": "a submodule"}
_BOM = "\ufeff"


@dataclass(slots=True)
class PatchedFile:
    """A file on its way through the patch: what is on disk, and what it is by now (`None`: there is no file).

    `fresh`: the model has read it as it is; then white space may differ. `known`: it has read all of it. `origin` is the
    file that this one was renamed or copied from.
    """

    path: Path
    shown: str
    status: os.stat_result | None = None
    before: bytes | None = None
    now: bytes | None = None
    fresh: bool = True
    known: bool = True
    executable: bool | None = None
    origin: PatchedFile | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def touched(self) -> bool:
        """Whether the patch leaves it otherwise than it was."""
        return self.now != self.before or self.executable is not None

    @property
    def was(self) -> bytes | None:
        """What it held before, also where it had another name then."""
        return self.origin.before if self.origin is not None and self.before is None else self.before


@dataclass(slots=True)
class _Plan:
    cwd: Path
    state: FileState
    files: dict[Path, PatchedFile] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    held: int = 0
    """Bytes of all files so far."""

    def file(self, name: str) -> PatchedFile:
        """The file of that name, as the patch has left it so far."""
        path = resolve_path(self.cwd, name)
        shown = shown_path(self.cwd, path)
        real = real_path(path)
        if real not in self.files:
            with file_errors(shown):
                self.files[real] = _on_disk(real, shown, self.state)
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


def _on_disk(real: Path, shown: str, state: FileState) -> PatchedFile:
    if not real.exists():
        return PatchedFile(real, shown)
    data, status = read_bytes(real, shown, EDITED_BYTES, TOO_LARGE)
    seen = state.get(real)
    fresh = seen is not None and not is_stale(seen, status, sha256(data))
    return PatchedFile(real, shown, status, data, data, fresh, fresh and seen is not None and seen.whole)


def _apply(plan: _Plan, file: FilePatch) -> None:
    for mode in (file.old_mode, file.new_mode):
        if mode in _NO_FILES:
            raise ToolError(f"{file.new or file.old} is {_NO_FILES[mode]}: that cannot be patched here.")
    if file.old is None:
        target = _absent(plan, file.new or "")
        target.now = encode(_content(file), UTF_8, target.shown)
        target.fresh = target.known = True
    else:
        target = _from(plan, file, plan.file(file.old))
    if target.path.suffix.lower() == ".ipynb" and target.now is not None and target.now != target.was:
        check_notebook(decode(target.now)[0], target.shown)
    if file.new_mode is not None and file.new_mode != file.old_mode and target.now is not None:
        target.executable = file.new_mode == "100755"


def _from(plan: _Plan, file: FilePatch, source: PatchedFile) -> PatchedFile:
    """Apply what starts from an existing file."""
    # a copy is made of what was there before the patch, as git has it
    data = source.before if file.action == "copy" and source.before is not None else source.now
    if data is None:
        raise not_found(source.path, source.shown)
    if file.action in ("rename", "delete") and resolve_path(plan.cwd, file.old or "").is_symlink():
        raise ToolError(f"{source.shown} is a symbolic link: change the file it leads to, {source.path}.")
    after = _patched(plan, source, data, file.hunks)
    if file.action == "edit":
        source.now = after
        return source
    if file.action == "delete":
        if after:
            raise ToolError(f"{source.shown} is to be deleted, but the patch does not have all of its lines.")
        source.now = None
        return source
    target = _absent(plan, file.new or "")
    target.now, target.fresh, target.known = after, source.fresh, source.known
    target.origin = source
    if file.action == "rename":
        source.now = None
    return target


def _absent(plan: _Plan, name: str) -> PatchedFile:
    target = plan.file(name)
    if target.now is not None:
        raise ToolError(f"{target.shown} is to be created, but it exists already.")
    return target


def _content(file: FilePatch) -> str:
    lines = [line for hunk in file.hunks for line in hunk.new]
    if any(hunk.old for hunk in file.hunks):
        raise ToolError(f"{file.new} is to be created, but the patch expects lines in it.")
    return "".join(lines)


def _patched(plan: _Plan, file: PatchedFile, data: bytes, hunks: tuple[Hunk, ...]) -> bytes:
    """What the file holds after the hunks. Those that do not fit are added to the plan's problems."""
    if not hunks:
        return data
    try:
        text, encoding = _decoded(data, hunks)
    except NotText:
        raise ToolError(f"{file.shown} is binary data, not text. {TOO_LARGE}") from None
    check_editable_notebook(file.path, file.shown, text)
    applied = apply_hunks(text, hunks, exact=not file.fresh)
    plan.problems += [_words(file, misfit, text) for misfit in applied.misfits]
    file.notes += applied.notes
    return encode(applied.text, encoding, file.shown)


def _decoded(data: bytes, hunks: tuple[Hunk, ...]) -> tuple[str, Encoding]:
    marked = any(line.startswith(_BOM) for hunk in hunks for _, line in hunk.lines)
    text, encoding = decode(data)
    # git shows the byte order mark as a part of the first line, Read does not show it at all
    if marked and encoding.name == "utf-8":
        return data.decode(), UTF_8
    return text, encoding


def _words(file: PatchedFile, misfit: Misfit, text: str) -> str:
    where = f"{file.shown}, hunk {misfit.number} (line {misfit.hunk.at} of the patch): {misfit.why}."
    if not file.fresh:
        # what is there now was not shown to the model, and is not told to it by the way
        return f"{where} It was not read as it is now: read it, then white space may differ too."
    hint = (
        nearest_place(text.replace("\r\n", "\n"), misfit.wanted, "the hunk") if "not in the file" in misfit.why else ""
    )
    return f"{where} {hint}".rstrip()
