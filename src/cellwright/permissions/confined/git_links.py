"""`.git` files: where git keeps the data of a linked work tree or a submodule, if that folder names the work tree too.

A project brings its `.git` file, and a command may write one: alone it proves nothing. Git writes both ends of a link, and
the other end lies where the project cannot write.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH113, PTH114, PTH118, PTH120

from __future__ import annotations

import os
import re
import stat

from cellwright.text import lazy_pattern

LONGEST = 64_000
"""More of a file is not read."""

_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_WORK_TREE = lazy_pattern(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE)


def read_briefly(path: str, longest: int = LONGEST) -> str:
    """Read up to `longest` bytes of a text that anybody may have made; "" if it is absent, closed to us, or no file.

    A named pipe or a device would keep the reader forever.
    """
    try:
        opened = os.open(path, _READING)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""
        data = os.read(opened, longest)
    except OSError:
        return ""
    finally:
        os.close(opened)
    return data.decode("utf-8", "surrogateescape")


def linked_git_data(git: str) -> str:
    """The folder of the repository that the `.git` file at `git` belongs to; "" if that does not name the file in turn."""
    if os.path.islink(git) or not os.path.isfile(git):
        return ""
    git = os.path.realpath(git)
    top = os.path.dirname(git)
    data = _named_in(git, top, "gitdir:")
    if not data or not os.path.isfile(os.path.join(data, "HEAD")):
        return ""
    if own := _named_in(os.path.join(data, "gitdir"), data):  # a linked work tree
        common = _named_in(os.path.join(data, "commondir"), data)
        proper = own == git and os.path.dirname(data) == os.path.join(common, "worktrees")
        return common if proper and os.path.isfile(os.path.join(common, "HEAD")) else ""
    found = _WORK_TREE.search(read_briefly(os.path.join(data, "config")))  # a submodule
    return data if found and os.path.realpath(os.path.join(data, found[1].strip('"'))) == top else ""


def _named_in(file: str, folder: str, before: str = "") -> str:
    """The real path that the first line of `file` holds, as seen from `folder`; "" if it holds none."""
    line = read_briefly(file).partition("\n")[0]
    named = line.removeprefix(before).strip() if line.startswith(before) else ""
    return os.path.realpath(os.path.join(folder, named)) if named and "\0" not in named else ""
