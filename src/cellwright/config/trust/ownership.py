"""Whose file is it: the user's own, or one that the folder, another user or another program may have brought?

A name like `settings.local.json` proves nothing. A file of a project is the user's own only if git does not track it,
no link, submodule or other repository lies on its way, and nobody else can write it or replace it.
docs/decisions/trust.md has the reasons.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from cellwright.config.trust.repository import is_tracked

_OTHER_HISTORIES = (".hg", ".svn", ".bzr", ".jj", ".sl", "_darcs", ".fslckout", "_FOSSIL_")
"""Marks of version control that we do not ask: such a project may have brought any file in it."""

_ACCESS_LIST = "system.posix_acl_access"


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
