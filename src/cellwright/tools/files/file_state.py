"""The model's knowledge of a session's files: nothing it has not seen is overwritten.

Of cells it is the sources the model was last shown: what a change of a live cell was made from.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.formats.encodings import Encoding
from cellwright.tools.files.originals import BackupStore, OriginalsOnly


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


def _never(_path: Path) -> bool:
    """Return False: there is no editor."""
    return False


class FileState:
    """A session's memory of files, by real path. Used by reads that run in parallel.

    `is_unsaved` says of a real path whether it is open somewhere with changes that are not on disk. `keeper` is told of
    each change before it is made.
    """

    def __init__(self, is_unsaved: Callable[[Path], bool] = _never, keeper: BackupStore | None = None) -> None:
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
