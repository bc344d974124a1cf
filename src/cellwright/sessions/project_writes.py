"""Our own writes below a project: no link that the folder brings is followed.

A project may bring `.claude/worktrees`, `docs` or any other name as a symbolic link to a place of the user's. What we
write there by ourselves goes from the project's top down, each folder opened in the one above it without following links,
and a link on the way is refused in words. Links above the project are the user's, as are paths outside of it that the user
names.

Writes that Claude's tools make are judged by the place that a path really leads to (`permissions`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from cellwright.sessions.state_dir import write_atomic

BY_DESCRIPTOR = {os.open, os.mkdir, os.rename, os.stat, os.unlink} <= os.supports_dir_fd
"""True if this system can work in an open folder; elsewhere (Windows) each name is looked at before it is used."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER |= getattr(os, "O_CLOEXEC", 0)
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class LinkOnTheWay(OSError):
    """Raised if a path below a project leads through a symbolic link that the project may have brought."""

    def __init__(self, link: Path) -> None:
        super().__init__(f"{link} is a symbolic link, and Cellwright does not write through links of a project")
        self.strerror = str(self)


def within(top: Path, path: Path) -> tuple[str, ...] | None:
    """The names from `top` down to `path`, as they are written; None if it lies elsewhere. `..` is taken as written."""
    plain, start = Path(os.path.normpath(path.absolute())), Path(os.path.normpath(top.absolute()))
    if plain.is_relative_to(start):
        return plain.relative_to(start).parts
    # the project by another name: a link above it, or other letters where these do not count
    other = next((folder for folder in (plain, *plain.parents) if _is_same(folder, start)), None)
    return None if other is None else plain.relative_to(other).parts


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


def check_way(top: Path, path: Path) -> Path:
    """`path` with `top` as it really is. Raises LinkOnTheWay if the file or a folder below `top` is a link.

    For what others do with the path afterwards (git, a later write that follows no links itself).
    """
    names = within(top, path)
    if names is None:
        return path
    here = Path(os.path.realpath(top))
    for name in names:
        here = here / name
        if here.is_symlink():
            raise LinkOnTheWay(here)
    return here


def make_folders(top: Path, folder: Path) -> Path:
    """Make `folder` and what is missing between it and `top`; gives it with `top` as it really is. Raises OSError."""
    with _opened(top, within(top, folder) or (), make=True):
        return check_way(top, folder)


def write_file(path: Path, data: bytes | Iterable[bytes], mode: int, *, top: Path, make: bool = False) -> None:
    """Make `path` hold `data`, or its pieces, at once and whole; `make`: missing folders are made. Raises OSError.

    Below `top` no link is followed, and a link in the file's own place is refused. Elsewhere the path is the user's.
    """
    names = within(top, path)
    if not names:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data, mode)
        return
    with _opened(top, names[:-1], make=make) as folder:
        place = check_way(top, path)
        if folder is None:
            write_atomic(place, data, mode)
        else:
            _write_in(folder, names[-1], data, mode)


def open_to_append(path: Path, mode: int, *, top: Path) -> int:
    """Open a file to write at its end, made if need be with its folders. Raises OSError, for links as `write_file`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    names = within(top, path)
    if not names:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags | _AS_IT_IS & ~getattr(os, "O_NOFOLLOW", 0), mode)
    with _opened(top, names[:-1], make=True) as folder:
        place = check_way(top, path)
        return os.open(place if folder is None else names[-1], flags | _AS_IT_IS, mode, dir_fd=folder)


@contextlib.contextmanager
def _opened(top: Path, names: tuple[str, ...], *, make: bool) -> Iterator[int | None]:
    """The folder that `names` lead to from `top`, held open; None if this system has no such thing."""
    real = os.path.realpath(top)
    if not BY_DESCRIPTOR:
        folder = check_way(top, Path(real, *names))
        if make:
            folder.mkdir(parents=True, exist_ok=True)
            check_way(top, folder)
        yield None
        return
    here = os.open(real, _FOLDER)
    try:
        for depth, name in enumerate(names, 1):
            above, here = here, _below(here, name, Path(real, *names[:depth]), make=make)
            os.close(above)
        yield here
    finally:
        os.close(here)


def _below(above: int, name: str, path: Path, *, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise LinkOnTheWay(path) from None
        raise


def _write_in(folder: int, name: str, data: bytes | Iterable[bytes], mode: int) -> None:
    if sys.platform == "win32":
        raise NotImplementedError
    new = f".cellwright-{secrets.token_hex(6)}.tmp"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AS_IT_IS, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
