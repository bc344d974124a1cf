"""Staging: a command changes an overlay over a folder, and its changes are made in the folder itself once they were judged.

No mount can protect what only a pattern names and does not exist yet: an archive may hold `sub/.git/hooks/post-commit`. So
nothing that the command does reaches the disk while it runs. At its end every path that it changed is looked at, and either
all of it is done or nothing. A command that is killed has changed nothing.

In an upper folder stands what is new or different, and a device without a number for what is gone. A folder that replaced
another one is marked. Links are followed nowhere: each folder is opened by its name in the one before.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from cellwright.sandbox.paths import below
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.text import visible_line
from cellwright.this_process.files import scratch_folder

MOST_GONE = 20_000
"""Files looked at below a folder that is gone."""

MOST_DEEP = 200
"""Folders in folders: each takes its share of the stack."""

_NOT_COPIED = ("user.overlay.", "trusted.", "security.")
"""Attributes that are the overlay's own, or give rights."""
_REPLACES = "user.overlay.opaque"
_FOR_ALL_USERS = stat.S_ISUID | stat.S_ISGID
_AS_IT_IS = os.O_RDONLY

TRY_SECONDS = 30.0
"""A busy machine must not lose what a free one has."""

_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin")
_SCRIPT = """
cd "$1" || exit
for each in */; do
  folders="lowerdir=${each}lower,upperdir=${each}upper,workdir=${each}work"
  "$0" -t overlay overlay -o "$folders,userxattr,volatile" "${each}merged" || exit
done
shift
exec "$@"
"""


if sys.platform != "win32":
    _AS_IT_IS |= os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Change(Struct, frozen=True):
    """A change of what is at `path` in the lower folder: `new` is there now, or None; `old` was, or None.

    `target` is where a link that is new leads.
    """

    path: str
    new: os.stat_result | None
    old: os.stat_result | None
    target: str = ""


def refused_changes(
    folder: str, upper: str, tops: Sequence[str], against: Callable[[str, str], str], started: int
) -> Iterator[str]:
    """Say what of the changes in `upper` is not to be made in `folder`, and why; nothing where all may be.

    `tops` are the folders that links may lead into; `against` judges a path and what is to stand there, if anything. What
    others have changed in the lower folder since `started`, in nanoseconds, is not to be lost.
    """
    for change in _changes(folder, upper, MOST_DEEP):
        shown = visible_line(os.path.relpath(change.path, folder))
        made = "" if change.new is None else f"{upper}{change.path[len(folder) :]}"
        if why := against(change.path, made):
            yield f"{shown} {why}"
        elif change.old is not None and change.old.st_ctime_ns > started and not _both_folders(change):
            yield f"{shown} was changed meanwhile from outside"
        elif change.new is None or stat.S_ISDIR(change.new.st_mode):
            continue
        elif stat.S_ISLNK(change.new.st_mode):
            if not _stays_inside(change.path, change.target, tops):
                yield f"{shown} would be a link that leads out of the session's folders"
        elif not stat.S_ISREG(change.new.st_mode):
            yield f"{shown} would be neither a file nor a folder"
        elif change.new.st_mode & _FOR_ALL_USERS and (change.old is None or change.old.st_mode != change.new.st_mode):
            yield f"{shown} would run with its owner's rights"


def make_changes(folder: str, upper: str) -> None:
    """Make the changes in `upper` in `folder`: first all that is new, then what is gone. Raises OSError."""
    for pass_over in (_Making(folder), _remove_gone):
        with _opened(folder) as here, _opened(upper) as there:
            pass_over(here, there)


def _changes(folder: str, upper: str, deep: int, *, fresh: bool = False) -> Iterator[_Change]:
    """Yield what differs below a folder: a folder that is there in both is one only where its mode is another.

    `fresh`: there is no such folder in the lower one. A link there, to wherever, is none.
    """
    if not deep:
        message = f"there are more than {MOST_DEEP} folders in each other"
        raise OSError(message)
    names = set()
    for entry in os.scandir(upper):
        path = f"{folder}/{entry.name}"
        names.add(entry.name)
        new, old = entry.stat(follow_symlinks=False), None if fresh else _status(path)
        if _is_gone(new):
            yield from _all_gone(path, old)
            continue
        if old is not None and stat.S_ISDIR(old.st_mode) and not stat.S_ISDIR(new.st_mode):
            yield from _all_gone(path, old)
        change = _Change(path, new, old, str(Path(entry.path).readlink()) if entry.is_symlink() else "")
        if not (old and _both_folders(change) and stat.S_IMODE(new.st_mode) == stat.S_IMODE(old.st_mode)):
            yield change
        if stat.S_ISDIR(new.st_mode):
            is_new = old is None or not stat.S_ISDIR(old.st_mode)
            yield from _changes(path, entry.path, deep - 1, fresh=is_new)
    if _replaces(upper) and not fresh:
        for entry in os.scandir(folder):
            if entry.name not in names:
                yield from _all_gone(entry.path, entry.stat(follow_symlinks=False))


def _all_gone(path: str, old: os.stat_result | None) -> Iterator[_Change]:
    if old is None:
        return
    yield _Change(path, None, old)
    if not stat.S_ISDIR(old.st_mode):
        return
    left = MOST_GONE
    for here, folders, files in os.walk(path):
        left -= len(folders) + len(files)
        if left < 0:
            message = f"{path} holds more than {MOST_GONE:,} files that would be gone"
            raise OSError(message)
        for name in (*folders, *files):
            if (status := _status(f"{here}/{name}")) is not None:
                yield _Change(f"{here}/{name}", None, status)


class _Making:
    """Makes in one folder what is new in another; files of several names get these again."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._made: dict[int, str] = {}

    def __call__(self, here: int, there: int, path: str = "") -> None:
        """Make in the folder `here`, at `path` of the whole, what is new `there`."""
        for entry in os.scandir(there):
            name, new = entry.name, entry.stat(follow_symlinks=False)
            if _is_gone(new):
                continue
            old = _status(name, here)
            if old is not None and stat.S_ISDIR(old.st_mode) != stat.S_ISDIR(new.st_mode):
                _remove(here, name)
                old = None
            if stat.S_ISDIR(new.st_mode):
                self._make_folder(here, there, name, new, old, f"{path}/{name}")
            else:
                self._put(here, there, name, new, f"{path}/{name}")

    def _make_folder(
        self, here: int, there: int, name: str, new: os.stat_result, old: os.stat_result | None, path: str
    ) -> None:
        if old is None:
            os.mkdir(name, 0o700, dir_fd=here)
        with _opened(name, here) as mine, _opened(name, there) as its:
            with _writable(mine):
                self(mine, its, path)
            if old is None or stat.S_IMODE(old.st_mode) != stat.S_IMODE(new.st_mode):
                os.fchmod(mine, stat.S_IMODE(new.st_mode))
            if old is None:
                os.utime(mine, ns=(new.st_atime_ns, new.st_mtime_ns))

    def _put(self, here: int, there: int, name: str, new: os.stat_result, path: str) -> None:
        """Put what is no folder in its place, by a change of names."""
        temporary = f".{secrets.token_hex(8)}"
        try:
            if stat.S_ISLNK(new.st_mode):
                os.symlink(os.readlink(name, dir_fd=there), temporary, dir_fd=here)
            elif new.st_ino in self._made:
                other = f"{self._folder}{self._made[new.st_ino]}"
                os.link(other, temporary, dst_dir_fd=here, follow_symlinks=False)
            else:
                _copy(here, there, name, temporary, new)
                if new.st_nlink > 1:
                    self._made[new.st_ino] = path
            os.replace(temporary, name, src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=here)
            raise


def _remove_gone(here: int, there: int) -> None:
    names = set()
    for entry in os.scandir(there):
        names.add(entry.name)
        status = entry.stat(follow_symlinks=False)
        if _is_gone(status):
            _remove(here, entry.name)
        elif stat.S_ISDIR(status.st_mode):
            with _opened(entry.name, here) as mine, _opened(entry.name, there) as its, _writable(mine):
                _remove_gone(mine, its)
    if _replaces(there):
        for name in set(os.listdir(here)) - names:
            _remove(here, name)


def _copy(here: int, there: int, name: str, temporary: str, new: os.stat_result) -> None:
    if not new.st_mode & stat.S_IRUSR:
        os.chmod(name, stat.S_IRUSR, dir_fd=there)  # no link: that was looked at
    with _closing(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=there)) as source:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with _closing(os.open(temporary, flags, 0o600, dir_fd=here)) as copied:
            _copy_data(source, copied, new.st_size)
            for attribute in os.listxattr(source):
                if not attribute.startswith(_NOT_COPIED):
                    with contextlib.suppress(OSError):  # the disk, or the system, keeps it for others
                        os.setxattr(copied, attribute, os.getxattr(source, attribute))
            os.fchmod(copied, stat.S_IMODE(new.st_mode))
            os.utime(copied, ns=(new.st_atime_ns, new.st_mtime_ns))


def _copy_data(source: int, copied: int, size: int) -> None:
    """Copy what a file holds; where nothing was written (`truncate -s 1T`) no room is taken, either."""
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nothing is behind it
                raise
            break
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(copied, at, os.SEEK_SET)
        while at < end and (sent := os.sendfile(copied, source, at, end - at)):
            at += sent
    os.ftruncate(copied, size)


def _remove(at: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=at)
        else:
            os.unlink(name, dir_fd=at)


def _stays_inside(path: str, target: str, tops: Sequence[str]) -> bool:
    """Return whether a link at `path` to `target` leads into `tops`, wherever the links lead that it goes through."""
    names = target.split("/")
    climbing = [name for index, name in enumerate(names) if name == ".." and set(names[:index]) - {"..", ".", ""}]
    if climbing:
        return False  # where it climbs from may be a link, too
    meant = os.path.normpath(Path(path).parent / target)
    return all(any(below(place, top) for top in tops) for place in (meant, os.path.realpath(meant)))


def _both_folders(change: _Change) -> bool:
    return all(status is not None and stat.S_ISDIR(status.st_mode) for status in (change.new, change.old))


def _is_gone(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _replaces(folder: str | int) -> bool:
    """Return whether nothing shows through `folder`."""
    with contextlib.suppress(OSError):
        return os.getxattr(folder, _REPLACES) == b"y"
    return False


def _status(path: str, folder: int | None = None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:  # nothing is there
        return None


@contextmanager
def _opened(name: str, folder: int | None = None) -> Iterator[int]:
    with _closing(os.open(name, _AS_IT_IS, dir_fd=folder)) as fd:
        yield fd


@contextmanager
def _closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _writable(folder: int) -> Iterator[None]:
    """Write in an open folder, which its owner may have closed to himself as the command did."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & stat.S_IRWXU == stat.S_IRWXU:
        yield
        return
    os.fchmod(folder, mode | stat.S_IRWXU)
    try:
        yield
    finally:
        os.fchmod(folder, mode)


class Staging:
    """The overlays of one command, over each of `folders`, made by whoever runs what `wrapped` returns.

    They lie in `place`, which is made here and removed by `close`.
    """

    def __init__(self, folders: Sequence[str], place: str) -> None:
        self.folders = tuple(folders)
        self._place = place
        for number, folder in enumerate(folders):
            for name in ("upper", "work", "merged"):
                Path(place, str(number), name).mkdir(parents=True)
            # a link, since what the folder is called could not be written as an option
            Path(place, str(number), "lower").symlink_to(folder)
        # by the clock of the disk, which is a tick behind ours
        self._started = Path(place).stat().st_ctime_ns

    def merged(self, folder: str) -> str:
        """The folder that stands for `folder`."""
        return f"{self._place}/{self.folders.index(folder)}/merged"

    def wrapped(self, arguments: Sequence[str]) -> list[str]:
        """Return what runs `arguments` where the overlays are mounted, which nobody else sees."""
        unshare, mount = _programs()
        return [
            unshare,
            "--user",
            "--map-root-user",
            "--mount",
            "/bin/sh",
            "-c",
            _SCRIPT,
            mount,
            self._place,
            *arguments,
        ]

    def finish(self, against: Callable[[str, str], str]) -> str:
        """Make what the command changed, once it has ended; what kept that from being made, "" where nothing did.

        `against` says why a path may not be changed to what stands in the upper folder; "" if it may be.
        """
        refused: list[str] = []
        pairs = [(folder, f"{self._place}/{number}/upper") for number, folder in enumerate(self.folders)]
        try:
            for folder, upper in pairs:
                refused += refused_changes(folder, upper, self.folders, against, self._started)
        except OSError as error:  # closed to us, or too much
            refused.append(str(error))
        if refused:
            more = f", and {len(refused) - 3:,} more" if len(refused) > 3 else ""
            return f"Nothing was changed, since not all of it may be: {'; '.join(refused[:3])}{more}."
        try:
            for folder, upper in pairs:
                make_changes(folder, upper)
        except OSError as error:  # no room, or somebody changes the same files
            return f"Not all changes could be made: {error}."
        return ""

    def close(self) -> None:
        """Remove what the overlays hold."""
        for number in range(len(self.folders)):
            with contextlib.suppress(OSError):  # the kernel makes it for itself alone
                Path(self._place, str(number), "work", "work").chmod(0o700)
        shutil.rmtree(self._place, ignore_errors=True)


def why_not_staged() -> str:
    """Say why this machine cannot stage changes; "" where it can."""
    try:
        with scratch_folder("staged") as folder:
            return _tried(str(folder))
    except OSError as error:
        return str(error)


def check_staged(folders: Sequence[str]) -> None:
    """Raise ConfinementError where changes of `folders` cannot be staged."""
    for folder in folders:
        if why := why_unstaged(folder):
            message = f"changes in {folder} cannot be looked at before they are made: {why}"
            raise ConfinementError(message)


def why_unstaged(folder: str) -> str:
    """Say why changes of `folder` cannot be staged; "" if they can."""
    around = os.path.realpath(tempfile.gettempdir())
    if not Path(folder).is_dir():
        return "it is no folder"
    return "the folder of temporary files is in it" if below(around, folder) else _why_not(folder)


@functools.lru_cache(maxsize=32)
def _why_not(folder: str) -> str:
    return _tried(folder)  # which disk a folder is on does not change while a kernel runs


def _tried(folder: str) -> str:
    if not all(_programs()):
        return "unshare and mount are not installed (the package util-linux)"
    try:
        with scratch_folder("staging") as place, contextlib.closing(Staging([folder], f"{place}/tried")) as staging:
            tried = subprocess.run(
                staging.wrapped(["true"]), capture_output=True, text=True, timeout=TRY_SECONDS, check=False
            )
    except subprocess.TimeoutExpired:
        return f"it did not end within {TRY_SECONDS:.0f} s"
    except OSError as error:
        return str(error)
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"exit code {tried.returncode}"


@functools.cache
def _programs() -> tuple[str, str]:
    """The paths of `unshare` and `mount`, not by PATH, on which a project may have put its own; "" for what is missing."""

    def find(name: str) -> str:
        return next((path for folder in _FOLDERS if os.access(path := f"{folder}/{name}", os.X_OK)), "")

    return find("unshare"), find("mount")
