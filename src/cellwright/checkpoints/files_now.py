"""What files hold now, told by their hashes."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cellwright.checkpoints.records import UNKNOWN, Held
from cellwright.tools.files.originals import KEPT_FILE_BYTES

READ_AT_ONCE = 2**20

Mark = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Now:
    """What is at a path: nothing (`held` None, no `problem`), a file, or something that is none (`problem`)."""

    held: Held | None
    status: os.stat_result | None = None
    problem: str = ""

    @property
    def sha256(self) -> str | None:
        """The hash of the content, None for no file, "unknown" for what is none."""
        return UNKNOWN if self.problem else None if self.held is None else self.held.sha256


def at(path: Path) -> Now:
    """What is at `path`, a real path. Never raises."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "a folder or a device"
            return Now(None, problem=f"it is {kind} now")
        if status.st_size > KEPT_FILE_BYTES:
            return Now(None, problem=f"it is larger than {KEPT_FILE_BYTES // 2**20} MB now")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.sha256()
            while block := file.read(READ_AT_ONCE):
                digest.update(block)
    except FileNotFoundError:
        return Now(None)
    except NotADirectoryError:
        return Now(None)
    except OSError as error:
        return Now(None, problem=f"it cannot be read ({error.strerror})")
    return Now(Held(digest.hexdigest(), stat.S_IMODE(status.st_mode)), status)


def mark_of(path: Path) -> Mark | None:
    """What tells in no time that a file was not changed; None where there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode
