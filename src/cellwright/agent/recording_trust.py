"""Which recordings this user trusts: those signed with a key of their own, as Jupyter does it for notebooks.

A signature (HMAC-SHA256 of the whole file) is kept beside the key, not in the recording: to trust a colleague's
recording changes nothing in it, and one altered byte makes it foreign.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from cellwright.agent.users_key import read_key, users_key
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder


def _folder() -> Path:
    return state_folder() / "recordings"


def is_trusted(data: bytes) -> bool:
    """Whether this user made the recording with the content `data`, or said that it may be played."""
    key = read_key(_folder() / "key")
    return key is not None and (_folder() / "trusted" / _signature(key, data)).exists()


def trust(data: bytes) -> None:
    """From now on the recording with the content `data`, and no other, is trusted."""
    try:
        folder = _folder() / "trusted"
        make_private_folder(folder)
        key = users_key(_folder() / "key")
        os.close(os.open(folder / _signature(key, data), os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))
    except OSError as error:
        message = f"The recording could not be signed: {error}. Repair access to the folder {_folder()}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error


def _signature(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()
