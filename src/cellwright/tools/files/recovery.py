"""Changes that a process began and could not end, because it was killed: all of their files are made new, or old.

A file that holds neither was changed by somebody else since: then each is left as it is, and the outcome says so.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import stat
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from cellwright.sessions.file_changes import ChangeOutcome, ChangeRecord, FileToChange, unfinished_changes
from cellwright.tools.files.staged_file import (
    FileChanged,
    OpenFolder,
    StagingPlace,
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
        record.end(outcome if record.files else None, recovered=_is_to_be_told(outcome))
        done.append(outcome)
    return done


def _is_to_be_told(outcome: ChangeOutcome) -> bool:
    """Return whether somebody who did not see the change begin finds something else than before."""
    return bool(outcome.made or outcome.unclear or len(outcome.unchanged) > 1)


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
        _remove_folders(record.files)
    return _outcome(record.files, held)


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


def _remove_folders(files: Sequence[FileToChange]) -> None:
    """Remove the folders that were made for files that did not come to be."""
    for folder in sorted({folder for file in files for folder in file.folders}, key=lambda path: -len(path.parts)):
        with suppress(OSError):  # not made, or somebody has put something in it
            folder.rmdir()


def _outcome(files: Sequence[FileToChange], held: Sequence[Held]) -> ChangeOutcome:
    def those(*which: Held) -> tuple[Path, ...]:
        return tuple(file.path for file, each in zip(files, held, strict=True) if each in which)

    return ChangeOutcome(made=those("new", "either"), unchanged=those("old"), unclear=those("other", "torn"))


def _sha256(path: Path) -> str | None:
    """The hash of what is at `path`; None for nothing, "" for no file. Raises OSError where it cannot be read."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return ""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
