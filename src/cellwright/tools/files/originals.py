"""The original contents of changed files, kept for the user: in the state folder's `originals/`, named by SHA-256.

One content is kept once, however often and wherever it stood. Code that changes files tells a `BackupStore` before.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder

KEPT_FILES = 4_000
KEPT_BYTES = 512 * 2**20
KEPT_FILE_BYTES = 100 * 2**20
"""The size above which a file is not kept: a few of its kind would push out everything else."""

LOOKED_AT_EACH = 16
"""So many more files may come before it is looked how large all are."""


class UpcomingChange(Struct, frozen=True, kw_only=True):
    """A change of a file that is about to be made, at a real path: what is there (None: no file) and what will be.

    `status` is that of the file that is there. `changes_mode`: also who may do what with it changes.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    status: os.stat_result | None = None
    changes_mode: bool = False


class BackupStore(Protocol):
    """The store that is told of changes of files before they are made. Called from worker threads."""

    def before_changes(self, changes: Sequence[UpcomingChange]) -> None:
        """Keep what is needed to take `changes` back. What cannot be kept is no reason not to change it: never raises."""

    def after_changes(self, paths: Sequence[Path]) -> None:
        """The files at `paths` are changed as was told."""

    def before_program(self, paths: Sequence[Path]) -> None:
        """Keep the files at `paths` (real paths): a program may change each of them now."""

    def after_program(self) -> None:
        """The program that was told of is done."""


class OriginalsOnly:
    """The store for where there are no turns to take back: what files held is kept for the user to look at."""

    def before_changes(self, changes: Sequence[UpcomingChange]) -> None:
        for change in changes:
            if change.before is not None and change.before != change.after:
                keep_original(change.before, sha256(change.before))

    def after_changes(self, _paths: Sequence[Path]) -> None:
        pass

    def before_program(self, _paths: Sequence[Path]) -> None:
        pass

    def after_program(self) -> None:
        pass


def sha256(data: bytes) -> str:
    """The name of a content."""
    return hashlib.sha256(data).hexdigest()


def originals_folder() -> Path:
    """Return the folder where contents are kept."""
    return state_folder() / "originals"


def original_path(name: str) -> Path:
    """Return the path of the content with this hash, if it is kept."""
    return originals_folder() / name


def original(name: str) -> bytes | None:
    """The content with this hash; None where it is not kept, or is not what was kept."""
    try:
        data = original_path(name).read_bytes()
    except OSError:
        return None
    return data if sha256(data) == name else None


def keep_original(data: bytes, name: str, *, safely: bool = False) -> bool:
    """Keep what a file holds, for the user alone; the oldest go when there are too many. Whether it is kept.

    `safely`: it is on the disk itself before this returns.
    """
    path = original_path(name)
    if len(data) > KEPT_FILE_BYTES:
        return False
    try:
        if path.exists() and path.stat().st_size == len(data):
            path.touch()
            return True
        make_private_folder(path.parent)
        partial = path.with_name(f"{name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
        try:
            _write(partial, data, safely=safely)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        _drop_oldest(path.parent)
    except OSError:
        return False
    return True


def _write(path: Path, data: bytes, *, safely: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if safely:
            file.flush()
            os.fsync(file.fileno())


def kept_originals(hashes: Mapping[str, str | None]) -> dict[str, dict[str, str]]:
    """For the views: where the originals of files are, given the hash of what each held; nothing if none is kept."""
    kept = {name: original_path(content) for name, content in hashes.items() if content}
    there = {name: path.as_posix() for name, path in kept.items() if path.exists()}
    return {"originals": there} if there else {}


def drop_older_than(seconds: float) -> None:
    """Delete what was not used for so long."""
    before = time.time() - seconds
    with suppress(OSError), os.scandir(originals_folder()) as entries:
        for entry in entries:
            with suppress(OSError):  # another process may drop it at the same time
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    Path(entry.path).unlink()


def _drop_oldest(folder: Path) -> None:
    """Keep to the limits, with some room below them: looking at all files takes time."""
    count = len(os.listdir(folder))  # noqa: PTH208  a number is wanted, not a thousand paths
    if count <= KEPT_FILES and count % LOOKED_AT_EACH:
        return
    with os.scandir(folder) as entries:
        kept = sorted(((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries), reverse=True)
    most = KEPT_FILES if count <= KEPT_FILES else KEPT_FILES - LOOKED_AT_EACH
    size = 0
    for number, (_, length, path) in enumerate(kept, 1):
        size += length
        if number > most or size > KEPT_BYTES:
            with suppress(OSError):  # another process may drop it at the same time
                Path(path).unlink()
