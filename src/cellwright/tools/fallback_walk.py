"""Which files a search looks at when there is no ripgrep: what the folders' ignore files and the given globs leave."""
# Paths are strings here: this runs for each file, and Path is several times slower.
# ruff: noqa: PTH110, PTH113, PTH118, PTH120, PTH123

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pathspec import GitIgnoreSpec

from cellwright.tools.glob_patterns import glob_matcher

Verdict = bool | None
"""True: ignored; False: wanted in spite of others; None: says nothing."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What the arguments say about files. `globs` are rg's: `!x` leaves out, others let in whatever the folder ignores."""

    globs: Sequence[str] = ()
    ignore_files: Sequence[str] = ()
    names: Sequence[str] = ()
    """Globs of which a file's name must match one (a file type's); none: all names."""
    no_ignore: bool = False
    hidden: bool = True


class IgnoreFile:
    """One ignore file; its patterns are relative to `base`."""

    def __init__(self, path: str, base: str) -> None:
        self.base = base
        with open(path, encoding="utf-8", errors="surrogateescape") as lines:
            self._spec = GitIgnoreSpec.from_lines(lines)

    def verdict(self, path: str, is_folder: bool) -> Verdict:
        relative = path[len(self.base) :].lstrip("/")
        return self._spec.check_file(relative + "/" if is_folder else relative).include


class GivenFile:
    """An ignore file given by name. Its patterns are relative to the searched folder, and each is for what it names."""

    def __init__(self, path: str, root: str) -> None:
        with open(path, encoding="utf-8") as lines:
            patterns = [line.rstrip("\n") for line in lines]
        self._root = root
        self._rules = [
            (glob_matcher(pattern.removeprefix("!").rstrip("/")), pattern.endswith("/"), not pattern.startswith("!"))
            for pattern in patterns
        ]

    def verdict(self, path: str, is_folder: bool) -> Verdict:
        relative = path[len(self._root) :].lstrip("/")
        for matches, for_folders, ignores in reversed(self._rules):
            if (is_folder or not for_folders) and matches(relative):
                return ignores
        return None


@dataclass(slots=True)
class Walk:
    """Goes through a folder in the order of names, as `rg --sort=path` does."""

    root: str
    filters: Filters
    explicit: Sequence[GivenFile] = field(init=False)
    _globs: list[tuple[Callable[[str], bool], bool]] = field(init=False)
    _names: list[Callable[[str], bool]] = field(init=False)

    def __post_init__(self) -> None:
        given = self.filters.globs
        self._globs = [(glob_matcher(glob.removeprefix("!")), glob.startswith("!")) for glob in given]
        self._names = [glob_matcher(glob) for glob in self.filters.names]
        self.explicit = [GivenFile(path, self.root) for path in self.filters.ignore_files]

    def files(self) -> Iterator[str]:
        """The paths of the files, below `root`."""
        in_repository = any(os.path.exists(os.path.join(folder, ".git")) for folder in _parents(self.root))
        chain = [] if self.filters.no_ignore else _of_parents(self.root)
        if self._ignored(self.root, True, chain):
            # a folder that is named itself is searched; that it is ignored says nothing about what is in it
            chain = []
        yield from self._below(self.root, "", chain, in_repository)

    def _below(self, folder: str, prefix: str, above: list[list[IgnoreFile]], in_repository: bool) -> Iterator[str]:
        in_repository = in_repository or os.path.exists(os.path.join(folder, ".git"))
        chain = above if self.filters.no_ignore else [*above, _of_folder(folder, in_repository)]
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            return
        for entry in entries:
            relative = prefix + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if (not is_folder and not entry.is_file(follow_symlinks=False)) or not self._wanted(
                entry.path, relative, is_folder, chain
            ):
                continue
            if is_folder:
                yield from self._below(entry.path, f"{relative}/", chain, in_repository)
            else:
                yield relative

    def _wanted(self, path: str, relative: str, is_folder: bool, chain: list[list[IgnoreFile]]) -> bool:
        name = relative.rpartition("/")[2]
        if not is_folder and self._names and not any(matches(name) for matches in self._names):
            return False
        for matches, leaves_out in reversed(self._globs):
            if matches(relative):
                return not leaves_out
        if not is_folder and any(not leaves_out for _, leaves_out in self._globs):
            return False
        if not self.filters.hidden and name.startswith("."):
            return False
        return not self._ignored(path, is_folder, chain)

    def _ignored(self, path: str, is_folder: bool, chain: list[list[IgnoreFile]]) -> bool:
        files: list[IgnoreFile | GivenFile] = [file for level in reversed(chain) for file in level]
        for file in (*files, *self.explicit):
            verdict = file.verdict(path, is_folder)
            if verdict is not None:
                return verdict
        return False


def _of_folder(folder: str, in_repository: bool) -> list[IgnoreFile]:
    """A folder's own ignore files; git's count in a repository only, as for rg."""
    names = [".rgignore", ".ignore", *([".gitignore"] if in_repository else [])]
    paths = [os.path.join(folder, name) for name in names]
    files = [IgnoreFile(path, folder) for path in paths if os.path.isfile(path)]
    if os.path.isfile(exclude := os.path.join(folder, ".git", "info", "exclude")):
        files.append(IgnoreFile(exclude, folder))
    return files


def _of_parents(root: str) -> list[list[IgnoreFile]]:
    users = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    everywhere = os.path.join(users, "git", "ignore")
    chain = [[IgnoreFile(everywhere, root)]] if os.path.isfile(everywhere) else []
    in_repository = False
    for folder in reversed(_parents(root)):
        in_repository = in_repository or os.path.exists(os.path.join(folder, ".git"))
        chain.append(_of_folder(folder, in_repository))
    return chain


def _parents(folder: str) -> list[str]:
    """The folders above, the nearest first."""
    parents = []
    while (above := os.path.dirname(folder)) != folder:
        parents.append(above)
        folder = above
    return parents
