"""bubblewrap: a command sees only the folders that are mounted for it, in namespaces of its own.

What is hidden is covered by something that nobody may read; what is protected is mounted read-only over the writable
folder that it lies in, and so are the folders on the way to it, lest they be renamed. Processes and devices are the
sandbox's own, whatever the bounds name, and the kernel's settings are read-only: that is mounted over the host's. It is
never told to end with its parent: servers are to outlive the command that started them, and the watchdog knows the group.
Its own ban of user namespaces is not used either: the filter refuses them, and the ban takes as long as the command.

A mount needs something that it covers. For what is protected and does not exist yet that is a placeholder: an empty file or
folder in the user's project, there while a command runs. It is known by its time, the beginning of the epoch, and locked by
each command that needs it: the last one removes it, also where an earlier one was killed. What somebody wrote into
meanwhile is no placeholder any more, and stays.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from cellwright.sandbox.paths import HARDWARE, below, exists, kernel_places, masked_files, outermost
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError
from cellwright.sandbox.seccomp import Filter, program
from cellwright.sandbox.staging import Staging
from cellwright.text import lazy_pattern

if sys.platform != "win32":
    import fcntl

_FOLDERS = frozenset({".git", ".claude", ".vscode", ".idea", ".husky", ".devcontainer", ".github", "hooks", "agents"})
"""Names of folders: where a file stood instead, a program that looks for one would fail."""

PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/opt/homebrew/bin")
"""The folders that the program is looked for in: not on PATH, on which a project may have put its own."""

MOST_MOUNTS = 200
"""As many as what is hidden and protected may take; they cost 60 ms."""

_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_OWN_MOUNTS = ("/proc", "/dev")
_OF_A_PROCESS = lazy_pattern(r"/proc/(?:\d+|self|thread-self)(?:/|$)")


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


def find_program() -> str:
    """The program's path; "" where it is not installed."""
    return next((path for place in PLACES if os.access(path := f"{place}/bwrap", os.X_OK)), "")


def arguments(
    bwrap: str,
    bounds: Bounds,
    private: PrivateFolder,
    *,
    cwd: str,
    filter_fd: int,
    status_fd: int,
    staged: Staging | None = None,
    root: Sequence[str] = (),
) -> list[str]:
    """Build what comes before a command's own arguments; it writes into what is `staged` instead of the folders.

    `root` are the arguments that mount another root than an empty one: an image's files.
    """
    mounts = _mounts(bounds, private, staged, cwd)
    network = [] if bounds.network == "any" else ["--unshare-net"]
    # where the overlays are mounted it is root
    user = ["--uid", str(os.getuid()), "--gid", str(os.getgid())] if staged else []
    built = [bwrap, *_NAMESPACES, *user, *network, "--cap-drop", "ALL", *root]
    # what lies deeper is mounted later
    for path in sorted(mounts, key=lambda path: path.rstrip("/").split("/")):
        built += mounts[path]
    visible = (*bounds.read, *bounds.data, *bounds.write, *bounds.temporary, *_OWN_MOUNTS)
    for link, target in bounds.links:
        if not any(below(link, path) for path in visible):
            built += ["--symlink", target, link]
    if not any(below(cwd, path) for path in visible):
        built += ["--dir", cwd]
    if "/" not in bounds.write and not root:
        built += ["--remount-ro", "/"]
    return [*built, "--chdir", cwd, "--seccomp", str(filter_fd), "--info-fd", str(status_fd), "--"]


def check(bounds: Bounds) -> None:
    """Raise ConfinementError where `bounds` would take too many mounts, or mounts that cannot be made."""
    count = len(bounds.hidden) + len(bounds.protected)
    if count > MOST_MOUNTS:
        message = f"{count:,} places are hidden or protected, and {MOST_MOUNTS} can be"
        raise ConfinementError(message)


def with_placeholders(bounds: Bounds, held: contextlib.ExitStack) -> Bounds:
    """Let something stand where nothing does that is protected, until `held` is closed: it is protected instead."""
    missing = {path: first_missing(path) for path in bounds.protected}
    for place in dict.fromkeys(filter(None, missing.values())):
        held.enter_context(placeholder(place, folder=place not in bounds.protected))
    return replace(bounds, protected=outermost(place or path for path, place in missing.items()))


def open_filter(bounds: Bounds) -> int:
    """Open a descriptor from which the filter for `bounds` is read, once."""
    fd = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(fd, program(Filter(network=bounds.network)))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def open_status() -> tuple[int, int]:
    """Open a pipe through which it tells its first process: where we read, and where it writes.

    It writes to what it can read as well. Where we end before it has told us, it would else end by its own writing, and
    leave the first process waiting for it forever.
    """
    status, written = os.pipe()
    try:
        # opened so, a pipe has both ends (fifo(7))
        return status, os.open(f"/proc/self/fd/{written}", os.O_RDWR)
    except OSError:
        os.close(status)
        raise
    finally:
        os.close(written)


def _mounts(bounds: Bounds, private: PrivateFolder, staged: Staging | None, cwd: str) -> dict[str, list[str]]:
    """Build the mounts, each by its path: what covers others, what is read, what is written, and the sandbox's own."""
    kernels = kernel_places()
    mounts = {
        path: [option, source, path]
        for path, (option, source) in _covers(bounds, private, () if staged is None else staged.folders)
    }
    changed = [path for path in (*bounds.write, *bounds.temporary) if not kernels.hold(path)]
    in_changed = [place for path in changed for place in kernels.below(path)]
    kept = [path for path in bounds.write if kernels.hold(path)]
    tops = (*bounds.read, *bounds.data, *bounds.write)
    if _is_lost_in_memory(cwd, tops, bounds) and not kernels.hold(cwd):
        (changed if any(below(cwd, top) for top in bounds.write) else kept).append(cwd)
    for path in (*bounds.read, *bounds.data, *in_changed, *kept):
        # what is closed to us would end bubblewrap, and what is not there takes its time
        if not _is_own(path) and exists(path):
            mounts.setdefault(path, ["--ro-bind-try", path, path])
    for path in changed:
        mounts[path] = ["--bind", staged.merged(path) if staged and path in staged.folders else path, path]
    # another `/proc` shows the host's processes
    for place in (*kernels.private, *HARDWARE):
        if any(below(place, top) for top in tops) and not _is_own(place) and exists(place):
            mounts[place] = _emptied(place)
    mounts.setdefault("/dev", ["--dev", "/dev"])
    # the sandbox's own processes; all of it is read-only: root could else change how the whole system works
    masks = [word for path in masked_files() for word in _emptied(path)]
    mounts.setdefault("/proc", ["--proc", "/proc", *masks, "--remount-ro", "/proc"])
    return mounts


def _is_lost_in_memory(cwd: str, tops: Sequence[str], bounds: Bounds) -> bool:
    """Return whether the sandbox's own devices cover a project in memory that is visible only as part of `/`.

    What is mounted by itself is not covered, and a mount of its own would lie over what is protected or staged there.
    """
    if not below(cwd, "/dev") or any(below(cwd, place) for place in (*bounds.hidden, *bounds.protected)):
        return False
    holding = [top for top in tops if below(cwd, top)]
    return bool(holding) and not any(below(top, "/dev") and top != "/dev" for top in holding)


def _emptied(path: str) -> list[str]:
    """Mount nothing over what is at `path`."""
    return ["--tmpfs", path] if Path(path).is_dir() else ["--dev-bind", "/dev/null", path]


def _is_own(path: str) -> bool:
    """Return whether the sandbox mounts what is at `path` itself; folders among the devices are none of these."""
    return below(path, "/proc") or (below(path, "/dev") and kernel_places().hold(path))


def _covers(bounds: Bounds, private: PrivateFolder, staged: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The mounts over what is hidden and protected."""
    for path in bounds.hidden:
        if _OF_A_PROCESS.match(path):
            continue  # of a process that the sandbox does not have
        yield path, ("--ro-bind", private.unreadable(folder=Path(path).is_dir()))
    # where the folder of all these lies in one that may be written, what covers must not be replaced
    own = [path for path in [os.path.realpath(private.path)] if any(below(path, top) for top in bounds.write)]
    for path in (*bounds.protected, *own):
        if any(below(path, hidden) for hidden in bounds.hidden):
            continue
        # what is staged is judged by its path at the end, wherever it was moved
        for folder in () if any(below(path, top) for top in staged) else _on_the_way(path, bounds.write):
            yield folder, ("--bind", folder)
        yield path, ("--ro-bind", path)


def _on_the_way(path: str, tops: Sequence[str]) -> Iterator[str]:
    top = next(top for top in tops if below(path, top))
    for parent in reversed(Path(path).parents):
        if str(parent) != top and below(str(parent), top):
            yield str(parent)
