"""A folder held for a moment, so that of two kernels that write there at once none loses what it wrote."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`. Raises OSError. Without POSIX it holds nothing: writers then compare before they rename."""
    try:
        import fcntl  # POSIX only
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
