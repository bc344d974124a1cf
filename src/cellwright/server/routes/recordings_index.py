"""The recordings in a folder and below it: what can be played again without a request."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cellwright.agent.recording.recordings import FORMAT, FORMAT_KEY

SUFFIX = ".jsonl"
MAX_FILES = 20_000
MAX_FOUND = 500
_SKIPPED = frozenset({"node_modules", "__pycache__"})


def recordings_in(folder: Path, root: Path) -> list[dict[str, Any]]:
    """`{"path", "format", "turns", "size", "modified"}` of each, by path; links are not followed."""
    found: list[dict[str, Any]] = []
    for looked_at, path in enumerate(_files(folder)):
        if looked_at >= MAX_FILES or len(found) >= MAX_FOUND:
            break
        try:
            about = _recording_json(path)
        except (OSError, ValueError):
            continue  # no recording, or gone while we look
        if about is not None:
            found.append({"path": path.relative_to(root).as_posix(), **about})
    return sorted(found, key=lambda each: str(each["path"]))


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        yield from (Path(here, name) for name in names if name.endswith(SUFFIX))


def _recording_json(path: Path) -> dict[str, Any] | None:
    if path.is_symlink():
        return None
    with path.open("rb") as file:
        header = json.loads(file.readline(1_000))
        if not isinstance(header, dict) or FORMAT_KEY not in header:
            return None
        turns = sum(1 for line in file if line.strip())
    status = path.stat()
    number = header[FORMAT_KEY]
    return {
        "format": number,
        "turns": turns if number == FORMAT else None,
        "size": status.st_size,
        "modified": status.st_mtime,
    }
