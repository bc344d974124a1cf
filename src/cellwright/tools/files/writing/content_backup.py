"""Contents kept in the state folder while files are changed, and put back from there."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from cellwright.tools.files.writing.open_folder import OpenFolder
from cellwright.tools.files.writing.staged_file import StagingPlace, copy_attributes, stage, write_all

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_INTO = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def keep_copy(data: bytes, kept: Path, status: os.stat_result) -> None:
    """Keep `data` at `kept`, safely on disk, with the permission bits of `status`."""
    descriptor = os.open(kept, _NEW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    kept.chmod(stat.S_IMODE(status.st_mode))


def keep_file(folder: OpenFolder, name: str, kept: Path, status: os.stat_result, *, copy: bool) -> None:
    """Keep what a file holds at `kept`: as another name of it, or as a `copy`, for one that is written into."""
    here = folder.descriptor
    if not copy:
        try:
            os.link(name, kept, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
        except (OSError, NotImplementedError):
            pass  # another disk, or one without hard links, or not our file
        else:
            return
    with os.fdopen(os.open(name, _INTO & ~os.O_RDWR, dir_fd=here), "rb") as source:
        descriptor = os.open(kept, _NEW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(source, file, 2**20)
            file.flush()
            copy_attributes(folder.path / name, descriptor, status)
            os.fsync(descriptor)


def put_back(folder: OpenFolder, name: str, kept: Path, *, in_place: bool, beside: str) -> None:
    """Make a file what is kept at `kept`, which is then there no more. The file may be gone."""
    here = folder.descriptor
    if in_place:
        write_into(folder, name, kept.read_bytes(), kept.stat())
        kept.unlink()
        return
    try:
        os.replace(kept, name, dst_dir_fd=here)
    except OSError:
        pass  # another disk
    else:
        # two names of one file: then renaming does nothing
        kept.unlink(missing_ok=True)
        return
    staged = stage(folder, kept.read_bytes(), StagingPlace(beside=beside, hidden=None), like=(kept, kept.stat()))
    try:
        try:
            now = os.stat(name, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        staged.put(name, now)
    finally:
        staged.discard()
    kept.unlink()


def write_into(folder: OpenFolder, name: str, data: bytes, like: os.stat_result) -> os.stat_result:
    """Make a file hold `data`, and have the permission bits of `like`, without giving its name to another file."""
    descriptor = os.open(name, _INTO, dir_fd=folder.descriptor)
    try:
        # from the first byte on, and cut to length at the end: a kill leaves a beginning of the new and the rest of the old
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        if hasattr(os, "fchmod") and stat.S_IMODE(os.fstat(descriptor).st_mode) != stat.S_IMODE(like.st_mode):
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)
