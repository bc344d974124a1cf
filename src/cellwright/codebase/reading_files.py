"""Files read for the index, with all that it keeps of them; and a second process that reads some beside the indexer.

The second reader is `python -m cellwright.codebase.reading_files`: it gets lists of files and answers each with what it
read, as messages with their length before them. It ends with its input, and so with the indexer, however that ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec
from msgspec import Struct

from cellwright.codebase.parsing.facts import FileFacts
from cellwright.codebase.parsing.source_file import SourceText, source_text

_LENGTH_BYTES = 8


class WantedFile(Struct, frozen=True, array_like=True):
    """A file to be read, unless its content still has the hash `known`; `folder` is the project's."""

    folder: str
    path: str
    known: bytes = b""


class FileContent(Struct, frozen=True, array_like=True):
    """A file that was read; `language` is "" for what is no text, or gone, and `facts` None for what is as it was."""

    hash: bytes
    language: str = ""
    lines: int = 0
    cells: tuple[int, ...] = ()
    words: str = ""
    facts: FileFacts | None = None


def read_content(wanted: WantedFile) -> FileContent:
    """Read a file."""
    path = PurePosixPath(wanted.path)
    try:
        data = (Path(wanted.folder) / path).read_bytes()
    except OSError:
        return FileContent(b"", facts=FileFacts())  # gone meanwhile, or not for us to read
    digest = hashlib.blake2b(data, digest_size=16).digest()
    if digest == wanted.known:
        return FileContent(digest)
    source = source_text(path, data)
    if source is None:
        return FileContent(digest, facts=FileFacts())
    return FileContent(digest, source.language, source.lines, source.cells, words_of(source), _facts(source))


def words_of(source: SourceText) -> str:
    """All that may be an identifier, once, for the table of words."""
    return b" ".join(source.words()).decode("utf-8", "replace")


def _facts(source: SourceText) -> FileFacts:
    try:
        return source.facts()
    except RecursionError:
        return FileFacts()


class SecondReader:
    """The second reader as the indexer sees it: one list is with it at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", "cellwright.codebase.reading_files"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._given: Sequence[WantedFile] = ()

    def give(self, files: Sequence[WantedFile]) -> None:
        """Give it the next files."""
        self._given = files
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # ended: `take` reads them
            _write(self._process.stdin, msgspec.msgpack.encode(files))

    def take(self) -> list[FileContent]:
        """Return the contents of these, in their order, waiting for it; read here if it has ended before."""
        given, self._given = self._given, ()
        assert self._process.stdout is not None
        message = _read(self._process.stdout) if given else b""
        if message:
            return msgspec.msgpack.decode(message, type=list[FileContent])
        return [read_content(each) for each in given]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()


def main() -> int:
    """Read what standard input asks for, until its end."""
    while message := _read(sys.stdin.buffer):
        wanted = msgspec.msgpack.decode(message, type=list[WantedFile])
        _write(sys.stdout.buffer, msgspec.msgpack.encode([read_content(each) for each in wanted]))
    return 0


def _write(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_LENGTH_BYTES) + message)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    """The next message; b"" at the end."""
    head = stream.read(_LENGTH_BYTES)
    message = stream.read(int.from_bytes(head)) if len(head) == _LENGTH_BYTES else b""
    return message if len(message) == int.from_bytes(head) else b""


if __name__ == "__main__":
    sys.exit(main())
