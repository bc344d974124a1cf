"""Files of this process: its temporary ones, and those that several processes use.

Shared files have locks, and a new file takes the place of one. They are locked by `flock`, on Windows by a locked byte. A
lock is the operating system's and belongs to the open file: it is free again when that is closed or its process is gone,
however it ended. It is advice: it keeps out who asks for it, and nobody else.

Temporary files and folders are all in one folder, which goes with the process, however that ends. The process removes it
when it ends by itself; its watchdog (`tools/process/child_processes.py`) when it is killed; and whichever process comes
next when there was no watchdog yet. For that it is locked as long as its process lives. Nothing else in the package makes
temporary files, but for those that take the place of a file beside it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

LOCKED_BYTE = 1 << 30
"""Far behind the content: on Windows a locked byte cannot be read by others."""

POLL_SECONDS = 0.02

_TAKEN = frozenset({errno.EACCES, errno.EDEADLK, errno.EAGAIN})
"""The errors of `msvcrt.locking` when another open file has the byte; EDEADLK after it has tried for ten seconds."""

_SYNCHRONIZE = 0x0010_0000
_TIMED_OUT = 0x102
_ACCESS_DENIED = 5

PREFIX = "cellwright-run-"
LOCK = "lock"
"""A file of the folder, locked for as long as the process lives that made it."""


class FileLocks(Protocol):
    """The way a system locks files."""

    def try_lock(self, fd: int) -> bool:
        """Lock an open file without waiting; False if another open file has the lock. Raises OSError if none can be had."""
        ...

    def close(self, fd: int) -> None:
        """Close a file that may be locked, and give its lock free now."""
        ...


class WholeFileLocks:
    """Locks by `fcntl.flock` and its mode `LOCK_EX | LOCK_NB`."""

    def __init__(self, flock: Callable[[int, int], None], exclusive: int) -> None:
        self._flock = flock
        self._exclusive = exclusive

    def try_lock(self, fd: int) -> bool:
        """Lock the file without waiting, as `FileLocks` says."""
        try:
            self._flock(fd, self._exclusive)
        except BlockingIOError:
            return False
        return True

    def close(self, fd: int) -> None:
        """Close the file: the lock goes with it."""
        os.close(fd)


class ByteLocks:
    """Locks of one byte behind the content, by Windows' `msvcrt.locking` and its modes `LK_NBLCK` and `LK_UNLCK`."""

    def __init__(self, locking: Callable[[int, int, int], None], lock: int, unlock: int) -> None:
        self._locking = locking
        self._lock = lock
        self._unlock = unlock

    def try_lock(self, fd: int) -> bool:
        """Lock the byte without waiting, as `FileLocks` says."""
        try:
            self._do(fd, self._lock)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            return False
        return True

    def close(self, fd: int) -> None:
        """Unlock the byte and close the file: Windows unlocks what is closed, but not always at once."""
        try:
            with contextlib.suppress(OSError):  # it is not ours
                self._do(fd, self._unlock)
        finally:
            os.close(fd)

    def _do(self, fd: int, mode: int) -> None:
        before = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)  # it locks from where the file stands
        try:
            self._locking(fd, mode, 1)
        finally:
            os.lseek(fd, before, os.SEEK_SET)


def system_locks() -> FileLocks:
    """The locks of this system."""
    if sys.platform == "win32":
        import msvcrt  # Windows only

        return ByteLocks(msvcrt.locking, msvcrt.LK_NBLCK, msvcrt.LK_UNLCK)
    import fcntl  # not on Windows

    return WholeFileLocks(fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def replace_file(
    new: Path | str,
    path: Path | str,
    *,
    replace: Callable[[Path | str, Path | str], None] = os.replace,
    # readers of ours have a file open for less, and so have virus scanners as a rule
    wait_seconds: float = 1.0 if sys.platform == "win32" else 0.0,
) -> None:
    """Put the file `new` at `path`, in place of what is there. Raises OSError.

    On Windows nothing takes the place of a file that somebody has open: for up to `wait_seconds` that is tried again.
    """
    give_up = time.monotonic() + wait_seconds
    while True:
        try:
            replace(new, path)
        except PermissionError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return


def runs(pid: int) -> bool:
    """Return whether a process runs, another user's included."""
    if sys.platform == "win32":
        import ctypes

        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel32.OpenProcess.restype = ctypes.c_void_p  # a handle is as wide as a pointer
        kernel32.WaitForSingleObject.argtypes = (ctypes.c_void_p, ctypes.c_ulong)
        kernel32.CloseHandle.argtypes = (ctypes.c_void_p,)
        return runs_on_windows(pid, kernel32, ctypes.get_last_error)
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def runs_on_windows(pid: int, kernel32: Any, last_error: Callable[[], int]) -> bool:
    """Return the same by Windows' `kernel32`, where `os.kill(pid, 0)` would send Ctrl+C to a console's processes."""
    handle = kernel32.OpenProcess(_SYNCHRONIZE, False, pid)
    if not handle:
        return last_error() == _ACCESS_DENIED
    try:
        # somebody may hold an ended process open: it is there, and no wait for it lasts
        return bool(kernel32.WaitForSingleObject(handle, 0) == _TIMED_OUT)
    finally:
        kernel32.CloseHandle(handle)


class _ProcessFolder:
    """The folder of this process: named when that is asked for, made with the first that is put into it."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._path: Path | None = None
        self._lock = -1
        self._made = self._closed = False

    @property
    def path(self) -> Path:
        with self._guard:
            if self._path is None:
                try:
                    place = os.path.realpath(tempfile.gettempdir())
                except OSError:  # nothing can be written anywhere: who wants to make the folder is told
                    place = f"{os.sep}tmp"
                self._path = Path(place, PREFIX + secrets.token_hex(8))
            return self._path

    def make(self) -> Path:
        """Return the folder, which is there now. Raises OSError, also when the process is about to end."""
        with self._guard:
            if self._closed:
                message = "the process is about to end"
                raise OSError(message)
            if self._lock >= 0 and not _is_ours(self.path):  # somebody has tidied up
                self._release()
                self._path = None
            if self._lock < 0:
                self.path.mkdir(mode=0o700)
                self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                _take(self._lock)
                if not self._made:
                    self._made = True
                    # removed at the end; and beside the process's work what killed processes have left
                    atexit.register(_own.close)
                    thread = threading.Thread(target=remove_abandoned, name="cellwright-abandoned-folders", daemon=True)
                    with contextlib.suppress(RuntimeError):  # the interpreter is about to end
                        thread.start()
            return self.path

    def close(self) -> None:
        """Remove it, and make no other."""
        with self._guard:
            self._closed = True
            if self._lock < 0:
                return
        # a thread that is at work when the process ends may put something into a folder that is being removed
        for _ in range(5):
            remove(self.path)
            if not self.path.exists():
                break
        self._release()
        remove(self.path)  # Windows removes no file that is open, and the lock was

    def forget(self) -> None:
        """In a forked process: the folder is the parent's."""
        lock, self._lock, self._path, self._closed = self._lock, -1, None, False
        self._guard = threading.RLock()
        if lock >= 0:
            os.close(lock)

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


_own = _ProcessFolder()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own.forget)


def process_folder(*, made: bool = True) -> Path:
    """The folder of this process's temporary files; with `made=False` its name, whether it is there or not.

    Raises OSError when it cannot be made.
    """
    return _own.make() if made else _own.path


def new_folder(kind: str) -> Path:
    """Make a folder for this user alone, `kind` in its name, that goes with the process at the latest. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=_own.make()))


def shared_folder() -> Path:
    """The folder by which we and what runs in a container hand files to each other. Raises OSError."""
    folder = _own.make() / "shared"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextlib.contextmanager
def scratch_folder(kind: str, *, shared: bool = False) -> Iterator[Path]:
    """Make a folder for the time of the block, in the one that is `shared` or not. Raises OSError when it cannot be made."""
    folder = shared_folder() / f"{kind}-{secrets.token_hex(4)}" if shared else new_folder(kind)
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        yield folder
    finally:
        remove(folder)


def new_file(kind: str, suffix: str = "", folder: Path | None = None) -> tuple[int, Path]:
    """Make a file for this user alone, by default in the process's folder; gives its descriptor too. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f"{kind}-", suffix=suffix, dir=_own.make() if folder is None else folder)
    return descriptor, Path(name)


def remove(folder: Path) -> None:
    """Remove a folder with its lock last: without it, nobody would end what was begun."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                _remove_tree(path)
            elif path.name != LOCK:
                path.unlink()
    _remove_tree(folder)


def _remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():  # with folders that nobody may open
        for top, folders, _ in os.walk(path):
            for folder in (top, *(each for name in folders if not os.path.islink(each := f"{top}/{name}"))):  # noqa: PTH114
                with contextlib.suppress(OSError):
                    os.chmod(folder, 0o700)  # noqa: PTH101
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the folders of processes that have ended without doing it."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(entry)


def _is_ours(path: Path) -> bool:
    # others may make a folder where it was, and would own what is put into it
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and (sys.platform == "win32" or status.st_uid == os.geteuid())


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False) or not _is_ours(Path(entry.path)):
        return
    lock = os.open(f"{entry.path}/{LOCK}", os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        # a younger folder may be one whose lock is about to be taken
        abandoned = time.time() - os.fstat(lock).st_mtime > 60 and _take(lock)
        if abandoned:
            remove(Path(entry.path))
    finally:
        system_locks().close(lock)
    if abandoned:  # as at the end of a process
        remove(Path(entry.path))


def _take(lock: int) -> bool:
    """Lock a file for as long as it is open; False when somebody else has, or where files cannot be locked."""
    try:
        return system_locks().try_lock(lock)
    except OSError:
        return False
