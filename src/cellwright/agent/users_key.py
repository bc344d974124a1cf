"""A key of the user's own, in a file for them alone: what is signed or hashed with it can be told only by them."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder

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


def users_key(file: Path) -> bytes:
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
