"""The files in a folder that users bring."""

from __future__ import annotations

import os
from pathlib import Path


def crowded(folder: Path, there: int, most: int, what: str) -> list[str]:
    """Say that of the `what` in a folder only the first are taken, where there are more."""
    return [f"{folder}: of {there:,} {what} only the first {most:,} are taken."] if there > most else []


def files_in(folder: Path, pattern: str) -> list[Path]:
    """The files of `folder` that fit a pattern of `Path.glob`, sorted; none where it is missing or may not be read."""
    if not os.path.isdir(folder):  # noqa: PTH112  most are not there, and every prompt asks: a glob is dear
        return []
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
