"""A part of a text file of any size, in bounded memory."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from io import FileIO

from cellwright.tools.text_files import Encoding, detect_encoding

BLOCK_BYTES = 1 << 20

COUNTED_BYTES = 64 << 20
"""A file of up to this size is read to its end, to know how many lines it has; of a larger one only what is needed."""

NUMBER_CHARS = 7
"""What the line number and the tab add to each line."""


@dataclass(frozen=True, slots=True)
class TextPage:
    """Some lines of a file. `total` and `sha256` are None when it was not read to its end."""

    lines: list[str]
    first: int
    total: int | None
    sha256: str | None
    encoding: Encoding
    cut: bool
    """Whether the only line shown is longer than a page, and was cut."""

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def read_page(
    file: FileIO, size: int, first: int, limit: int | None, max_chars: int, stopped: Callable[[], bool]
) -> TextPage:
    """Lines `first` (from 1) to `first + limit - 1`, or as many of them as `max_chars` hold.

    Bytes that do not fit the encoding found in the first megabyte become U+FFFD. Ends early when `stopped()`.
    Raises `NotText`.
    """
    block = file.read(BLOCK_BYTES) or b""
    encoding = detect_encoding(block, final=len(block) >= size)
    decoder = codecs.getincrementaldecoder(encoding.name)("replace")
    digest = hashlib.sha256()
    picker = _LinePicker(first - 1, limit, max_chars)
    to_the_end = size <= COUNTED_BYTES
    rest = block[len(encoding.bom) :]
    while block and not stopped():
        digest.update(block)
        picker.feed(decoder.decode(rest))
        if picker.full and not to_the_end:
            break
        block = rest = file.read(BLOCK_BYTES) or b""
    ended = not block
    if ended:
        picker.feed(decoder.decode(b"", final=True))
    lines, cut = picker.lines()
    total = picker.line_feeds + picker.unfinished if ended else None
    return TextPage(lines, first, total, digest.hexdigest() if ended else None, encoding, cut)


@dataclass(slots=True)
class _LinePicker:
    """Takes text as it comes; keeps the lines that are wanted and counts all."""

    to_skip: int
    limit: int | None
    max_chars: int
    line_feeds: int = 0
    unfinished: bool = False
    full: bool = False
    _kept: list[str] = field(default_factory=list)
    _chars: int = 0
    _kept_feeds: int = 0

    def feed(self, text: str) -> None:
        if not text:
            return
        feeds = text.count("\n")
        self.line_feeds += feeds
        self.unfinished = not text.endswith("\n")
        if self.full:
            return
        if feeds < self.to_skip:
            self.to_skip -= feeds
            return
        at = 0
        while self.to_skip:
            at = text.find("\n", at) + 1
            self.to_skip -= 1
        self._keep(text[at:])

    def _keep(self, text: str) -> None:
        self._kept.append(text)
        self._chars += len(text)
        self._kept_feeds += text.count("\n")
        self.full = self._chars > self.max_chars or (self.limit is not None and self._kept_feeds >= self.limit)

    def lines(self) -> tuple[list[str], bool]:
        """The lines kept, within the limits, and whether the only one was cut."""
        *lines, last = "".join(self._kept).split("\n")
        if last:
            lines.append(last)
        lines = lines[: self.limit]
        chars = 0
        for number, line in enumerate(lines):
            chars += len(line) + NUMBER_CHARS
            if chars > self.max_chars:
                if number:
                    return [line.removesuffix("\r") for line in lines[:number]], False
                return [line[: self.max_chars]], True
        return [line.removesuffix("\r") for line in lines], False
