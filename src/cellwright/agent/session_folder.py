"""Where the transcripts of a project's sessions are, and what they are called."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from pathlib import Path

from cellwright.sessions.state_dir import state_folder


def sessions_folder(cwd: Path) -> Path:
    """The folder of the transcripts of the project at `cwd`: readable by its name, unique by its real path's hash."""
    project = cwd.resolve()
    name = re.sub(r"[^\w.-]+", "-", project.name)[:40] or "root"
    return state_folder() / "sessions" / f"{name}-{hashlib.sha256(os.fsencode(project)).hexdigest()[:12]}"


def find_sessions(cwd: Path) -> list[Path]:
    """The transcripts of the project at `cwd`, the one written last first."""
    written: list[tuple[int, Path]] = []
    for path in sessions_folder(cwd).glob("*.jsonl"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # deleted while we look
        if status.st_size:  # what a power cut may leave of a new one
            written.append((status.st_mtime_ns, path))
    return [path for _, path in sorted(written, reverse=True)]


def new_session_id() -> str:
    """An id that people can tell apart and that sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
