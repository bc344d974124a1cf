"""The copy of the project's files that a preview works on, and what is different in it at the end.

Large files and folders that programs make (`.git`, environments) are links to the user's own: they can be read, and nothing
in a preview may write to where they lead.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct, field

from cellwright.this_process.files import new_folder, remove

MOST_FILES = 20_000
MOST_BYTES = 400 * 2**20
LARGEST_COPY = 8 * 2**20
"""A larger file is linked."""
LARGEST_ACCEPTED = 100 * 2**20

_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

LINKED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox", ".pixi", ".mypy_cache"}
    | {".ruff_cache", ".pytest_cache", ".ipynb_checkpoints"}
)
"""Folders that are not copied, and whose changes are none of the turn's."""

_PATH_ENDS = r"(?=[/\s'\"`:;,)\]]|$)"


def leads_out(name: str) -> str:
    """Return why a link is not followed."""
    return f"{name} is a link that was made in this preview, and it leads out of the copied files. Remove it first."


class TreeTooLarge(Exception):
    """The folder has more than a preview copies; the text is a sentence."""


class FileChange(Struct, frozen=True):
    """A file that is other in the copy. `name` is its path below the project, `before` and `after` its contents."""

    name: str
    before: bytes | None
    after: bytes | None
    executable: bool = False


class _Copied(Struct, frozen=True):
    size: int
    mtime_ns: int
    sha256: str


class StagedTree(Struct):
    """A copy of `project`, in `root`. `given` is the project's path as others spell it."""

    given: Path
    project: Path
    folder: Path
    root: Path
    copied: dict[str, _Copied] = field(default_factory=dict)
    on_disk: dict[str, _Copied] = field(default_factory=dict)
    replaced: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def make(cls, project: Path, may_read: Callable[[str], bool]) -> StagedTree:
        """Copy what of `project` may be read. Raises TreeTooLarge and OSError; nothing is left then."""
        folder = new_folder("preview")
        tree = cls(project, Path(os.path.realpath(project)), folder, folder / "files")
        try:
            tree.root.mkdir(mode=0o700)
            tree._copy(may_read)
        except BaseException:
            remove(folder)
            raise
        return tree

    def _copy(self, may_read: Callable[[str], bool]) -> None:
        size = files = 0
        for name, entry in _walk(self.project):
            target = self.root / name
            if entry.is_dir(follow_symlinks=False):
                if entry.name in LINKED:
                    target.symlink_to(entry.path)
                else:
                    target.mkdir()
                continue
            if entry.is_symlink():
                target.symlink_to(os.path.join(os.path.dirname(entry.path), os.readlink(entry.path)))  # noqa: PTH115, PTH118, PTH120
                continue
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode) or not may_read(entry.path):
                continue
            files += 1
            size += status.st_size if status.st_size <= LARGEST_COPY else 0
            if files > MOST_FILES or size > MOST_BYTES:
                message = (
                    f"{self.project} has more than a preview copies ({MOST_FILES:,} files, {MOST_BYTES >> 20} MB)."
                )
                raise TreeTooLarge(message)
            if status.st_size > LARGEST_COPY:
                target.symlink_to(entry.path)
                continue
            self._keep(name, Path(shutil.copy2(entry.path, target)))

    def _keep(self, name: str, copy: Path) -> None:
        data, status = copy.read_bytes(), copy.lstat()
        self.copied[name] = _Copied(status.st_size, status.st_mtime_ns, hashlib.sha256(data).hexdigest())
        self.on_disk.setdefault(name, self.copied[name])

    def replace(self, name: str, data: bytes) -> None:
        """The copy of a file begins with `data`: what its user sees of it is newer than the file."""
        copy = self.root / name
        copy.unlink(missing_ok=True)
        copy.write_bytes(data)
        self._keep(name, copy)
        self.replaced[name] = data

    def staged(self, path: str | Path) -> Path | None:
        """The place in the copy of `path` (relative: to the project); None if it is not in the project."""
        whole = os.path.normpath(self.project / Path(path).expanduser())
        spelled = os.path.realpath(os.path.dirname(whole))  # noqa: PTH120
        name = os.path.relpath(Path(spelled, Path(whole).name), self.project)
        return None if name.startswith("..") else self.root / name

    def may_write(self, path: str | Path) -> bool:
        """Return whether `path` has a place in the copy, and not in a folder or file that is linked to."""
        place = self.staged(path)
        return place is not None and self._holds(os.path.realpath(place))

    def is_own(self, place: str | Path) -> bool:
        """Return whether a place in the copy is in it, or leads where the user's own path leads, which was judged.

        False of a link that code in the preview has made to somewhere else.
        """
        real = os.path.realpath(place)
        return self._holds(real) or real == os.path.realpath(self.project / self.name_of(Path(place)))

    def refusal(self, place: Path) -> str:
        """Say why a place in the copy is not followed; "" if it may be."""
        return "" if self.is_own(place) else leads_out(self.name_of(place))

    def stray_link(self) -> str:
        """The first link that code in the preview has made out of the copy, by its path below the project; "" if none."""
        links = (name for name, entry in _walk(self.root) if entry.is_symlink())
        return next((name for name in links if not self.is_own(self.root / name)), "")

    def _holds(self, real: str) -> bool:
        return Path(real).is_relative_to(os.path.realpath(self.root))

    def name_of(self, path: Path) -> str:
        """The path below the project of a place in the copy."""
        return str(path.relative_to(self.root))

    def in_copy(self, text: str) -> str:
        """`text` with the project's path as that of the copy."""
        for spelled in dict.fromkeys((self.given, self.project)):
            text = re.sub(re.escape(str(spelled)) + _PATH_ENDS, lambda _: str(self.root), text)
        return text

    def in_project(self, text: str) -> str:
        """`text` with the copy's path as that of the project."""
        return text.replace(str(self.root), str(self.given))

    def original(self, name: str) -> bytes | None:
        """The content that a file began with; None if it was not there, or has changed on disk since."""
        return self.replaced[name] if name in self.replaced else self._unchanged(name)

    def is_as_copied(self, name: str) -> bool:
        """Return whether what is on disk is what was there when it was copied, be it nothing."""
        return self._unchanged(name) is not None if name in self.on_disk else not os.path.lexists(self.project / name)

    def _unchanged(self, name: str) -> bytes | None:
        data, was = _read(str(self.project / name)), self.on_disk.get(name)
        same = data is not None and was is not None and hashlib.sha256(data).hexdigest() == was.sha256
        return data if same else None

    def changed(self) -> list[FileChange]:
        """The files that are other than they began."""
        found = []
        there = set()
        for name, entry in _walk(self.root):
            there.add(name)
            if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
                continue
            status, was = entry.stat(follow_symlinks=False), self.copied.get(name)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_ACCEPTED:
                continue
            if was is not None and (was.size, was.mtime_ns) == (status.st_size, status.st_mtime_ns):
                continue
            data = _read(entry.path)
            if data is None or (was is not None and hashlib.sha256(data).hexdigest() == was.sha256):
                continue
            found.append(
                FileChange(name, None if was is None else self.original(name), data, bool(status.st_mode & 0o100))
            )
        found += [FileChange(name, self.original(name), None) for name in self.copied if name not in there]
        return sorted(found, key=lambda change: change.name)

    def close(self) -> None:
        """Remove it."""
        remove(self.folder)


def _read(path: str) -> bytes | None:
    """The content of a file of the copy: never what a link leads to, which code could put there at any moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _AS_IT_IS)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LARGEST_ACCEPTED) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _walk(top: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below `top` with its path from there; folders that are linked to are not entered."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(top / folder) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                name = f"{folder}/{entry.name}" if folder else entry.name
                yield name, entry
                if entry.is_dir(follow_symlinks=False) and entry.name not in LINKED:
                    waiting.append(name)
