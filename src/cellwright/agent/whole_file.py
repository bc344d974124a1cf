"""A file is either the old one or the new one: written beside it, then put in its place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Make the file at `path` hold `data`, with the permissions `mode`. OSError leaves what was there."""
    fd, name = tempfile.mkstemp(prefix=".cellwright-", suffix=".tmp", dir=path.parent)  # 0600 until it is complete
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
