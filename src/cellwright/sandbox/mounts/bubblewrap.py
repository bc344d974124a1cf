"""bubblewrap: a command sees only the folders that are mounted for it, in namespaces of its own.

What is hidden is covered by something that nobody may read; what is protected is mounted read-only over the writable
folder that it lies in, and so are the folders on the way to it, lest they be renamed. It is never told to end with its
parent: servers are to outlive the command that started them, and the watchdog knows the group. Its own ban of user
namespaces is not used either: the filter refuses them, and the ban takes as long as the command.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from cellwright.sandbox.mounts.placeholders import first_missing, placeholder
from cellwright.sandbox.mounts.staging import Staging
from cellwright.sandbox.paths import below, exists, outermost
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError
from cellwright.sandbox.seccomp import Filter, program

PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/opt/homebrew/bin")
"""The folders that the program is looked for in: not on PATH, on which a project may have put its own."""

MOST_MOUNTS = 200
"""As many as what is hidden and protected may take; they cost 60 ms."""

_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_OWN_MOUNTS = ("/proc", "/dev")


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
) -> list[str]:
    """Build what comes before a command's own arguments; it writes into what is `staged` instead of the folders."""
    mounts = dict(_covers(bounds, private, () if staged is None else staged.folders))
    for path in (*bounds.read, *bounds.data):
        # what is closed to us would end bubblewrap, and what is not there takes its time
        if path not in _OWN_MOUNTS and exists(path):
            mounts.setdefault(path, ("--ro-bind-try", path))
    for path in (*bounds.write, *bounds.temporary):
        mounts[path] = ("--bind", staged.merged(path) if staged and path in staged.folders else path)
    network = [] if bounds.network == "any" else ["--unshare-net"]
    # where the overlays are mounted it is root
    user = ["--uid", str(os.getuid()), "--gid", str(os.getgid())] if staged else []
    built = [bwrap, *_NAMESPACES, *user, *network, "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    # what lies deeper is mounted later
    for path in sorted(mounts, key=lambda path: path.split("/")):
        option, source = mounts[path]
        built += [option, source, path]
    visible = (*bounds.read, *bounds.data, *bounds.write, *bounds.temporary, *_OWN_MOUNTS)
    for link, target in bounds.links:
        if not any(below(link, path) for path in visible):
            built += ["--symlink", target, link]
    if not any(below(cwd, path) for path in visible):
        built += ["--dir", cwd]
    built += ["--remount-ro", "/", "--chdir", cwd]
    return [*built, "--seccomp", str(filter_fd), "--info-fd", str(status_fd), "--"]


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


def _covers(bounds: Bounds, private: PrivateFolder, staged: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The mounts over what is hidden and protected."""
    for path in bounds.hidden:
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
