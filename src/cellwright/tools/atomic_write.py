"""A file is either the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode


class FileChanged(Exception):
    """The file is no longer the one that the new content was made from."""


def write_atomically(path: Path, data: bytes, *, replacing: os.stat_result | None) -> os.stat_result:
    """Make `path` hold `data`: temporary file in the same folder, fsync, rename, fsync of the folder.

    `replacing` is the status of the file that `data` was made from, None for a new file (its missing folders are made);
    `FileChanged` is raised when that is not what is there. Mode, owner, access lists and other extended attributes are
    kept. `path` is a real path: a symbolic link would be replaced. Nothing is left behind on failure.
    Gives the new file's status.
    """
    made = _make_folders(path.parent) if replacing is None else []
    try:
        return _replace(path, data, replacing)
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _make_folders(folder: Path) -> list[Path]:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    return missing[::-1]


def _replace(path: Path, data: bytes, replacing: os.stat_result | None) -> os.stat_result:
    if replacing is not None and not os.access(path, os.W_OK):
        raise ToolError(f"{path.as_posix()} is read-only.", code=ErrorCode.FILE_ACCESS_ERROR)
    # a name of fixed length: the file's own name may already have the greatest length there is
    temporary = path.parent / f".cellwright-{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if replacing is not None:
                # before the content: a private file must not be readable by others for a moment
                _copy_attributes(path, file.fileno(), replacing)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            written = os.fstat(file.fileno())
        _check_unchanged(path, replacing)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)
    return written


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
            for name in os.listxattr(path):
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(path, name))


def _check_unchanged(path: Path, replacing: os.stat_result | None) -> None:
    try:
        now = path.lstat()
    except FileNotFoundError:
        if replacing is None:
            return
        raise FileChanged from None
    if replacing is None or _identity(now) != _identity(replacing):
        raise FileChanged


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there; the rename is in the journal
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # the new file is in place already: a file system that cannot sync folders is no failure
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
