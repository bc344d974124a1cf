"""The data of a Git repository: what of it ordinary work may change, what makes git run programs, and where it lies.

All of `.git` is protected. Where a sandbox is on for every command, git's ordinary work in it needs no question, so this
lists what a commit, a fetch or a rebase changes. Everything else counts as steering git: hooks, configuration, links to
other repositories, and any name that is not known. Three kinds of files are judged by their content, because ordinary work
makes them and they can do harm: the links of a new work tree, and a rebase's list of steps, which may hold commands.

A `.git` file says where git keeps the data of a linked work tree or a submodule. It counts if that folder names the work
tree too: a project brings its `.git` file, and a command may write one, so alone it proves nothing. Git writes both ends of
a link, and the other end lies where the project cannot write.
"""

# Paths are strings here: this runs for each file of a folder, and Path is several times slower.
# ruff: noqa: PTH112, PTH113, PTH114, PTH118, PTH119, PTH120, PTH123, PTH206
from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

from cellwright.permissions.paths import normalised, protected_part
from cellwright.text import lazy_pattern

MOST_READ = 1_000_000
"""Characters of a file that is judged by its content."""

_FOLDERS = frozenset(
    {"objects", "refs", "logs", "rr-cache", "reftable", "lost-found", "rebase-merge", "rebase-apply", "sequencer"}
    | {"notes_merge_worktree", "worktrees", "lfs"}
)
_FILES = lazy_pattern(
    r"(?:(?:[a-z]+_)*head|auto_merge|(?:commit|tag|notes)_editmsg|(?:merge|squash)_msg|merge_(?:mode|rr|autostash)"
    r"|add_edit\.patch|edit_description|description|index|sharedindex\.[0-9a-f]+|next-index-\d+|packed-refs|shallow"
    r"|gc\.log|gc\.pid|bisect_\w+|locked|notes_merge_\w+)(?:\.lock|\.new)?"
)
_INFO = frozenset({"exclude", "refs", "sparse-checkout", "commit-graph", "commit-graphs", "packs"})
_STEPS = frozenset({"git-rebase-todo", "git-rebase-todo.backup", "todo"})
_STEP = lazy_pattern(
    r"(?:#.*|(?:pick|p|revert|reword|r|edit|e|squash|s|fixup|f|drop|d|break|b|label|l|reset|t|merge|m|update-ref|u|noop)"
    r"(?:\s.*)?)?"
)

LONGEST = 64_000
"""More of a file is not read."""

_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_WORK_TREE = lazy_pattern(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE)


def steers_git(path: str) -> bool:
    """Return whether the content of `path`, in a folder `.git`, makes git run programs or look elsewhere."""
    names = path.lower().split(os.sep)
    if ".git" not in names:
        return True  # in another spelling
    at = names.index(".git")
    if protected_part(os.sep.join(names[:at])):
        return True
    below = names[at + 1 :]
    if not below:
        return os.path.islink(path) or not os.path.isdir(path)
    if below[0] == "worktrees" and len(below) > 2:
        below = below[2:]
    first, *rest = below
    if first == "info":
        return bool(rest) and rest[0].removesuffix(".lock") not in _INFO
    if first == "objects" and rest[:1] == ["info"] and len(rest) > 1:
        return "alternates" in rest[1]
    if first in ("rebase-merge", "sequencer") and rest and rest[0] in _STEPS:
        return True
    return first not in _FOLDERS and not _FILES.fullmatch(first)


def is_ordinary(path: str, made: str, folders: Sequence[str]) -> bool:
    """Return whether the file `made`, which is to stand at `path` and steer git, is what git's ordinary work makes.

    `folders`: the session's, as real paths. A link to a repository may lead only to one that is there in them.
    """
    names = path.split(os.sep)
    if ".git" not in names or os.path.islink(made) or not os.path.isfile(made):
        return False
    below = names[names.index(".git") + 1 :]
    text = _text(made)
    if not below:
        return _links_work_tree(path, text, folders)
    if below[0] == "worktrees" and len(below) > 2:
        below = below[2:]
        if below == ["commondir"]:
            return text.strip() == "../.."
        if below == ["gitdir"]:
            return text.strip().endswith("/.git") and "\n" not in text.strip()
    if len(below) == 2 and below[0] in ("rebase-merge", "sequencer") and below[1] in _STEPS:
        return all(_STEP.fullmatch(line) for line in text.splitlines())
    return False


def _links_work_tree(path: str, text: str, folders: Sequence[str]) -> bool:
    """Return whether a file `.git` at `path` says that its folder is a work tree of a repository in `folders`."""
    line, _, more = text.partition("\n")
    if not line.startswith("gitdir: ") or more.strip():
        return False
    data = normalised(os.path.join(os.path.dirname(path), line.removeprefix("gitdir: ").strip()))
    common, kind = os.path.split(os.path.dirname(data))
    return (
        kind == "worktrees"
        and os.path.basename(common) == ".git"
        and os.path.isdir(common)
        and os.path.realpath(common) == common
        and any(common.startswith(f"{folder}{os.sep}") or common == folder for folder in folders)
    )


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as content:
            text = content.read(MOST_READ + 1)
    except OSError:  # closed to us
        return "\0"
    return text if len(text) <= MOST_READ else "\0"


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
