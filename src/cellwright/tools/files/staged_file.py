"""A new file made where nobody looks for it, and put in its place by a change of names in a folder that is held open.

On Linux it has no name at all while it is written (O_TMPFILE), in the very folder where it goes: so it has what the folder
gives to new files, its disk has room for it, and a process that is killed leaves nothing. Then it waits in the state
folder where that is on the same disk. Elsewhere it has a temporary name: in the state folder, or beside its file. The
folder is checked: the file in it must still be the one that was read.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError
from cellwright.this_process.files import replace_file

BY_DESCRIPTOR = {os.open, os.mkdir, os.rename, os.rmdir, os.stat, os.unlink} <= os.supports_dir_fd
"""True where this system can work in an open folder; where not (Windows), paths are used."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)

_UNNAMED = getattr(os, "O_TMPFILE", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_UNKNOWN_THERE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
"""The answers of systems and disks that know no files without a name."""

Like = tuple[Path, os.stat_result]
"""A file whose mode, owner and extended attributes another one gets."""


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


class StagingPlace(Struct, frozen=True, kw_only=True):
    """The names that a new file may have until it has its own: `hidden` in the state folder, `beside` in its folder.

    `hidden` is None where there is no state folder to be used. `unnamed`: it may be kept open without any.
    """

    beside: str
    hidden: Path | None
    unnamed: bool = True


class StagedFile(Struct):
    """A new file, safely on disk: without a name (`descriptor`), at `hidden`, or in its folder at `beside`."""

    folder: OpenFolder
    place: StagingPlace
    status: os.stat_result
    descriptor: int | None = None
    hidden: Path | None = None
    beside: bool = False

    def put(self, name: str, replacing: os.stat_result | None) -> None:
        """Give it the name of the file with the status `replacing`, or of none. Raises FileChanged, OSError."""
        here, temporary = self.folder.descriptor, self.folder.entry(self.place.beside)
        check_unchanged(self.folder, name, replacing)
        if self.descriptor is not None:
            if replacing is None:
                try:
                    _link_unnamed(self.descriptor, name, here)
                except FileExistsError:
                    raise FileChanged from None
                self._close()
                return
            _link_unnamed(self.descriptor, temporary, here)
            self.beside = True
            self._close()
        if self.hidden is not None:
            self._move_here(self.hidden, name, replacing)
        else:
            self._replace(temporary, name, replacing, here)
            self.beside = False

    def _replace(self, new: Path | str, name: str, replacing: os.stat_result | None, source: int | None) -> None:
        def put(new: Path | str, path: Path | str) -> None:
            check_unchanged(self.folder, name, replacing)  # who had it open may have written to it since the last try
            os.replace(new, path, src_dir_fd=source, dst_dir_fd=self.folder.descriptor)

        replace_file(new, name, replace=put)

    def _move_here(self, hidden: Path, name: str, replacing: os.stat_result | None) -> None:
        try:
            self._replace(hidden, name, replacing, None)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # one disk, but mounted twice: names cannot go from one mount to the other
            place = replace(self.place, hidden=None)
            copied = stage(self.folder, hidden.read_bytes(), place, like=(hidden, hidden.stat()))
            copied.put(name, replacing)
            self.status = copied.status
            hidden.unlink()
        self.hidden = None

    def discard(self) -> None:
        """Let it go, unless it is in its place."""
        self._close()
        with suppress(OSError):
            if self.hidden is not None:
                self.hidden.unlink()
            if self.beside:
                os.unlink(self.folder.entry(self.place.beside), dir_fd=self.folder.descriptor)

    def _close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def stage(
    folder: OpenFolder,
    data: bytes,
    place: StagingPlace,
    *,
    like: Like | None = None,
    mode: int | None = None,
    executable: bool | None = None,
) -> StagedFile:
    """Make a new file of `folder` that holds `data`. Nothing is left behind on failure.

    It gets mode, owner and extended attributes of the file `like`; then the permission bits `mode`, or the right to
    execute it or not, if given.
    """
    staged = _opened(folder, place, is_new=like is None)
    try:
        assert staged.descriptor is not None
        if like is not None:
            # before the content: a private file must not be readable by others for a moment
            copy_attributes(like[0], staged.descriptor, like[1])
        set_mode(staged.descriptor, mode, executable)
        write_all(staged.descriptor, data)
        os.fsync(staged.descriptor)
        staged.status = os.fstat(staged.descriptor)
        if staged.hidden is not None or staged.beside:
            staged._close()
        elif place.hidden is not None:
            with suppress(OSError):  # on another disk: it stays without a name
                _link_unnamed(staged.descriptor, str(place.hidden), folder.descriptor)
                staged.hidden = place.hidden
                staged._close()
    except BaseException:
        staged.discard()
        raise
    return staged


def _opened(folder: OpenFolder, place: StagingPlace, *, is_new: bool) -> StagedFile:
    """A new file, empty and open: without a name where the system has such, else hidden, else beside the others."""
    if _UNNAMED and place.unnamed and folder.descriptor is not None:
        descriptor = None
        try:
            descriptor = os.open(".", _UNNAMED | os.O_WRONLY, 0o666, dir_fd=folder.descriptor)
            # a process that gave up its rights may not see its own descriptors there, and could not name it later
            return StagedFile(folder, place, os.stat(f"/proc/self/fd/{descriptor}"), descriptor)  # noqa: PTH116
        except OSError as error:
            if descriptor is not None:
                os.close(descriptor)
            elif error.errno not in _UNKNOWN_THERE:
                raise
    # what a folder gives to new files, a file from elsewhere has not
    if place.hidden is not None and not is_new and _same_disk(place.hidden.parent, folder):
        descriptor = os.open(place.hidden, _NEW, 0o600)
        return StagedFile(folder, place, os.fstat(descriptor), descriptor, hidden=place.hidden)
    descriptor = os.open(folder.entry(place.beside), _NEW, 0o666, dir_fd=folder.descriptor)
    return StagedFile(folder, place, os.fstat(descriptor), descriptor, beside=True)


def _same_disk(other: Path, folder: OpenFolder) -> bool:
    with suppress(OSError):
        here = folder.path if folder.descriptor is None else folder.descriptor
        return other.stat().st_dev == os.stat(here).st_dev  # noqa: PTH116  an open folder has no path
    return False


def _link_unnamed(descriptor: int, name: str, folder: int | None) -> None:
    # the folder's descriptor makes it `linkat`, which follows the link in /proc, also where `name` is absolute
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)


def write_all(descriptor: int, data: bytes) -> None:
    """Write `data` to an open file, whatever number of calls it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def set_mode(descriptor: int, mode: int | None, executable: bool | None) -> None:
    """Give an open file these permission bits; then the right to execute it, or take that away."""
    if not hasattr(os, "fchmod"):
        return
    if executable is not None:
        now = stat.S_IMODE(os.fstat(descriptor).st_mode) if mode is None else mode
        # as git does it: who may read may execute
        mode = now | (now & 0o444) >> 2 if executable else now & ~0o111
    if mode is not None:
        os.fchmod(descriptor, mode)


def copy_attributes(path: Path, descriptor: int, status: os.stat_result) -> None:
    """Give an open file the owner, the mode and the extended attributes of the file at `path`."""
    if hasattr(os, "fchown"):
        own = os.fstat(descriptor)
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            # only root may give a file away; for others the owner changes, as with every editor that renames
            with suppress(PermissionError):
                os.fchown(descriptor, status.st_uid, status.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    if sys.platform == "linux":
        # access lists of shared folders live here; file systems may know none, and some only root may set
        with suppress(OSError):
            for name in os.listxattr(path, follow_symlinks=False):
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(path, name, follow_symlinks=False))
