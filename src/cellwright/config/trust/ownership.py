"""Facts about a folder that need no belief in it: whose its files are, the root of its project, whether git tracks a file.

A file may be the user's own, or one that the folder, another user or another program may have brought. A name like
`settings.local.json` proves nothing. A file of a project is the user's own only if git does not track it, no link,
submodule or other repository lies on its way, and nobody else can write it or replace it. docs/decisions/trust.md has the
reasons.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_LONGEST_LINK = 8_192
GIT_SECONDS = 5.0
_PASSED_ON = ("HOME", "PATH", "XDG_CONFIG_HOME", "SYSTEMROOT", "USERPROFILE", "TMPDIR")

_OTHER_HISTORIES = (".hg", ".svn", ".bzr", ".jj", ".sl", "_darcs", ".fslckout", "_FOSSIL_")
"""Marks of version control that we do not ask: such a project may have brought any file in it."""

_ACCESS_LIST = "system.posix_acl_access"


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


def carried_by(project: Path, file: Path, environ: Mapping[str, str]) -> str:
    """Return how `project` may carry `file` to everybody who gets it, in words; "" if it does not."""
    if any(path.is_symlink() for path in _way(project, file)):
        return "behind a symlink"
    if any(os.path.lexists(folder / ".git") for folder in _way(project, file.parent)):
        return "in a repository within the project"
    if is_tracked(project, file, environ):
        return "tracked by git (or git cannot tell)"
    return ""


def not_own(project: Path, file: Path, environ: Mapping[str, str]) -> str:
    """Return why `file` of `project` does not count as written by the user, in words; "" if it does."""
    if carried := carried_by(project, file, environ):
        return carried
    if not os.path.lexists(project / ".git") and any(
        os.path.lexists(folder / mark) for folder in (project, *project.parents) for mark in _OTHER_HISTORIES
    ):
        return "in a project of another version control system"
    return next(filter(None, map(others_can_write, (project, *_way(project, file)))), "")


def others_can_write(path: Path) -> str:
    """Return how someone else than this process's user may have written `path`, in words; "" if nobody."""
    try:
        status = path.lstat()
    except OSError:
        return f"not to be looked at ({path})"
    if not hasattr(os, "geteuid"):  # Windows: its access lists are not judged
        return ""
    if status.st_uid != os.geteuid():
        return f"behind {path}, which belongs to another user" if stat.S_ISDIR(status.st_mode) else "another user's"
    if stat.S_ISDIR(status.st_mode):
        # in a sticky folder others can add names, not replace ours
        shared = not status.st_mode & stat.S_ISVTX and _is_shared(path, status)
        return f"in {path}, where others can write" if shared else ""
    if not stat.S_ISREG(status.st_mode):
        return "no file"
    if status.st_nlink > 1:
        return "known by another name (a hard link)"
    return "writable by others" if _is_shared(path, status) else ""


def _way(project: Path, file: Path) -> Iterator[Path]:
    """Each path from below `project` down to `file`."""
    here = project
    for name in file.relative_to(project).parts:
        here = here / name
        yield here


def _is_shared(path: Path, status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and (_has_access_list(path) or not _is_private_group(status.st_gid))


def _has_access_list(path: Path) -> bool:
    """Return whether the group's bits stand for a list of users (or may)."""
    if not hasattr(os, "listxattr"):
        return False
    try:
        return _ACCESS_LIST in os.listxattr(path, follow_symlinks=False)
    except OSError:  # a file system without them
        return False


def _is_private_group(gid: int) -> bool:
    """Return whether the group is the user's alone, as many systems make one for each user."""
    if sys.platform == "win32":
        return False
    import grp  # POSIX only, and needed for group-writable files only
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
