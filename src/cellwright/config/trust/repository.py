"""Facts about a folder that need no belief in it: the root of its project, and whether git tracks a file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_LONGEST_LINK = 8_192
GIT_SECONDS = 5.0
_PASSED_ON = ("HOME", "PATH", "XDG_CONFIG_HOME", "SYSTEMROOT", "USERPROFILE", "TMPDIR")


def project_folder(cwd: Path) -> Path:
    """The root of the git work tree that `cwd` is in, or `cwd` itself. Runs nothing."""
    cwd = cwd.absolute()
    # Path.exists raises where a folder above may not be entered
    return next((folder for folder in (cwd, *cwd.parents) if os.path.exists(f"{folder}/.git")), cwd)  # noqa: PTH110


def main_checkout(project: Path) -> Path:
    """The work tree that `project`, a linked worktree (`git worktree add`), belongs to; any other project itself.

    The link is believed only where both ends name each other: else a folder could take another one's place.
    """
    marker = project / ".git"
    try:
        if not os.path.isfile(marker):  # noqa: PTH113  where it may not be looked at, there is none for us
            return project
        gitdir = project / _pointed_at(marker, "gitdir: ")
        back = gitdir / _pointed_at(gitdir / "gitdir")
        common = gitdir / _pointed_at(gitdir / "commondir")
        if back.samefile(marker) and gitdir.parent.name == "worktrees" and gitdir.parent.parent.samefile(common):
            main = common.resolve().parent
            return main if (main / ".git").is_dir() and (main / ".git").samefile(common) else project
    except (OSError, ValueError):  # a submodule, or nothing that git made
        return project
    return project


def _pointed_at(file: Path, prefix: str = "") -> str:
    with file.open("rb") as opened:
        line = opened.read(_LONGEST_LINK).decode("utf-8").strip()
    if not line.startswith(prefix) or "\n" in line or not line:
        raise ValueError(f"{file} is not a link of git's")
    return line.removeprefix(prefix)


def is_tracked(project: Path, file: Path, environ: Mapping[str, str]) -> bool:
    """Return whether git tracks `file` of `project`, in any spelling of its name, or a folder of it as a submodule.

    Of a folder: whether git tracks anything in it. True if that cannot be learnt. Git is asked so that nothing the
    repository configures can run: no file system monitor, no hook, no fetch.
    """
    if not os.path.lexists(project / ".git"):
        return False
    git = shutil.which("git", path=_absolute_only(environ.get("PATH", os.defpath)))
    if git is None:
        return True
    within = file.relative_to(project)
    # a submodule has one entry, its folder's, whether it is checked out or not
    places = [place.as_posix() for place in (within, *within.parents) if place.parts]
    pathspecs = [f":(top,icase,literal){place}" for place in places]
    command = [git, "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "--no-optional-locks"]
    try:
        done = subprocess.run(
            [*command, "ls-files", "--cached", "-z", "--", *pathspecs],
            cwd=project,
            env={name: environ[name] for name in _PASSED_ON if name in environ}
            | {"LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    known, below = {place.casefold() for place in places}, f"{places[0].casefold()}/"
    names = [os.fsdecode(name).casefold() for name in done.stdout.split(b"\0")]
    return done.returncode != 0 or any(name in known or name.startswith(below) for name in names)


def _absolute_only(search_path: str) -> str:
    # an empty or relative entry would find a `git` that the folder brings along
    return os.pathsep.join(entry for entry in search_path.split(os.pathsep) if os.path.isabs(entry))  # noqa: PTH117
