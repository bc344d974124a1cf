"""Atomic writes: one file is either the old one or the new one, several are changed all or none.

For several, all new contents are safely on disk under temporary names before the first file is touched: a full disk
shows there. Then only names change, each old file kept under another name until the last is done, so that what was
done can be undone.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.errors import ErrorCode, ToolError

BY_DESCRIPTOR = {os.open, os.mkdir, os.rename, os.rmdir, os.stat, os.unlink} <= os.supports_dir_fd
"""True where this system can work in an open folder; where not (Windows), paths are used."""
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
class OpenFolder:
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


def _replace(folder: OpenFolder, path: Path, data: bytes, replacing: os.stat_result | None) -> os.stat_result:
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


def check_writable(folder: OpenFolder, path: Path) -> None:
    """Raise ToolError if the file is read-only: a rename would replace it all the same."""
    if not os.access(folder.entry(path.name), os.W_OK, dir_fd=folder.descriptor):
        raise ToolError(f"{path.as_posix()} is read-only.", code=ErrorCode.FILE_ACCESS_ERROR)


def stage(
    folder: OpenFolder, data: bytes, like: tuple[Path, os.stat_result] | None, *, mode: int | None = None
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
    if folder.descriptor is None:  # folders cannot be opened there; the rename is in the journal
        return
    # the new file is in place already: a folder that cannot be read, or a file system that cannot sync one, is no failure
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder.descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWrite:
    """One file to be written (`after`), or deleted (None).

    `replacing` is the status of the file that is there, None if there is none. The new file is as the file `like`, by
    default the one it replaces; `executable` then sets or clears the right to execute it, `mode` sets all permission bits.
    """

    path: Path
    replacing: os.stat_result | None
    after: bytes | None
    like: tuple[Path, os.stat_result] | None = None
    executable: bool | None = None
    mode: int | None = None


@dataclass(slots=True)
class _Step:
    """A write on its way: `new` is its staged content, `old` what it replaces, both under temporary names."""

    write: FileWrite
    folder: OpenFolder
    new: str | None = None
    status: os.stat_result | None = None
    old: str | None = None
    done: bool = False

    @property
    def name(self) -> str:
        return self.folder.entry(self.write.path.name)


@dataclass(slots=True)
class _Folders:
    """The folders of the files, each held open once."""

    stack: ExitStack
    open: dict[Path, OpenFolder] = field(default_factory=dict)

    def of(self, path: Path, *, make: bool) -> OpenFolder:
        if path.parent not in self.open:
            self.open[path.parent] = self.stack.enter_context(opened(path.parent, make=make))
        return self.open[path.parent]


def write_together(writes: Sequence[FileWrite]) -> list[os.stat_result | None]:
    """Write all files, or leave all as they are. Gives the status of each new file, None for a deleted one.

    Raises FileChanged, with the path, when a file is not the one that its new content was made from; OSError and ToolError
    when it cannot be written. Paths are real paths, each at most once.
    """
    with ExitStack() as stack:
        folders = _Folders(stack)
        steps = [_Step(write, folders.of(write.path, make=write.after is not None)) for write in writes]
        try:
            for step in steps:
                _prepare(step)
            for step in steps:
                _check(step)
            for step in steps:
                _put(step)
        except BaseException as error:
            _undo(steps, error)
            raise
        for step in steps:
            if step.old is not None:
                _remove(step.folder, step.old)
        for folder in folders.open.values():
            sync(folder)
        return [step.status for step in steps]


def _prepare(step: _Step) -> None:
    write = step.write
    if write.replacing is not None:
        check_writable(step.folder, write.path)
    if write.after is None:
        return
    like = write.like or (None if write.replacing is None else (write.path, write.replacing))
    step.new, step.status = stage(step.folder, write.after, like, mode=write.mode)
    if write.executable is not None:
        mode = stat.S_IMODE(step.status.st_mode)
        # as git does it: who may read may execute
        mode = mode | (mode & 0o444) >> 2 if write.executable else mode & ~0o111
        os.chmod(step.new, mode, dir_fd=step.folder.descriptor)


def _check(step: _Step) -> None:
    try:
        check_unchanged(step.folder, step.name, step.write.replacing)
    except FileChanged:
        raise FileChanged(step.write.path) from None


def _put(step: _Step) -> None:
    """Give the new file its name, or take the old one's away. What was there keeps another name."""
    _check(step)
    here = step.folder.descriptor
    if step.write.replacing is not None:
        old = step.folder.entry(temporary_name())
        try:
            if step.new is None:
                raise OSError
            # a second name for it: there is no moment without a file
            os.link(step.name, old, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
        except (OSError, NotImplementedError):  # a deletion, or a file system without hard links
            os.rename(step.name, old, src_dir_fd=here, dst_dir_fd=here)
        step.old = old
    if step.new is not None:
        os.replace(step.new, step.name, src_dir_fd=here, dst_dir_fd=here)
        step.new = None
    step.done = True


def _undo(steps: Sequence[_Step], cause: BaseException) -> None:
    lost: list[str] = []
    for step in reversed(steps):
        here = step.folder.descriptor
        if step.new is not None:
            _remove(step.folder, step.new)
        try:
            if step.old is not None:
                os.replace(step.old, step.name, src_dir_fd=here, dst_dir_fd=here)
                # two names of one file: then renaming does nothing
                _remove(step.folder, step.old)
            elif step.done:
                os.unlink(step.name, dir_fd=here)
        except OSError:
            lost.append(f"{step.write.path} (it was {Path(step.old).name if step.old else 'not there'})")
    if lost:
        raise ToolError(
            f"Writing failed ({cause}), and so did taking it back: of the files {', '.join(lost)} the old ones lie "
            "beside them under the names in brackets. Put them back before you go on.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        ) from cause


def _remove(folder: OpenFolder, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder.descriptor)
