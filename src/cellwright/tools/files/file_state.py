"""What the model has read of the files of a session: nothing it has not seen is overwritten."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.files.originals import Keeper, OriginalsOnly
from cellwright.tools.shown_cells import ShownCells


@dataclass(frozen=True, slots=True)
class Seen:
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
    """What stands for the cells of a notebook that the model was shown, wherever they are."""


def _never(_path: Path) -> bool:
    """Where there is no editor."""
    return False


class FileState:
    """A session's memory of files, by real path. Used by reads that run in parallel.

    `is_unsaved` says of a real path whether it is open somewhere with changes that are not on disk. `keeper` is told of
    each change before it is made.
    """

    def __init__(self, is_unsaved: Callable[[Path], bool] = _never, keeper: Keeper | None = None) -> None:
        self.is_unsaved = is_unsaved
        self.keeper: Keeper = keeper or OriginalsOnly()
        self.cells = ShownCells()
        self._seen: dict[Path, Seen] = {}
        self._lock = threading.Lock()

    def get(self, path: Path) -> Seen | None:
        """What is known of `path`, a real path."""
        with self._lock:
            return self._seen.get(path)

    def read(
        self,
        path: Path,
        seen: Seen,
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
        self, path: Path, status: os.stat_result, sha256: str, *, whole: bool, parts: frozenset[str] = frozenset()
    ) -> None:
        """We wrote the file; `whole` says that the model knows all of it, `parts` what it knows of a notebook."""
        with self._lock:
            self._seen[path] = Seen(status.st_mtime_ns, status.st_size, sha256, whole=whole, parts=parts)

    def forget(self, paths: Iterable[Path]) -> None:
        """The files were changed behind the model's back: they must be read again."""
        with self._lock:
            for path in paths:
                self._seen.pop(path, None)
                self.cells.forget(path)

    def require(self, path: Path, shown: str) -> Seen:
        """What is known of an existing file that is about to be changed; an error if it was never read."""
        seen = self.get(path)
        if seen is None:
            raise ToolError(
                f"{shown} exists but was not read in this session. Read it first, then change it.",
                code=ErrorCode.FILE_ACCESS_ERROR,
            )
        return seen


def is_stale(seen: Seen, status: os.stat_result, sha256: str) -> bool:
    """Whether the file is no longer what was seen. A new time with the same content is no change."""
    if seen.sha256 is not None:
        return seen.sha256 != sha256
    return (seen.mtime_ns, seen.size) != (status.st_mtime_ns, status.st_size)
