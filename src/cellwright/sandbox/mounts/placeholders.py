"""Placeholders for what is protected and does not exist yet: a mount needs something that it covers.

It is an empty file or folder in the user's project, there while a command runs. It is known by its time, the beginning of
the epoch, and locked by each command that needs it: the last one removes it, also where an earlier one was killed. What
somebody wrote into meanwhile is no placeholder any more, and stays.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cellwright.sandbox.paths import exists

_FOLDERS = frozenset({".git", ".claude", ".vscode", ".idea", ".husky", ".devcontainer", ".github", "hooks", "agents"})
"""Names of folders: where a file stood instead, a program that looks for one would fail."""


def first_missing(path: str) -> str:
    """The outermost part of `path` that does not exist, or is a placeholder already; "" where there is none."""
    missing = [str(part) for part in (Path(path), *Path(path).parents) if not exists(part) or _is_placeholder(part)]
    return missing[-1] if missing else ""


@contextmanager
def placeholder(path: str, *, folder: bool) -> Iterator[None]:
    """Have something stand at `path`, which did not exist or is a placeholder, while this is entered. Raises OSError.

    It is a folder where that is asked for, or its name is known as a folder's.
    """
    fd = _make_and_lock(path, folder or Path(path).name in _FOLDERS)
    try:
        yield
    finally:
        try:
            _remove_last(path, fd)
        finally:
            os.close(fd)


def _is_placeholder(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return _is_ours(path.lstat()) and not (path.is_dir() and any(path.iterdir()))
    return False


def _make_and_lock(path: str, folder: bool) -> int:
    import fcntl  # not on Windows

    while True:
        with contextlib.suppress(FileExistsError):
            if folder:
                Path(path).mkdir()
            else:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
            os.utime(path, (0, 0), follow_symlinks=False)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # without locks (NFS) a command may find the placeholder removed by another
            fcntl.flock(fd, fcntl.LOCK_SH)
        if _is_still(path, fd):
            return fd
        os.close(fd)  # the last one before us has just removed it


def _remove_last(path: str, fd: int) -> None:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another command needs it, and removes it
        return
    with contextlib.suppress(OSError):  # no folder of ours is empty any more
        if _is_still(path, fd) and _is_ours(os.fstat(fd)):
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                Path(path).rmdir()
            else:
                Path(path).unlink()


def _is_still(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), Path(path).lstat())
    except OSError:
        return False


def _is_ours(status: os.stat_result) -> bool:
    return status.st_mtime == 0 and (stat.S_ISDIR(status.st_mode) or status.st_size == 0)
