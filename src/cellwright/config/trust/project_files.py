"""The files of a project: whose they are, and which of them its command lines name.

A file may be the user's own, or one that the folder, another user or another program may have brought. A name like
`settings.local.json` proves nothing. A file of a project is the user's own only if git does not track it, no link,
submodule or other repository lies on its way, and nobody else can write it or replace it. docs/decisions/trust.md has the
reasons.

Trust in a command is trust in what it runs. A script's name is looked for generously: every word of the line as a shell
may read it, in quotes, behind `=` and in nested commands, below the project, the working directory and each folder that
the line names. A file too many is asked about once more when it changes; a file too few would run unasked. Not covered:
what a script loads in turn, and a name that is put together while the command runs.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct

from cellwright.config.user_files import TIME_STEP_NS, facts_of
from cellwright.permissions.shell.conservative_parse import parse_conservatively, path_pieces
from cellwright.permissions.shell.reading import Token, Unreadable, read_tokens
from cellwright.text import lazy_pattern

_PASSED_ON = ("HOME", "PATH", "XDG_CONFIG_HOME", "SYSTEMROOT", "USERPROFILE", "TMPDIR")

_OTHER_HISTORIES = (".hg", ".svn", ".bzr", ".jj", ".sl", "_darcs", ".fslckout", "_FOSSIL_")
"""Marks of version control that we do not ask: such a project may have brought any file in it."""

_ACCESS_LIST = "system.posix_acl_access"


MAX_PLACES = 1_000
MAX_WORDS = 2_000
MAX_WILDCARDS = 3
"""Of one list of commands, and of one word: what names more than these is asked about each time."""


_DEEPEST = 4
_EDGES = lazy_pattern(r"[\s;&|<>()'\"`{}=:,@\\]+")
_ASSIGNMENT = lazy_pattern(r"(?:^|[\s;&|(])(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"$`]*\"|'[^']*'|[^\s;&|<>()'\"$`]+)")
_USE = lazy_pattern(r"\$(?:\{(?P<braced>\w+)\}|(?P<bare>\w+))")
_PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "PWD", "OLDPWD")
_MODULE = lazy_pattern(r"(?:^|\s)-m\s*(?P<name>[A-Za-z_][\w.]*)")
_READS = {
    ("npm", "npx", "yarn", "pnpm", "bun"): ("package.json",),
    ("make", "gmake"): ("GNUmakefile", "makefile", "Makefile"),
    ("just",): ("justfile", "Justfile", ".justfile"),
    ("task",): ("Taskfile.yml", "Taskfile.yaml"),
    ("rake",): ("Rakefile", "rakefile"),
    ("tox",): ("tox.ini",),
    ("nox",): ("noxfile.py",),
    ("pre-commit",): (".pre-commit-config.yaml",),
}
_READ_BY = {program: files for programs, files in _READS.items() for program in programs}
"""The files that say what a program runs."""

_IN_FOLDER = ("__main__.py", "package.json", "index.js")
"""The files that an interpreter runs when it is given a folder."""

_digests: dict[str, tuple[tuple[int, ...], str]] = {}


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
        line = opened.read(8_192).decode("utf-8").strip()
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
    # an empty or relative entry would find a `git` that the folder brings along
    entries = environ.get("PATH", os.defpath).split(os.pathsep)
    absolute = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))  # noqa: PTH117
    git = shutil.which("git", path=absolute)
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
            timeout=5.0,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    known, below = {place.casefold() for place in places}, f"{places[0].casefold()}/"
    names = [os.fsdecode(name).casefold() for name in done.stdout.split(b"\0")]
    return done.returncode != 0 or any(name in known or name.startswith(below) for name in names)


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
    import grp  # not on Windows
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


class NamedFiles(Struct, frozen=True):
    """The digests of the files that commands name, by their paths from the project; `places` are where others may come."""

    digests: Mapping[str, str]
    places: tuple[Path, ...]


NO_FILES = NamedFiles({}, ())


def named_files(commands: Iterable[str], project: Path, *folders: Path) -> NamedFiles:
    """Find what `commands` name below `project`, from there and from `folders`, as it is now."""
    texts = tuple(commands)
    if not texts:
        return NO_FILES
    project = project.absolute()
    places = _places(texts, str(project), tuple(dict.fromkeys(str(each.absolute()) for each in (project, *folders))))
    digests = {}
    for place in places:
        if (digest := _digest_of(place)) is not None:
            digests[os.path.relpath(place, project)] = digest
    words = _words(texts)
    if len(places) > MAX_PLACES or len(words) > MAX_WORDS or any(map(_is_wild, words)):
        digests["…"] = str(time.time_ns())
    return NamedFiles(digests, tuple(map(Path, places)))


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name the files whose content is not what it was, in their order."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


def _places(texts: tuple[str, ...], project: str, folders: tuple[str, ...]) -> list[str]:
    words = _words(texts)[:MAX_WORDS]
    bases, level = dict.fromkeys(folders), folders
    for _ in range(_DEEPEST):  # `cd a && cd b`
        below = (place for base in level for word in words for place in _candidates(word, base, project))
        level = tuple(islice((each for each in below if each not in bases and os.path.isdir(each)), 50))  # noqa: PTH112
        bases.update(dict.fromkeys(level))
    found: dict[str, None] = {}
    for base in bases:
        for word in words:
            for place in _candidates(word, base, project):
                if os.path.isdir(place):  # noqa: PTH112
                    found.update(dict.fromkeys(f"{place}/{name}" for name in _IN_FOLDER))
                # a word that looks like the name of a file may be one that comes later
                elif "/" in word or os.path.splitext(word)[1] or os.path.lexists(place):  # noqa: PTH122
                    found[place] = None
        if len(found) > MAX_PLACES:
            break
    return [*islice(found, MAX_PLACES + 1)]


def _candidates(word: str, base: str, project: str) -> Iterator[str]:
    """The paths below the project that `word` may be, seen from `base`."""
    real = os.path.realpath(project)
    # `$(git rev-parse --show-toplevel)/x` leaves `/x`
    for path in dict.fromkeys((word, word.lstrip("/"))):
        # Linux takes no longer paths
        if not path or len(path) > 4_096 or "\0" in path:
            continue
        whole = os.path.normpath(os.path.join(base, os.path.expanduser(path)))  # noqa: PTH111, PTH118
        if whole.startswith(f"{real}/"):  # the project is worked in through a link
            whole = f"{project.rstrip('/')}/{whole.removeprefix(f'{real}/')}"
        if not whole.startswith(f"{project.rstrip('/')}/"):
            continue
        yield whole
        if any(each in path for each in "*?[") and not _is_wild(path):
            matches = glob.iglob(whole)  # noqa: PTH207
            yield from islice((os.path.normpath(each) for each in matches), 1_000)


def _is_wild(word: str) -> bool:
    """Return whether more folders and files of a path are wildcards than are looked for."""
    return sum(any(each in part for each in "*?[") for part in word.split("/")) > MAX_WILDCARDS


@functools.lru_cache(maxsize=256)
def _words(texts: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text in texts:
        for word in _words_of(text, 0):
            found[word] = None
            found.update(dict.fromkeys(path_pieces(word)))
    for text in texts:
        for match in _MODULE.finditer(text):
            name = match["name"].replace(".", "/")
            found.update(dict.fromkeys((f"{name}.py", f"{name}/__main__.py", f"{name}/__init__.py")))
    for word in [*found]:
        found.update(dict.fromkeys(_READ_BY.get(word.rpartition("/")[2], ())))
    return tuple(word for word in found if word not in ("", ".", "..", "/"))


def _words_of(text: str, depth: int) -> Iterator[str]:
    # characters of a command that are read as a shell reads them; a longer one is only split at what ends a word
    if len(text) > 20_000:
        for word in dict.fromkeys(_EDGES.split(text)):
            yield from dict.fromkeys((word, _with_folders(word)))
        return
    values = {found["name"]: found["value"].strip("\"'") for found in _ASSIGNMENT.finditer(text)}
    # the variables that it sets itself put in
    filled = _USE.sub(lambda found: values.get(found["braced"] or found["bare"], found[0]), text) if values else text
    for reading in dict.fromkeys((text, filled)):
        for word in dict.fromkeys((*_read(reading), *_EDGES.split(reading))):
            yield from dict.fromkeys((word, _with_folders(word)))
            if depth < _DEEPEST and word != reading and re.search(r"[\s;&|<>('\"`]", word):
                yield from _words_of(word, depth + 1)


def _read(text: str) -> Iterator[str]:
    """The words as the shell reads them, with those of a reading that never fails."""
    with contextlib.suppress(Unreadable):  # the other readings hold all that may be a name
        yield from _token_words(read_tokens(text))
    yield from parse_conservatively(text).words


def _token_words(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.word is not None:
            yield token.word.text
            yield token.word.raw.strip("\"'")
        for inner in token.inner:
            yield from _token_words(inner)


def _with_folders(word: str) -> str:
    """`word` seen from the project or from home, whose variables it begins with."""
    for name in _PROJECT_VARIABLES:
        for written in (f"${{{name}}}", f"${name}"):
            if word.startswith(written):
                return word.removeprefix(written).lstrip("/")
    for written in ("${HOME}", "$HOME"):
        if word.startswith(written):
            return "~" + word.removeprefix(written)
    return word


def _digest_of(place: str) -> str | None:
    """The digest of the file at `place`; None if it is no file, or cannot be read."""
    try:
        descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except PermissionError:  # it may still run
        return f"facts:{':'.join(map(str, facts_of(place) or ()))}"
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return None
        state = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        # a larger file is known by its size, its times and its place on the disk
        if facts.st_size > 500_000_000:
            return f"facts:{':'.join(map(str, state))}"
        known = _digests.get(place)
        if known is not None and known[0] == state:
            return known[1]
        began = time.time_ns()
        try:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError:
            return None
    # a file that has just changed can change again and look the same
    if began - max(facts.st_mtime_ns, facts.st_ctime_ns) > TIME_STEP_NS:
        _digests[place] = (state, digest)
    return digest
