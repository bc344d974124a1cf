"""Atomic writes: one file is either the old one or the new one, several are changed all or none, also by `kill -9`.

What is to be is written down first (`sessions/file_changes.py`). All new contents are safely on disk before the first file
is touched: a full disk shows there. Then only names change; of several files the old contents are kept until the last is
done, so that what was done can be undone, by us or by who finds the record. A file with other names (hard links) is
written into, since a change of names would part them.

Changes that a process began and could not end, because it was killed, are ended by a later one: all of their files are
made new, or old. A file that holds neither was changed by somebody else since: then each is left as it is, and the outcome
says so.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import shutil
import stat
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from cellwright.errors import ErrorCode, ToolError
from cellwright.sessions.file_changes import ChangeOutcome, ChangeRecord, FileToChange, begin_change, unfinished_changes
from cellwright.tools.files.staged_file import (
    FileChanged,
    Like,
    OpenFolder,
    StagedFile,
    StagingPlace,
    check_unchanged,
    check_writable,
    copy_attributes,
    opened,
    stage,
    sync,
    write_all,
)

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_INTO = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

logger = logging.getLogger(__name__)

Held = Literal["new", "old", "either", "torn", "other"]
"""The content of a file of a change: new, old, or, written into, a beginning of the new and the rest of the old."""


def keep_copy(data: bytes, kept: Path, status: os.stat_result) -> None:
    """Keep `data` at `kept`, safely on disk, with the permission bits of `status`."""
    descriptor = os.open(kept, _NEW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    kept.chmod(stat.S_IMODE(status.st_mode))


def keep_file(folder: OpenFolder, name: str, kept: Path, status: os.stat_result, *, copy: bool) -> None:
    """Keep what a file holds at `kept`: as another name of it, or as a `copy`, for one that is written into."""
    here = folder.descriptor
    if not copy:
        try:
            os.link(name, kept, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
        except (OSError, NotImplementedError):
            pass  # another disk, or one without hard links, or not our file
        else:
            return
    with os.fdopen(os.open(name, _INTO & ~os.O_RDWR, dir_fd=here), "rb") as source:
        descriptor = os.open(kept, _NEW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(source, file, 2**20)
            file.flush()
            copy_attributes(folder.path / name, descriptor, status)
            os.fsync(descriptor)


def put_back(folder: OpenFolder, name: str, kept: Path, *, in_place: bool, beside: str) -> None:
    """Make a file what is kept at `kept`, which is then there no more. The file may be gone."""
    here = folder.descriptor
    if in_place:
        write_into(folder, name, kept.read_bytes(), kept.stat())
        kept.unlink()
        return
    try:
        os.replace(kept, name, dst_dir_fd=here)
    except OSError:
        pass  # another disk
    else:
        # two names of one file: then renaming does nothing
        kept.unlink(missing_ok=True)
        return
    staged = stage(folder, kept.read_bytes(), StagingPlace(beside=beside, hidden=None), like=(kept, kept.stat()))
    try:
        try:
            now = os.stat(name, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        staged.put(name, now)
    finally:
        staged.discard()
    kept.unlink()


def write_into(folder: OpenFolder, name: str, data: bytes, like: os.stat_result) -> os.stat_result:
    """Make a file hold `data`, and have the permission bits of `like`, without giving its name to another file."""
    descriptor = os.open(name, _INTO, dir_fd=folder.descriptor)
    try:
        # from the first byte on, and cut to length at the end: a kill leaves a beginning of the new and the rest of the old
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        if hasattr(os, "fchmod") and stat.S_IMODE(os.fstat(descriptor).st_mode) != stat.S_IMODE(like.st_mode):
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def recover_changes() -> list[ChangeOutcome]:
    """End what was cut off; gives what came of each change. Never raises: what cannot be done now waits for the next."""
    done: list[ChangeOutcome] = []
    for record in unfinished_changes():
        try:
            outcome = _recovered(record)
        except (OSError, FileChanged) as error:
            logger.info("a change that was cut off cannot be ended yet: %s", error)
            record.leave()
            continue
        # whether somebody who did not see the change begin finds something else than before
        record.end(
            outcome if record.files else None,
            recovered=bool(outcome.made or outcome.unclear or len(outcome.unchanged) > 1),
        )
        done.append(outcome)
    return done


def _recovered(record: ChangeRecord) -> ChangeOutcome:
    for file in record.files:
        if file.before is not None and not file.path.parent.is_dir():
            # on a disk that is not mounted, or in another container
            raise FileNotFoundError(errno.ENOENT, "its folder is not there", str(file.path))
    for number, file in enumerate(record.files):
        with suppress(OSError):
            (file.path.parent / record.beside(number)).unlink()
    held = [_held(record, number, file) for number, file in enumerate(record.files)]
    if "other" not in held and not _all(held, "new") and not _all(held, "old"):
        goal = _goal(record, held)
        for number, file in enumerate(record.files):
            if held[number] not in (goal, "either"):
                _make(record, number, file, goal)
        held = [goal] * len(held)
    if _all(held, "old"):
        # the folders that were made for files that did not come to be
        made = {folder for file in record.files for folder in file.folders}
        for folder in sorted(made, key=lambda path: -len(path.parts)):
            with suppress(OSError):  # not made, or somebody has put something in it
                folder.rmdir()

    def those(*which: Held) -> tuple[Path, ...]:
        return tuple(file.path for file, each in zip(record.files, held, strict=True) if each in which)

    return ChangeOutcome(made=those("new", "either"), unchanged=those("old"), unclear=those("other", "torn"))


def _all(held: Sequence[Held], which: Held) -> bool:
    return all(each in (which, "either") for each in held)


def _goal(record: ChangeRecord, held: Sequence[Held]) -> Literal["new", "old"]:
    """Forward if every new content that is missing is there, else back."""
    for number, file in enumerate(record.files):
        missing = held[number] in ("old", "torn") and file.after is not None
        if missing and _sha256(record.new_content(number)) != file.after:
            return "old"
    return "new"


def _held(record: ChangeRecord, number: int, file: FileToChange) -> Held:
    now = _sha256(file.path)
    if file.before == file.after:
        return _by_mode(record, number, file) if now == file.before else "other"
    if now == file.after:
        return "new"
    if now == file.before:
        return "old"
    return "torn" if file.in_place and _is_torn(record, number, file) else "other"


def _by_mode(record: ChangeRecord, number: int, file: FileToChange) -> Held:
    """Tell by its permission bits what became of a file whose content stays."""
    try:
        wanted = record.new_content(number).stat().st_mode
    except OSError:
        return "either"  # it has its place, or was not made yet
    return "new" if wanted == file.path.stat().st_mode else "old"


def _is_torn(record: ChangeRecord, number: int, file: FileToChange) -> bool:
    """Return whether it holds a beginning of the new content and then what it held, or both, not cut to length yet."""
    try:
        new, old = record.new_content(number).read_bytes(), record.old_content(number).read_bytes()
        now = file.path.read_bytes()
    except OSError:
        return False
    if hashlib.sha256(new).hexdigest() != file.after or hashlib.sha256(old).hexdigest() != file.before:
        return False
    written = _common_length(now, new)
    return len(now) <= max(len(new), len(old)) and now[written:] == old[written:]


def _common_length(one: bytes, other: bytes) -> int:
    """The length of what both begin with."""
    views = memoryview(one), memoryview(other)
    return bisect_left(
        range(min(len(one), len(other))), 1, key=lambda length: views[0][: length + 1] != views[1][: length + 1]
    )


def _make(record: ChangeRecord, number: int, file: FileToChange, goal: Literal["new", "old"]) -> None:
    wanted = file.after if goal == "new" else file.before
    kept = record.new_content(number) if goal == "new" else record.old_content(number)
    with opened(file.path.parent, make=wanted is not None) as folder:
        if wanted is None:
            with suppress(FileNotFoundError):
                os.unlink(folder.entry(file.path.name), dir_fd=folder.descriptor)
        else:
            name = folder.entry(file.path.name)
            put_back(folder, name, kept, in_place=file.in_place, beside=record.beside(number))
        sync(folder)


def _sha256(path: Path) -> str | None:
    """The hash of what is at `path`; None for nothing, "" for no file. Raises OSError where it cannot be read."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return ""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


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
    record = None  # where none can be kept, the writes are made without
    with suppress(OSError):
        record = begin_change([_to_change(write) for write in writes], what)
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
    # the number of files that may be open at once without a name
    return StagingPlace(beside=beside, hidden=hidden, unnamed=count <= 64)


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
