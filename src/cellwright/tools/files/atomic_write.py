"""A file is either the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode

BY_DESCRIPTOR = {os.open, os.mkdir, os.rename, os.rmdir, os.stat, os.unlink} <= os.supports_dir_fd
"""Whether this system can work in an open folder; where not (Windows), paths are used."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


class FileChanged(Exception):
    """The file is no longer the one that the new content was made from, or no longer where it was."""


def write_atomically(path: Path, data: bytes, *, replacing: os.stat_result | None) -> os.stat_result:
    """Make `path` hold `data`: temporary file in the same folder, fsync, rename, fsync of the folder.

    `replacing` is the status of the file that `data` was made from, None for a new file (its missing folders are made);
    `FileChanged` is raised when that is not what is there. Mode, owner, access lists and other extended attributes are
    kept. `path` is a real path: a symbolic link in it, put there since it was looked up, raises `FileChanged` too.
    Nothing is left behind on failure. Gives the new file's status.
    """
    with opened(path.absolute().parent, make=replacing is None) as folder:
        return _replace(folder, path, data, replacing)


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of a file. What is done in it is done by `descriptor`, so that it cannot become another meanwhile."""

    path: Path
    descriptor: int | None

    def entry(self, name: str) -> str:
        """What the functions of `os` that get `descriptor` call a file of the folder."""
        return name if self.descriptor is not None else str(self.path / name)


@contextmanager
def opened(folder: Path, *, make: bool) -> Iterator[Folder]:
    """An absolute folder, without symbolic links in it, held open; `make`: missing ones are made, and go if we fail."""
    if not BY_DESCRIPTOR:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        yield Folder(folder, None)
        return
    here = os.open(folder.anchor, _FOLDER)
    made: list[tuple[int, str]] = []
    try:
        for name in folder.parts[1:]:
            above, here = here, _below(here, name, made if make else None)
            if not made or made[-1][0] != above:
                os.close(above)
        yield Folder(folder, here)
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


def _replace(folder: Folder, path: Path, data: bytes, replacing: os.stat_result | None) -> os.stat_result:
    here, name = folder.descriptor, folder.entry(path.name)
    if replacing is not None:
        check_writable(folder, path)
    temporary, written = stage(folder, data, None if replacing is None else (path, replacing))
    try:
        check_unchanged(folder, name, replacing)
        os.replace(temporary, name, src_dir_fd=here, dst_dir_fd=here)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=here)
        raise
    sync(folder)
    return written


def check_writable(folder: Folder, path: Path) -> None:
    """Raise ToolError if the file is read-only: a rename would replace it all the same."""
    if not os.access(folder.entry(path.name), os.W_OK, dir_fd=folder.descriptor):
        raise ToolError(f"{path.as_posix()} is read-only.", code=ErrorCode.FILE_ACCESS_ERROR)


def stage(
    folder: Folder, data: bytes, like: tuple[Path, os.stat_result] | None, *, mode: int | None = None
) -> tuple[str, os.stat_result]:
    """A new file in `folder` that holds `data`, safely on disk: its entry, to be renamed, and its status.

    It gets mode, owner and extended attributes of the file `like`; then the permission bits `mode`, if given.
    """
    temporary = folder.entry(temporary_name())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666, dir_fd=folder.descriptor)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if like is not None:
                # before the content: a private file must not be readable by others for a moment
                _copy_attributes(like[0], file.fileno(), like[1])
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            return temporary, os.fstat(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder.descriptor)
        raise


def temporary_name() -> str:
    """A name for a file beside another."""
    # of fixed length: the file's own name may already have the greatest length there is
    return f".cellwright-{secrets.token_hex(6)}.tmp"


def _copy_attributes(path: Path, descriptor: int, status: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        own = os.fstat(descriptor)
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            # only root may give a file away; for others the owner changes, as with every editor that renames
            with suppress(PermissionError):
                os.fchown(descriptor, status.st_uid, status.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    if hasattr(os, "listxattr"):
        # access lists of shared folders live here; file systems may know none, and some only root may set
        with suppress(OSError):
            for name in os.listxattr(path, follow_symlinks=False):
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(path, name, follow_symlinks=False))


def check_unchanged(folder: Folder, name: str, replacing: os.stat_result | None) -> None:
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


def sync(folder: Folder) -> None:
    """Make the names in `folder` last, as far as the file system can."""
    if folder.descriptor is None:  # folders cannot be opened there; the rename is in the journal
        return
    # the new file is in place already: a folder that cannot be read, or a file system that cannot sync one, is no failure
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder.descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
