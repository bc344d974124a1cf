"""Staging: a command changes an overlay over a folder, and its changes are made in the folder itself once they were judged.

No mount can protect what only a pattern names and does not exist yet: an archive may hold `sub/.git/hooks/post-commit`. So
nothing that the command does reaches the disk while it runs. At its end every path that it changed is looked at, and either
all of it is done or nothing. A command that is killed has changed nothing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cellwright.sandbox.mounts.staged_changes import make_changes, refused_changes
from cellwright.sandbox.paths import below
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.this_process.temporary_files import scratch_folder

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
