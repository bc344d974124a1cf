"""A transcript's file as its one writer holds it: each line is one write at the end of the file, or it is not there."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE
from cellwright.sessions.transcripts.transcript_lock import Lease
from cellwright.this_process.files import replace_file

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

_BINARY = getattr(os, "O_BINARY", 0)


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


def decode_json(raw: bytes) -> Any:
    """The value of a line of JSON; None if it is none, or is nested too deeply."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


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


def unwritable(path: Path, error: OSError) -> CellwrightError:
    """The error of a session whose file cannot be made or opened."""
    return CellwrightError(
        ErrorCode.FILE_ACCESS_ERROR,
        f"The session cannot be written to {path}: {error}. Repair access to the folder, "
        "point CELLWRIGHT_HOME elsewhere, or go without a session on disk.",
        details={"path": str(path)},
    )


def create_file(path: Path, data: bytes) -> None:
    """Put a file at `path`, in place of what is there, whole or not at all, 0600. The folder exists."""
    new = path.with_suffix(".new")  # nobody else makes it: who writes has the lease. A crash may have left one
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, PRIVATE_FILE)
    try:
        _write_whole(fd, data)
    except OSError:
        new.unlink()
        raise
    finally:
        os.close(fd)
    replace_file(new, path)


def _write_whole(fd: int, data: bytes) -> None:
    # one write, in one piece; only a file that has no more room takes less, and asked again it gives the reason
    while data:
        data = data[os.write(fd, data) :]


class TranscriptFile:
    """The open end of a transcript. `size` is where its last whole line ends.

    `has_rest`: something unfinished stands behind that; it is cut away before the next line is written.
    """

    def __init__(self, path: Path, lease: Lease, size: int, *, is_new: bool) -> None:
        self.path = path
        self._lease = lease
        self._size = size
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | _BINARY)
        self._close = weakref.finalize(self, os.close, self._fd)
        self._folder_is_flushed = not is_new
        self.has_rest = os.fstat(self._fd).st_size != size

    def append(self, data: bytes) -> None:
        """Write one line. When that fails, nothing of it stays and CellwrightError says why."""
        if not self._lease.held or not self._close.alive:
            raise CellwrightError(
                ErrorCode.FILE_ACCESS_ERROR,
                f"The session {self.path.stem} is closed here (or belongs to the process this one was forked from). "
                "Resume it, or fork it, to continue.",
            )
        try:
            self._cut_rest()
            info = os.fstat(self._fd)
            if info.st_nlink == 0:
                raise OSError("the file was deleted while the session was open; fork the session to keep it")
            self._size = info.st_size
            self.has_rest = True
            sys.audit("cellwright.append", str(self.path))
            _write_whole(self._fd, data)
        except OSError as error:
            self._give_up(error)
        self.has_rest = False

    def _cut_rest(self) -> None:
        if self.has_rest:
            os.ftruncate(self._fd, self._size)
            self.has_rest = False

    def _give_up(self, error: OSError) -> NoReturn:
        with contextlib.suppress(OSError):  # the next append tries again before it writes
            self._cut_rest()
        raise CellwrightError(
            ErrorCode.FILE_ACCESS_ERROR,
            f"The session could not be written to {self.path}: {error}. Nothing that it held was lost; "
            "make room or repair access, then continue.",
            details={"path": str(self.path)},
            recoverable=True,
        ) from error

    def reopened(self, size: int) -> TranscriptFile:
        """The same, when another file of `size` bytes was put in its place."""
        self._close()
        return TranscriptFile(self.path, self._lease, size, is_new=True)

    def flush(self) -> None:
        """Have everything on the disk itself; for a new file its name in the folder as well."""
        try:
            os.fsync(self._fd)
            if not self._folder_is_flushed:
                _flush_folder(self.path.parent)
                self._folder_is_flushed = True
        except OSError as error:
            raise CellwrightError(
                ErrorCode.FILE_ACCESS_ERROR, f"The session {self.path} could not be flushed to disk: {error}."
            ) from error

    def close(self) -> None:
        """Close the file and give the lease back."""
        self._close()
        self._lease.release()


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows opens no folders; its file systems journal the name
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
