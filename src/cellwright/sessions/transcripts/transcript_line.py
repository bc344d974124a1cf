"""One message in a transcript, and the JSON that messages are kept and sent as."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_json(value: object) -> bytes:
    """Compact UTF-8 JSON: the form in which messages are kept and sent. Halves of surrogate pairs become U+FFFD."""
    try:
        text = _encoder.encode(value)
    except ValueError as error:
        raise CellwrightError(
            ErrorCode.API_REQUEST_INVALID, f"The message holds a number that JSON cannot express: {error}."
        ) from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class OpenFile:
    """A transcript held open to be read from; it stays what it was, also where another takes its name."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = threading.Lock()
        weakref.finalize(self, os.close, self._descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset` on. Raises OSError where they are not there."""
        parts: list[bytes] = []
        with self._lock:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            while length:
                part = os.read(self._descriptor, length)
                if not part:
                    message = "the transcript is shorter than it was"
                    raise OSError(message)
                parts.append(part)
                length -= len(part)
        return b"".join(parts)


class StoredMessage(Struct, frozen=True):
    """The place of a message in a transcript: `length` bytes from `offset` on."""

    file: OpenFile
    offset: int
    length: int


class Line(Struct, frozen=True):
    """One message: its encoded JSON, and what is known of it: `seq`, `at`, `epoch`; of answers `usage`, `model`, …

    `held` is the message, or where it is on the disk.
    """

    meta: Mapping[str, Any]
    held: bytes | StoredMessage

    @property
    def message(self) -> bytes:
        """The message, read anew where it is only on the disk. Raises OSError then."""
        held = self.held
        return held if isinstance(held, bytes) else held.file.read(held.offset, held.length)

    @property
    def size(self) -> int:
        """The message's length in bytes."""
        return len(self.held) if isinstance(self.held, bytes) else self.held.length
