"""Several files changed together: all of them, or none.

All new contents are safely on disk under temporary names before the first file is touched: a full disk shows there. Then
only names change, each old file kept under another name until the last is done, so that what was done can be undone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.files.atomic_write import (
    FileChanged,
    Folder,
    check_unchanged,
    check_writable,
    opened,
    stage,
    sync,
    temporary_name,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWrite:
    """One file to be written (`after`), or deleted (None).

    `replacing` is the status of the file that is there, None if there is none. The new file is as the file `like`, by
    default the one it replaces; `executable` then sets or clears the right to execute it, `mode` sets all permission bits.
    """

    path: Path
    replacing: os.stat_result | None
    after: bytes | None
    like: tuple[Path, os.stat_result] | None = None
    executable: bool | None = None
    mode: int | None = None


@dataclass(slots=True)
class _Step:
    """A write on its way: `new` is its staged content, `old` what it replaces, both under temporary names."""

    write: FileWrite
    folder: Folder
    new: str | None = None
    status: os.stat_result | None = None
    old: str | None = None
    done: bool = False

    @property
    def name(self) -> str:
        return self.folder.entry(self.write.path.name)


@dataclass(slots=True)
class _Folders:
    """The folders of the files, each held open once."""

    stack: ExitStack
    open: dict[Path, Folder] = field(default_factory=dict)

    def of(self, path: Path, *, make: bool) -> Folder:
        if path.parent not in self.open:
            self.open[path.parent] = self.stack.enter_context(opened(path.parent, make=make))
        return self.open[path.parent]


def write_together(writes: Sequence[FileWrite]) -> list[os.stat_result | None]:
    """Write all files, or leave all as they are. Gives the status of each new file, None for a deleted one.

    Raises FileChanged, with the path, when a file is not the one that its new content was made from; OSError and ToolError
    when it cannot be written. Paths are real paths, each at most once.
    """
    with ExitStack() as stack:
        folders = _Folders(stack)
        steps = [_Step(write, folders.of(write.path, make=write.after is not None)) for write in writes]
        try:
            for step in steps:
                _prepare(step)
            for step in steps:
                _check(step)
            for step in steps:
                _put(step)
        except BaseException as error:
            _undo(steps, error)
            raise
        for step in steps:
            if step.old is not None:
                _remove(step.folder, step.old)
        for folder in folders.open.values():
            sync(folder)
        return [step.status for step in steps]


def _prepare(step: _Step) -> None:
    write = step.write
    if write.replacing is not None:
        check_writable(step.folder, write.path)
    if write.after is None:
        return
    like = write.like or (None if write.replacing is None else (write.path, write.replacing))
    step.new, step.status = stage(step.folder, write.after, like, mode=write.mode)
    if write.executable is not None:
        mode = stat.S_IMODE(step.status.st_mode)
        # as git does it: who may read may execute
        mode = mode | (mode & 0o444) >> 2 if write.executable else mode & ~0o111
        os.chmod(step.new, mode, dir_fd=step.folder.descriptor)


def _check(step: _Step) -> None:
    try:
        check_unchanged(step.folder, step.name, step.write.replacing)
    except FileChanged:
        raise FileChanged(step.write.path) from None


def _put(step: _Step) -> None:
    """Give the new file its name, or take the old one's away. What was there keeps another name."""
    _check(step)
    here = step.folder.descriptor
    if step.write.replacing is not None:
        old = step.folder.entry(temporary_name())
        try:
            if step.new is None:
                raise OSError
            # a second name for it: there is no moment without a file
            os.link(step.name, old, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
        except (OSError, NotImplementedError):  # a deletion, or a file system without hard links
            os.rename(step.name, old, src_dir_fd=here, dst_dir_fd=here)
        step.old = old
    if step.new is not None:
        os.replace(step.new, step.name, src_dir_fd=here, dst_dir_fd=here)
        step.new = None
    step.done = True


def _undo(steps: Sequence[_Step], cause: BaseException) -> None:
    lost: list[str] = []
    for step in reversed(steps):
        here = step.folder.descriptor
        if step.new is not None:
            _remove(step.folder, step.new)
        try:
            if step.old is not None:
                os.replace(step.old, step.name, src_dir_fd=here, dst_dir_fd=here)
                # two names of one file: then renaming does nothing
                _remove(step.folder, step.old)
            elif step.done:
                os.unlink(step.name, dir_fd=here)
        except OSError:
            lost.append(f"{step.write.path} (it was {Path(step.old).name if step.old else 'not there'})")
    if lost:
        raise ToolError(
            f"Writing failed ({cause}), and so did taking it back: of the files {', '.join(lost)} the old ones lie "
            "beside them under the names in brackets. Put them back before you go on.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        ) from cause


def _remove(folder: Folder, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder.descriptor)
