"""Changes that a process began and could not end, because it was killed: all of their files are made new, or old.

A file that holds neither was changed by somebody else since: then each is left as it is, and the outcome says so.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from cellwright.sessions.file_changes import ChangeOutcome, ChangeRecord, FileToChange, unfinished_changes
from cellwright.tools.files.writing.content_backup import put_back
from cellwright.tools.files.writing.open_folder import FileChanged, opened, sync

logger = logging.getLogger(__name__)

Held = Literal["new", "old", "either", "torn", "other"]
"""The content of a file of a change: new, old, or, written into, a beginning of the new and the rest of the old."""


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
