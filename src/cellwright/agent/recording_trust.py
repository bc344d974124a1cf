"""Which recordings this user trusts: those signed with a key of their own, as Jupyter does it for notebooks.

A signature (HMAC-SHA256 of the whole file) is kept beside the key, not in the recording: to trust a colleague's
recording changes nothing in it, and one altered byte makes it foreign.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from cellwright.agent.state_folder import PRIVATE_FILE, make_private_folder, state_folder
from cellwright.errors import CellwrightError, ErrorCode

KEY_BYTES = 32


def _folder() -> Path:
    return state_folder() / "recordings"


def is_trusted(data: bytes) -> bool:
    """Whether this user made the recording with the content `data`, or said that it may be played."""
    key = _read_key()
    return key is not None and (_folder() / "trusted" / _signature(key, data)).exists()


def trust(data: bytes) -> None:
    """From now on the recording with the content `data`, and no other, is trusted."""
    try:
        folder = _folder() / "trusted"
        make_private_folder(folder)
        key = _read_key() or _make_key()
        os.close(os.open(folder / _signature(key, data), os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))
    except OSError as error:
        message = f"The recording could not be signed: {error}. Repair access to the folder {_folder()}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error


def _signature(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def _read_key() -> bytes | None:
    try:
        key = (_folder() / "key").read_bytes()
    except FileNotFoundError:
        return None
    if len(key) != KEY_BYTES:
        message = (
            f"The key {_folder() / 'key'} is damaged. Delete it: a new one is made, and old recordings ask once more."
        )
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    return key


def _make_key() -> bytes:
    # linked into place: of two processes that make one at the same time both get the same, and nobody reads half of it
    key = _folder() / "key"
    new = _folder() / f"key-{secrets.token_hex(8)}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), PRIVATE_FILE)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            key.hardlink_to(new)
    finally:
        new.unlink()
    return key.read_bytes()
