"""Repositories whose configuration runs nothing, and which lead nowhere else: looked at, never run.

Even `git status` runs what `core.fsmonitor`, a filter, a `textconv` or a hook names, and a folder that somebody unpacked
brings its own `.git/config`. So the configuration must be of plain keys only, the repository must be the one the session
works in, and nothing may be nested in it that Git would enter.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH100, PTH110, PTH112, PTH113, PTH114, PTH116, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence
from functools import lru_cache

from cellwright.permissions.confined.git_links import read_briefly
from cellwright.permissions.paths import inside
from cellwright.text import lazy_pattern

MAX_CONFIG = 200_000
MAX_INDEX = 64_000_000
MAX_SHORT = 4096
MAX_CONTROL_FOLDERS = 5_000
"""Folders in `.git` that are looked at; a repository with more counts as leading elsewhere."""
_SUBMODULE = 0o160000
"""The mode by which the index says that an entry is another repository."""
_HEADER, _ENTRY, _EXTENDED = 12, 62, 0x4000
_SECTION = lazy_pattern(r'\[\s*(?P<name>[\w.-]+)\s*(?:"(?P<sub>(?:[^"\\\n]|\\.)*)")?\s*\]')
_KEY = lazy_pattern(r"(?P<key>[A-Za-z][\w-]*)\s*(?:=\s*(?P<value>.*))?")
_PLAIN = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol"
    " safecrlf abbrev quotepath longpaths untrackedcache protecthfs protectntfs compression bigfilethreshold",
    "remote": "url fetch pushurl prune tagopt pushdefault gh-resolved",
    "branch": "remote merge rebase description pushremote vscode-merge-base gh-merge-base autosetuprebase autosetupmerge"
    " sort",
    "user": "name email signingkey useconfigonly",
    "author": "name email",
    "committer": "name email",
    "pull": "rebase ff",
    "push": "default autosetupremote followtags",
    "fetch": "prune prunetags parallel",
    "merge": "ff conflictstyle",
    "rebase": "autosquash autostash updaterefs",
    "commit": "gpgsign verbose",
    "tag": "gpgsign sort",
    "init": "defaultbranch",
    "gc": "auto autodetach",
    "maintenance": "auto strategy",
    "index": "version threads",
    "feature": "manyfiles experimental",
    "advice": "",
    "color": "",
    "column": "",
    "status": "showuntrackedfiles short branch relativepaths",
    "log": "date decorate follow abbrevcommit",
    "lfs": "repositoryformatversion",
    "gui": "",
    "diff": "renames algorithm colormoved mnemonicprefix context",
    "extensions": "objectformat refstorage worktreeconfig",
}
"""Sections and keys that name no program and no other file; "" is all keys of a section."""


def repository_of(folder: str) -> str | None:
    """The top of the repository that Git would find from `folder`, as a real path; None where that is none or unclear."""
    try:
        folder = os.path.realpath(folder)
    except ValueError:  # no folder can have such a name
        return None
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        if os.path.exists(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects")):
            return None  # Git takes it for a repository without a work tree
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def reading_runs_nothing(folder: str, own_folders: Sequence[str]) -> bool:
    """Return whether Git, reading in `folder`, is in a session repository (`own_folders`) that has it run nothing."""
    top = repository_of(folder)
    if top is None or top not in {repository_of(own) for own in own_folders}:
        return False
    control = _control_folders(top)
    if control is None or read_elsewhere(top, own_folders) is not None:
        return False
    git_dir, common = control
    configs = (os.path.join(common, "config"), os.path.join(git_dir, "config.worktree"))
    if not all(_is_plain(path) for path in configs):
        return False
    if os.path.exists(os.path.join(common, "hooks", "post-index-change")):
        return False
    # an index in two files is not looked through
    return not _is_split(git_dir) and not _holds_submodules(os.path.join(git_dir, "index"))


def _control_folders(top: str) -> tuple[str, str] | None:
    """The folder of the work tree's own state and the one it shares with other work trees."""
    git_dir = os.path.join(top, ".git")
    if os.path.islink(git_dir):
        return None
    if os.path.isfile(git_dir):
        pointer = _short_text(git_dir)
        if not pointer.startswith("gitdir: "):
            return None
        git_dir = os.path.abspath(os.path.join(top, pointer.removeprefix("gitdir: ").strip()))
    if not os.path.isdir(git_dir):
        return None
    common = _short_text(os.path.join(git_dir, "commondir")).strip()
    return git_dir, os.path.abspath(os.path.join(git_dir, common)) if common else git_dir


def read_elsewhere(top: str, own_folders: Sequence[str]) -> str | None:
    """A place outside `own_folders` that Git would read for what is in the repository at `top`; None where there is none.

    A `.git` file, `commondir`, `alternates` and links lead there. The repository that a folder of the session is in is not
    outside, nor is one that names this work tree as its own: who set that up may write there.
    """
    control = _control_folders(top)
    if control is None:
        return os.path.join(top, ".git")
    own = [os.path.realpath(folder) for folder in own_folders]
    if any(inside(folder, [os.path.realpath(top)]) for folder in own):
        own.append(os.path.realpath(top))  # a session that begins in a folder of its repository
    if not inside(os.path.realpath(control[1]), own) and _names_work_tree(control[0], control[1], top):
        return None
    seen: set[str] = set()
    left = [os.path.realpath(folder) for folder in control]
    while left:
        here = left.pop()
        if here in seen:
            continue
        seen.add(here)
        if not inside(here, own) or len(seen) > MAX_CONTROL_FOLDERS:
            return here
        left += _leads_to(here)
    return None


def _leads_to(folder: str) -> list[str]:
    """The folders in `folder`, the places that links in it lead to, and other stores of objects that it names."""
    if not os.path.isdir(folder):
        return []
    found = []
    try:
        entries = list(os.scandir(folder))
    except OSError:  # not ours to look into, so Git cannot either
        return []
    for entry in entries:
        if entry.is_symlink():
            found.append(os.path.realpath(entry.path))
        elif entry.is_dir():
            found.append(entry.path)
        elif entry.name == "alternates":
            stores = _short_text(entry.path).splitlines() if entry.stat().st_size <= MAX_SHORT else ["/"]
            for store in filter(None, stores):
                # in quotes stands what is not read here
                path = "/" if store.startswith('"') else os.path.join(os.path.dirname(folder), store)
                found.append(os.path.realpath(path))
    return found


def _names_work_tree(git_dir: str, common: str, top: str) -> bool:
    """Return whether the repository `common` lists `top` as a work tree, whose own state is in `git_dir`."""
    if os.path.dirname(os.path.realpath(git_dir)) != os.path.join(os.path.realpath(common), "worktrees"):
        return False
    named = _short_text(os.path.join(git_dir, "gitdir")).strip()
    return os.path.realpath(named) == os.path.join(os.path.realpath(top), ".git")


def _short_text(path: str) -> str:
    return read_briefly(path, MAX_SHORT)


def _is_plain(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:  # not there: nothing is configured
        return True
    # at a named pipe, reading waits forever
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size <= MAX_CONFIG
        and _config_is_plain(path, found.st_mtime_ns, found.st_size, found.st_ino)
    )


@lru_cache(maxsize=64)
def _config_is_plain(path: str, _changed: int, _size: int, _inode: int) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    keys: frozenset[str] | None = None
    for line in lines:
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if text.endswith("\\"):
            return False  # goes on in the next line
        if section := _SECTION.match(text):
            name = section["name"].lower()
            if name not in _PLAIN:
                return False
            keys = frozenset(_PLAIN[name].split())
            text = text[section.end() :].strip()
            if not text or text[0] in "#;":
                continue
        key = _KEY.fullmatch(text)
        if keys is None or key is None or (keys and key["key"].lower() not in keys):
            return False
        if "::" in (key["value"] or ""):
            return False  # `ext::` runs a program
    return True


def tracked_files(top: str) -> tuple[str, ...] | None:
    """The names of the files that the index of the repository at `top` lists, from there; None where they are not known."""
    control = _control_folders(top)
    if control is None or _is_split(control[0]):
        return None
    entries = _index_entries(os.path.join(control[0], "index"))
    return None if entries is None else tuple(name for _, name in entries)


def _is_split(git_dir: str) -> bool:
    return any(name.startswith("sharedindex.") for name in os.listdir(git_dir))


def is_plain_setting(setting: str) -> bool:
    """Return whether `section.key=value`, as `git -c` takes it, names no program and no other file."""
    name, _, value = setting.partition("=")
    section, _, key = name.lower().partition(".")
    keys = _PLAIN.get(section)
    return keys is not None and (not keys or key.rpartition(".")[2] in keys.split()) and "::" not in value


def _holds_submodules(index: str) -> bool:
    entries = _index_entries(index)
    return entries is None or any(mode == _SUBMODULE for mode, _ in entries)


def _index_entries(index: str) -> tuple[tuple[int, str], ...] | None:
    """Mode and name of each entry of an index file; None where they are not known."""
    try:
        found = os.stat(index)
    except OSError:  # nothing was ever added
        return ()
    if found.st_size > MAX_INDEX or not stat.S_ISREG(found.st_mode):
        return None
    return _read_index(index, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=8)
def _read_index(index: str, _changed: int, _size: int, _inode: int) -> tuple[tuple[int, str], ...] | None:
    try:
        with open(index, "rb") as file:
            data = file.read()
    except OSError:
        return None
    signature, version, count = struct.unpack_from(">4sII", data) if len(data) > _HEADER else (b"", 0, 0)
    if signature != b"DIRC" or version not in (2, 3):
        return None
    found = []
    at = _HEADER
    for _ in range(count):
        if at + _ENTRY > len(data):
            return None
        mode = int.from_bytes(data[at + 24 : at + 28], "big")
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        start = at + _ENTRY + (2 if flags & _EXTENDED else 0)
        end = data.find(b"\0", start)
        if end < 0:
            return None
        found.append((mode, os.fsdecode(data[start:end])))
        at += (end - at) // 8 * 8 + 8
    return tuple(found)
