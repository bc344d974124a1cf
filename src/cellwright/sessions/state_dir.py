"""Cellwright's own files, for the user alone, in `$CELLWRIGHT_HOME` or else the platform's data folder.

The names and places of a project's transcripts are here, and keys of the user's own: what is signed or hashed with
such a key can be told only by them. Files are replaced whole: each is either the old one or the new one, written
beside it and then put in its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.this_process.files import replace_file

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def state_folder() -> Path:
    """The folder of all our state. It need not exist yet; `make_private_folder` makes it."""
    if home := os.environ.get("CELLWRIGHT_HOME"):
        return Path(home).expanduser().absolute()
    import platformdirs  # only sessions on disk need it, and loading the extension must stay cheap

    return Path(platformdirs.user_data_dir("cellwright", appauthor=False))


def checkpoints_folder() -> Path:
    """Return the folder of the journals."""
    return state_folder() / "checkpoints"


def journal_path(session_id: str) -> Path:
    """Return the path of the journal of the session of this id, if there is one."""
    return checkpoints_folder() / f"{session_id}.jsonl"


def make_private_folder(folder: Path) -> None:
    """Make `folder` and what is missing above it, each 0700 whatever the umask; folders that exist stay as they are."""
    missing = takewhile(lambda path: not path.exists(), (folder, *folder.parents))
    for path in reversed([*missing]):
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)  # another process may make it just now


def sessions_folder(cwd: Path) -> Path:
    """The folder of the transcripts of the project at `cwd`: readable by its name, unique by its real path's hash."""
    project = cwd.resolve()
    name = re.sub(r"[^\w.-]+", "-", project.name)[:40] or "root"
    return state_folder() / "sessions" / f"{name}-{hashlib.sha256(os.fsencode(project)).hexdigest()[:12]}"


def notes_folder(project: Path) -> Path:
    """The folder of Claude's own notes on `project`, in our state: in the project, others could write them for it."""
    return state_folder() / "memory" / sessions_folder(project).name


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


KEY_BYTES = 32


def read_key(file: Path) -> bytes | None:
    """The key in `file`; None where there is none yet. Raises CellwrightError CONFIG_INVALID for a damaged one, OSError."""
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        return None
    if len(key) != KEY_BYTES:
        message = (
            f"The key {file} is damaged. Delete it: a new one is made, and what the old one signed asks once more."
        )
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    return key


def signing_key(file: Path) -> bytes:
    """The key in `file`, which is made if need be. Raises CellwrightError CONFIG_INVALID, OSError."""
    return read_key(file) or _make_key(file)


def _make_key(file: Path) -> bytes:
    # linked into place: of two processes that make one at the same time both get the same, and nobody reads half of it
    make_private_folder(file.parent)
    new = file.with_name(f"{file.name}-{secrets.token_hex(8)}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), PRIVATE_FILE)
    try:
        with os.fdopen(fd, "wb") as opened:
            opened.write(secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(new)
    finally:
        new.unlink()
    return file.read_bytes()


def write_atomic(path: Path, data: bytes | Iterable[bytes], mode: int) -> None:
    """Make the file at `path` hold `data`, or its pieces, with the permissions `mode`. OSError leaves what was there."""
    fd, name = tempfile.mkstemp(prefix=".cellwright-", suffix=".tmp", dir=path.parent)  # 0600 until it is complete
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        replace_file(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
