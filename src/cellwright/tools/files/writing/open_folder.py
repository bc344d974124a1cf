"""A file's folder, held open while the file is changed, and the checks that it is still the file that was read."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError

BY_DESCRIPTOR = {os.open, os.mkdir, os.rename, os.rmdir, os.stat, os.unlink} <= os.supports_dir_fd
"""True where this system can work in an open folder; where not (Windows), paths are used."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


class FileChanged(Exception):
    """The file is no longer the one that the new content was made from, or no longer where it was."""


class OpenFolder(Struct, frozen=True):
    """The folder of a file. What is done in it is done by `descriptor`, so that it cannot become another meanwhile."""

    path: Path
    descriptor: int | None

    def entry(self, name: str) -> str:
        """Name a file of the folder as the functions of `os` that get `descriptor` take it."""
        return name if self.descriptor is not None else str(self.path / name)


@contextmanager
def opened(folder: Path, *, make: bool) -> Iterator[OpenFolder]:
    """An absolute folder, without symbolic links in it, held open; `make`: missing ones are made, and go if we fail."""
    if not BY_DESCRIPTOR:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        yield OpenFolder(folder, None)
        return
    here = os.open(folder.anchor, _FOLDER)
    made: list[tuple[int, str]] = []
    try:
        for name in folder.parts[1:]:
            above, here = here, _below(here, name, made if make else None)
            if not made or made[-1][0] != above:
                os.close(above)
        yield OpenFolder(folder, here)
    except BaseException:
        for above, name in reversed(made):
            with suppress(OSError):
                os.rmdir(name, dir_fd=above)
        raise
    finally:
        for descriptor in (here, *(above for above, _ in made)):
            os.close(descriptor)


def _below(above: int, name: str, made: list[tuple[int, str]] | None) -> int:
    """Open a folder's folder. A missing one is made and put on the list `made`, if there is one."""
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        if made is None:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
            made.append((above, name))
        return _below(above, name, None)
    except OSError:
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                raise FileChanged from None
        raise


def check_writable(folder: OpenFolder, path: Path) -> None:
    """Raise ToolError if the file is read-only: a rename would replace it all the same."""
    if not os.access(folder.entry(path.name), os.W_OK, dir_fd=folder.descriptor):
        raise ToolError(f"{path.as_posix()} is read-only.", code=ErrorCode.FILE_ACCESS_ERROR)


def check_unchanged(folder: OpenFolder, name: str, replacing: os.stat_result | None) -> None:
    """Raise FileChanged unless the folder's entry `name` is the file with the status `replacing` (None: no file)."""
    try:
        now = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        if replacing is None:
            return
        raise FileChanged from None
    if replacing is None or _identity(now) != _identity(replacing):
        raise FileChanged


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def sync(folder: OpenFolder) -> None:
    """Make the names in `folder` last, as far as the file system can."""
    if (
        sys.platform == "win32" or folder.descriptor is None
    ):  # folders cannot be opened there; the rename is in the journal
        return
    # the new file is in place already: a folder that cannot be read, or a file system that cannot sync one, is no failure
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder.descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
