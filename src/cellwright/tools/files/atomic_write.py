"""Atomic writes: one file is either the old one or the new one, several are changed all or none, also by `kill -9`.

What is to be is written down first (`sessions/file_changes.py`). All new contents are safely on disk before the first file
is touched: a full disk shows there. Then only names change; of several files the old contents are kept until the last is
done, so that what was done can be undone, by us or by who finds the record (`recovery.py`). A file with other
names (hard links) is written into, since a change of names would part them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct, field

from cellwright.errors import ErrorCode, ToolError
from cellwright.sessions.file_changes import ChangeOutcome, ChangeRecord, FileToChange, begin_change
from cellwright.tools.files.recovery import keep_copy, keep_file, put_back, recover_changes, write_into
from cellwright.tools.files.staged_file import (
    FileChanged,
    Like,
    OpenFolder,
    StagedFile,
    StagingPlace,
    check_unchanged,
    check_writable,
    opened,
    stage,
    sync,
)

UNNAMED_FILES = 64
"""The number of files that may be open at once without a name."""


def write_atomically(path: Path, data: bytes, *, replacing: os.stat_result | None) -> os.stat_result:
    """Make `path` hold `data`; gives the new file's status. Nothing is left behind on failure.

    `replacing` is the status of the file that `data` was made from, None for a new file (its missing folders are made);
    `FileChanged` is raised when that is not what is there. Mode, owner, access lists and other extended attributes are
    kept. `path` is a real path: a symbolic link in it, put there since it was looked up, raises `FileChanged` too.
    """
    [status] = write_together([FileWrite(path=path.absolute(), replacing=replacing, after=data)])
    assert status is not None, "it was not to be deleted"
    return status


class FileWrite(Struct, frozen=True, kw_only=True):
    """One file to be written (`after`), or deleted (None).

    `replacing` is the status of the file that is there, None if there is none. The new file is as the file `like`, by
    default the one it replaces; `executable` then sets or clears the right to execute it, `mode` sets all permission bits.
    """

    path: Path
    replacing: os.stat_result | None
    after: bytes | None
    like: Like | None = None
    executable: bool | None = None
    mode: int | None = None

    @property
    def in_place(self) -> bool:
        """True when it is written into, because the file has other names."""
        return self.after is not None and self.replacing is not None and self.replacing.st_nlink > 1


class NotTakenBack(ToolError):
    """Writing failed when some files were written, and these could not be made again what they were."""


class _Step(Struct):
    """A write on its way: `new` is its staged content, `old` where what it replaces is kept."""

    write: FileWrite
    folder: OpenFolder
    place: StagingPlace
    new: StagedFile | None = None
    old: Path | None = None
    status: os.stat_result | None = None
    done: bool = False

    @property
    def name(self) -> str:
        return self.folder.entry(self.write.path.name)


class _Folders(Struct):
    """The folders of the files, each held open once."""

    stack: ExitStack
    open: dict[Path, OpenFolder] = field(default_factory=dict)

    def of(self, path: Path, *, make: bool) -> OpenFolder:
        if path.parent not in self.open:
            self.open[path.parent] = self.stack.enter_context(opened(path.parent, make=make))
        return self.open[path.parent]


def write_together(writes: Sequence[FileWrite], *, what: str = "") -> list[os.stat_result | None]:
    """Write all files, or leave all as they are. Gives the status of each new file, None for a deleted one.

    `what` names the change, as the beginning of a sentence, to who has to end it after a kill.
    Raises FileChanged, with the path, when a file is not the one that its new content was made from; OSError and ToolError
    when it cannot be written. Paths are real paths, each at most once.
    """
    recover_changes()
    record = _begun(writes, what)
    try:
        statuses = _write(writes, record)
    except NotTakenBack:
        if record is not None:
            record.leave()
        raise
    except BaseException:
        if record is not None:
            record.end(None)
        raise
    if record is not None:
        record.end(ChangeOutcome(made=tuple(write.path for write in writes)))
    return statuses


def _begun(writes: Sequence[FileWrite], what: str) -> ChangeRecord | None:
    """The record of the writes; None where none can be kept: then they are made without."""
    with suppress(OSError):
        return begin_change([_to_change(write) for write in writes], what)
    return None


def _to_change(write: FileWrite) -> FileToChange:
    before = None
    if write.replacing is not None:
        with suppress(OSError), write.path.open("rb") as file:
            before = hashlib.file_digest(file, "sha256").hexdigest()
    folders = tuple(folder for folder in write.path.parents if not folder.exists()) if write.replacing is None else ()
    after = None if write.after is None else hashlib.sha256(write.after).hexdigest()
    return FileToChange(write.path, before, after, write.in_place, folders)


def _write(writes: Sequence[FileWrite], record: ChangeRecord | None) -> list[os.stat_result | None]:
    with ExitStack() as stack:
        folders = _Folders(stack)
        steps = [
            _Step(write, folders.of(write.path, make=write.after is not None), _place(record, number, len(writes)))
            for number, write in enumerate(writes)
        ]
        # of one file whose name changes there is nothing to be undone
        several = len(writes) > 1 or any(write.in_place for write in writes)
        try:
            for number, step in enumerate(steps):
                _prepare(step)
                if several and record is not None:
                    _keep(step, record, number)
            for step in steps:
                _check(step)
            if several and record is not None:
                record.sync()
            for step in steps:
                _put(step)
        except BaseException as error:
            _undo(steps, error)
            raise
        for folder in folders.open.values():
            sync(folder)
        return [step.status for step in steps]


def _place(record: ChangeRecord | None, number: int, count: int) -> StagingPlace:
    """The names that the new content of a file may have on its way."""
    if record is None:
        return StagingPlace(beside=f".cellwright-{secrets.token_hex(6)}.tmp", hidden=None)
    hidden, beside = record.new_content(number), record.beside(number)
    return StagingPlace(beside=beside, hidden=hidden, unnamed=count <= UNNAMED_FILES)


def _prepare(step: _Step) -> None:
    write = step.write
    if write.replacing is not None:
        check_writable(step.folder, write.path)
    if write.after is None:
        return
    like = write.like or (None if write.replacing is None else (write.path, write.replacing))
    step.new = stage(step.folder, write.after, step.place, like=like, mode=write.mode, executable=write.executable)


def _keep(step: _Step, record: ChangeRecord, number: int) -> None:
    """Keep what whoever recovers the change needs: the new content, and the old one."""
    write, hidden = step.write, record.new_content(number)
    if write.after is not None and step.new is not None and step.new.hidden is None:
        keep_copy(write.after, hidden, step.new.status)
    if write.replacing is not None:
        step.old = record.old_content(number)
        keep_file(step.folder, step.name, step.old, write.replacing, copy=write.in_place)


def _check(step: _Step) -> None:
    try:
        check_unchanged(step.folder, step.name, step.write.replacing)
    except FileChanged:
        raise FileChanged(step.write.path) from None


def _is_unchanged(step: _Step) -> bool:
    with suppress(FileChanged):
        check_unchanged(step.folder, step.name, step.write.replacing)
        return True
    return False


def _put(step: _Step) -> None:
    """Give the new file its name, or take the old one's away."""
    _check(step)
    write = step.write
    if step.new is None or write.after is None:
        os.unlink(step.name, dir_fd=step.folder.descriptor)
    elif write.in_place:
        step.done = True  # from the first byte on there is something to be undone
        step.status = write_into(step.folder, step.name, write.after, step.new.status)
        step.new.discard()
    else:
        try:
            step.new.put(step.name, write.replacing)
        except FileChanged:
            raise FileChanged(write.path) from None
        step.status = step.new.status
    step.done = True


def _undo(steps: Sequence[_Step], cause: BaseException) -> None:
    lost: list[str] = []
    for step in reversed(steps):
        if step.new is not None:
            step.new.discard()
        if not step.done or (step.write.in_place and _is_unchanged(step)):
            continue
        try:
            if step.old is not None:
                put_back(step.folder, step.name, step.old, in_place=step.write.in_place, beside=step.place.beside)
            elif step.write.replacing is None:
                os.unlink(step.name, dir_fd=step.folder.descriptor)
            else:
                raise OSError("its contents could not be kept")
        except OSError as error:
            lost.append(f"{step.write.path} ({error})")
    if lost:
        raise NotTakenBack(
            f"Writing failed ({cause}), and so did restoring the files written before: {', '.join(lost)}. The other "
            "files are unchanged. Restoring is tried again before the next change of a file.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        ) from cause
