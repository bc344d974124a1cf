"""A folder of this process's confined commands: their temporary files and caches, and what covers what they may not see."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

PREFIX = "cellwright-sandbox-"
LOCK = "lock"
"""A file of the folder, locked for as long as the process lives that made it."""

MIN_AGE_SECONDS = 60
"""A younger folder may be one whose lock is about to be taken."""


class PrivateFolder:
    """The folder, made at once and for the user alone; `close` removes it.

    `temporary` and `caches` may be written by commands; the rest of it may not. The first one of a process has those
    removed, beside its work, that killed processes have left.
    """

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        self._lock = os.open(f"{self.path}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _take(self._lock)
        self._removing: list[threading.Thread] = []
        self.temporary, self.caches = f"{self.path}/tmp", f"{self.path}/cache"
        self._make_parts()
        _begin_removal()

    def mended(self) -> PrivateFolder:
        """Return it with the parts that somebody removed; where it is gone as a whole, a new one."""
        try:
            status = Path(self.path).lstat()
        except OSError:
            return self._another()
        # others may make folders where it was, and would own what commands write
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return self._another()
        self._make_parts()
        return self

    def _another(self) -> PrivateFolder:
        self._release()
        return PrivateFolder()

    def _make_parts(self) -> None:
        for folder in (self.temporary, self.caches):
            Path(folder).mkdir(mode=0o700, exist_ok=True)

    @property
    def writable(self) -> tuple[str, str]:
        """The folders that commands may write in."""
        return self.temporary, self.caches

    def unreadable(self, *, folder: bool) -> str:
        """Return a file or folder that nobody may open, to be mounted over others."""
        path = Path(self.path, "hidden-folder" if folder else "hidden-file")
        if not path.exists():
            if folder:
                path.mkdir(mode=0)
            else:
                path.touch(mode=0)
        return str(path)

    def new_folder(self) -> str:
        """Make a folder that commands do not see."""
        return tempfile.mkdtemp(dir=self.path)

    def remove_meanwhile(self, remove: Callable[[], None]) -> None:
        """Call `remove`, which removes a part of this, on a thread: who waits for a command need not wait for that, too.

        A busy disk takes milliseconds for each folder.
        """
        thread = threading.Thread(target=remove, name="cellwright-sandbox-removal", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is about to end
            remove()
        else:
            self._removing = [*(each for each in self._removing if each.is_alive()), thread]

    def close(self) -> None:
        """Remove it with all that commands left in it."""
        for thread in self._removing:
            thread.join()
        _remove(self.path)
        self._release()

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


@functools.cache
def _begin_removal() -> None:
    """Remove, once in a process and beside its work, what killed processes have left."""
    thread = threading.Thread(target=remove_abandoned, name="cellwright-abandoned-folders", daemon=True)
    with contextlib.suppress(RuntimeError):  # the interpreter is about to end
        thread.start()


def remove_abandoned() -> None:
    """Remove the folders of processes that have ended without doing it."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.geteuid():
        return
    lock = os.open(f"{entry.path}/{LOCK}", os.O_RDWR | os.O_NOFOLLOW)
    try:
        if time.time() - os.fstat(lock).st_mtime > MIN_AGE_SECONDS and _take(lock):
            _remove(entry.path)
    finally:
        os.close(lock)


def _take(lock: int) -> bool:
    import fcntl  # not on Windows, which has no sandbox

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(folder: str) -> None:
    """Remove a folder with the lock last: without it, nobody would end what was begun."""
    with contextlib.suppress(OSError):
        Path(folder, "hidden-folder").rmdir()
    with contextlib.suppress(OSError):
        for path in Path(folder).iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink()
    shutil.rmtree(folder, ignore_errors=True)
