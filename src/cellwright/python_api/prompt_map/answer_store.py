"""The answers of a map in a file: what was paid for is on disk before it is counted, and is not asked again.

JSON lines, appended one by one: a header, then an `answer` for each prompt that was answered, a `sending` before a batch
is created and a `batch` once its id is known. A line that was cut off, or is none of these, is passed over.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.project_writes import check_way
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder
from cellwright.sessions.transcripts.transcript_lock import acquire

FORMAT = 1


class Answer(Struct, frozen=True, tag="answer", tag_field="type"):
    """The answer to the prompt `key`: its text, or the `error` that ended it (code and message)."""

    key: str
    text: str = ""
    stop_reason: str = ""
    usage: Mapping[str, Any] = {}
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    error_code: str = ""
    error: str = ""
    recoverable: bool = False
    rate_limited: int = 0


class Header(Struct, frozen=True, tag="map", tag_field="type"):
    format: int = FORMAT


class Sending(Struct, frozen=True, tag="sending", tag_field="type"):
    """A batch of these prompts is going to be created, at `since` (epoch time) or later."""

    keys: Sequence[str]
    since: float


class SentBatch(Struct, frozen=True, tag="batch", tag_field="type"):
    """The batch `id` holds the prompts `keys`."""

    id: str
    keys: Sequence[str]


Line = Header | Answer | Sending | SentBatch
_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode


def default_store(keys: Sequence[str]) -> Path:
    """The file for a map of these prompts that was not given one: the same prompts find it again."""
    digest = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:32]
    return state_folder() / "maps" / f"{digest}.jsonl"


class AnswerStore:
    """The file at `path`, opened by one writer at a time; `close` gives it free.

    `answers` are those that were kept, by key; `batches` those that were sent, `unconfirmed` what was going to be sent
    as a batch whose id is not known. Raises `CellwrightError` where the file is another's, or in use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Answer] = {}
        self.batches: list[SentBatch] = []
        self.unconfirmed: Sending | None = None
        name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]
        lock = state_folder() / "maps" / f"{name}.lock"
        make_private_folder(lock.parent)
        lease = acquire(lock, 0)
        if lease is None:
            message = f"Another process asks the prompts of {path} just now. Wait for its end, or give another `store`."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message, recoverable=True)
        self._lease = lease
        try:
            self._file = self._opened()
        except BaseException:
            lease.release()
            raise

    def add(self, line: Answer | Sending | SentBatch) -> None:
        """Keep a line; it is on disk when this returns. Blocks on the disk."""
        self._write(line)
        self._count(line)

    def close(self, *, discard: bool = False) -> None:
        """Give the file free; with `discard` nothing of it is needed any more."""
        os.close(self._file)
        if discard:
            self.path.unlink(missing_ok=True)
        self._lease.release()

    def _opened(self) -> int:
        try:
            place = check_way(Path.cwd(), self.path)  # a project's link is nobody's choice, though its name may be
            make_private_folder(place.parent)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            descriptor = os.open(place, flags, PRIVATE_FILE)
        except OSError as error:
            message = f"The answers cannot be kept in {self.path}: {error.strerror}. Nothing was sent."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
        try:
            self._read(self.path.read_bytes(), descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _read(self, data: bytes, descriptor: int) -> None:
        first, *lines = data.split(b"\n")
        if not data:
            os.write(descriptor, _encode(Header()) + b"\n")
        elif not isinstance(_line(first), Header):
            message = (
                f"{self.path} holds something else than the answers of a map. Give another `store`. Nothing was sent."
            )
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        elif not data.endswith(b"\n"):
            os.write(descriptor, b"\n")  # a line that was cut off stays one of its own
        for line in lines:
            if (known := _line(line)) is not None:
                self._count(known)

    def _write(self, line: Line) -> None:
        data = _encode(line) + b"\n"
        written = os.write(self._file, data)
        if written < len(data):
            raise OSError(f"{self.path} is full")
        os.fsync(self._file)

    def _count(self, line: Line) -> None:
        match line:
            case Answer():
                self.answers[line.key] = line
            case Sending():
                self.unconfirmed = line
            case SentBatch():
                self.batches.append(line)
                self.unconfirmed = None
            case Header():
                pass


def _line(data: bytes) -> Line | None:
    try:
        line: Line = _decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return line
