"""A session's files: what the model has seen of each, so that nothing else is overwritten, and what changed ones held.

Of cells it is the sources the model was last shown: what a change of a live cell was made from.

The original contents are kept for the user in the state folder's `originals/`, named by SHA-256: one content once, however
often and wherever it stood. Code that changes files tells a `BackupStore` before.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder
from cellwright.tools.files.encodings import Encoding

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


class ShownCells:
    """A session's memory of cells. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: OrderedDict[tuple[Path, str], str] = OrderedDict()
        self._chars = 0

    def add(self, path: Path, sources: Mapping[str, str]) -> None:
        """The model was shown these cells (id → source) of the notebook at `path`, a real path, or has written them."""
        with self._lock:
            for cell_id, source in sources.items():
                self._chars -= len(self._sources.pop((path, cell_id), ""))
                self._sources[path, cell_id] = source
                self._chars += len(source)
            while self._chars > 8_000_000:
                self._chars -= len(self._sources.popitem(last=False)[1])

    def last(self, path: Path, cell_id: str) -> str | None:
        """The source that the model knows of a cell; None if it knows none."""
        with self._lock:
            return self._sources.get((path, cell_id))

    def forget(self, path: Path) -> None:
        """The notebook was changed behind the model's back."""
        with self._lock:
            for key in [key for key in self._sources if key[0] == path]:
                self._chars -= len(self._sources.pop(key))


class SeenFile(Struct, frozen=True):
    """A file as it was when the model last read or wrote it.

    `sha256` is None where the file was too large to be read to its end. `lines` is how many lines (cells of a notebook)
    from the first on the model knows without a gap; `whole` says that these are all of them.
    """

    mtime_ns: int
    size: int
    sha256: str | None
    lines: int = 0
    whole: bool = False
    parts: frozenset[str] = frozenset()
    """The digests of the notebook cells that the model was shown, wherever they are."""
    encoding: Encoding | None = None
    """The encoding that the text was shown in; None for what is not text."""


class FileState:
    """A session's memory of files, by real path. Used by reads that run in parallel.

    `is_unsaved` says of a real path whether it is open somewhere with changes that are not on disk. `keeper` is told of
    each change before it is made.
    """

    def __init__(self, is_unsaved: Callable[[Path], bool] = lambda _: False, keeper: BackupStore | None = None) -> None:
        self.is_unsaved = is_unsaved
        self.keeper: BackupStore = keeper or OriginalsOnly()
        self.cells = ShownCells()
        self._seen: dict[Path, SeenFile] = {}
        self._lock = threading.Lock()

    def get(self, path: Path) -> SeenFile | None:
        """Return what is known of `path`, a real path."""
        with self._lock:
            return self._seen.get(path)

    def read(
        self,
        path: Path,
        seen: SeenFile,
        first: int,
        last: int,
        *,
        to_the_end: bool,
        parts: frozenset[str] = frozenset(),
    ) -> None:
        """The model was shown lines `first` to `last`. Pages that follow one another add up to the whole file."""
        with self._lock:
            known = self._seen.get(path)
            unchanged = known is not None and (known.mtime_ns, known.size) == (seen.mtime_ns, seen.size)
            lines = known.lines if known is not None and unchanged else 0
            whole = known is not None and unchanged and known.whole
            if first <= lines + 1:
                lines = max(lines, last)
                whole = whole or to_the_end
            # a cell's content stands for it, so a notebook that changed elsewhere makes none of them unknown
            parts |= known.parts if known is not None else frozenset()
            self._seen[path] = replace(seen, lines=lines, whole=whole, parts=parts)

    def wrote(
        self,
        path: Path,
        status: os.stat_result,
        sha256: str,
        *,
        whole: bool,
        parts: frozenset[str] = frozenset(),
        encoding: Encoding | None = None,
    ) -> None:
        """We wrote the file; `whole` says that the model knows all of it, `parts` what it knows of a notebook."""
        seen = SeenFile(status.st_mtime_ns, status.st_size, sha256, whole=whole, parts=parts, encoding=encoding)
        with self._lock:
            self._seen[path] = seen

    def forget(self, paths: Iterable[Path]) -> None:
        """The files were changed behind the model's back: they must be read again."""
        with self._lock:
            for path in paths:
                self._seen.pop(path, None)
                self.cells.forget(path)

    def require(self, path: Path, display_path: str) -> SeenFile:
        """Return what is known of an existing file about to be changed; an error if it was never read."""
        seen = self.get(path)
        if seen is None:
            raise ToolError(
                f"{display_path} exists but was not read in this session. Read it first, then change it.",
                code=ErrorCode.FILE_ACCESS_ERROR,
            )
        return seen


def is_stale(seen: SeenFile, status: os.stat_result, sha256: str) -> bool:
    """Return whether the file is no longer what was seen. A new time with the same content is no change."""
    if seen.sha256 is not None:
        return seen.sha256 != sha256
    return (seen.mtime_ns, seen.size) != (status.st_mtime_ns, status.st_size)
