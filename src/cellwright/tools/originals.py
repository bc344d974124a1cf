"""What files held before they were changed, kept for the user: in the state folder's `originals/`, named by SHA-256."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cellwright.agent.state_folder import PRIVATE_FILE, make_private_folder, state_folder

KEPT_FILES = 1_000
KEPT_BYTES = 256 * 2**20
LOOKED_AT_EACH = 16
"""So many more files may come before it is looked how large all are."""


def original_path(sha256: str) -> Path:
    """Where the content with this hash is, if it is kept."""
    return state_folder() / "originals" / sha256


def keep_original(data: bytes, sha256: str) -> None:
    """Keep what a file holds, for the user alone; the oldest go when there are too many.

    Nothing happens where that cannot be done: the change is what was asked for.
    """
    path = original_path(sha256)
    with suppress(OSError):
        if path.exists():
            path.touch()
            return
        make_private_folder(path.parent)
        partial = path.with_name(f"{sha256}.{os.getpid()}.tmp")
        try:
            descriptor = os.open(
                partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), PRIVATE_FILE
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        _drop_oldest(path.parent)


def kept_originals(hashes: Mapping[str, str | None]) -> dict[str, dict[str, str]]:
    """For the views: where the originals of files are, given the hash of what each held; nothing if none is kept."""
    kept = {name: original_path(sha256) for name, sha256 in hashes.items() if sha256}
    there = {name: path.as_posix() for name, path in kept.items() if path.exists()}
    return {"originals": there} if there else {}


def _drop_oldest(folder: Path) -> None:
    """Keep to the limits, with some room below them: looking at all files takes time."""
    count = len(os.listdir(folder))  # noqa: PTH208  a number is wanted, not a thousand paths
    if count <= KEPT_FILES and count % LOOKED_AT_EACH:
        return
    with os.scandir(folder) as entries:
        kept = sorted(((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries), reverse=True)
    most = KEPT_FILES if count <= KEPT_FILES else KEPT_FILES - LOOKED_AT_EACH
    size = 0
    for number, (_, length, path) in enumerate(kept, 1):
        size += length
        if number > most or size > KEPT_BYTES:
            with suppress(OSError):  # another process may drop it at the same time
                Path(path).unlink()
