"""Text on disk: its bytes, its lines and their ends, and how those survive an edit.

A page of a file's lines, or its last lines, is read in bounded memory, whatever the file's size. The last lines are found
from the file's end, without reading what comes before them.
"""

from __future__ import annotations

import codecs
import difflib
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.encodings import Encoding, detect_encoding, guessed_encoding

BLOCK_BYTES = 1 << 20

COUNTED_BYTES = 64 << 20
"""A file of up to this size is read to its end, to know how many lines it has; of a larger one only what is needed."""

NUMBER_CHARS = 7
"""The number of characters that the line number and the tab add to each line."""

Stopped = Callable[[], bool]


def open_regular(real: Path, display_path: str) -> FileIO:
    """Open a file for reading, unbuffered. Only a regular one: a pipe or a device would block, never end, or do something.

    `real` is a real path: a symbolic link that was put in its place since is not followed.
    """
    _check_regular(real.stat().st_mode, display_path)
    # without O_NONBLOCK the open itself waits for the other end of a pipe
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(real, flags)
    try:
        # it may be another one by now
        _check_regular(os.fstat(descriptor).st_mode, display_path)
    except ToolError:
        os.close(descriptor)
        raise
    return FileIO(descriptor, "rb")


def _check_regular(mode: int, display_path: str) -> None:
    if stat.S_ISREG(mode):
        return
    what, hint = ("a directory", "List it with LS or Glob.") if stat.S_ISDIR(mode) else ("not a regular file", "")
    raise ToolError(f"{display_path} is {what}. {hint}".strip(), code=ErrorCode.FILE_PATH_INVALID)


def read_bytes(path: Path, display_path: str, limit: int, too_large: str) -> tuple[bytes, os.stat_result]:
    """The whole file and its status. Over `limit` bytes: an error that ends with the hint `too_large`."""
    with open_regular(path, display_path) as file:
        status = os.fstat(file.fileno())
        data = file.read(limit + 1)
        # a raw read may give less than was asked for
        while len(data) <= limit and (more := file.read(limit + 1 - len(data))):
            data += more
    if len(data) > limit:
        raise ToolError(
            f"{display_path} is larger than {limit // 2**20} MB. {too_large}", code=ErrorCode.FILE_ACCESS_ERROR
        )
    return data, status


def with_line_ends(new: str, old: str, default: str) -> str:
    """`new`, whose lines end in LF, with the line ends that `old` has: line by line where `old` mixes them.

    `default` ("\\n" or "\\r\\n") is for lines that no line of `old` stands for.
    """
    new = new.replace("\r\n", "\n")
    crlf = old.count("\r\n")
    lf = old.count("\n") - crlf
    if not crlf or not lf:
        end = "\r\n" if crlf else "\n" if lf else default
        return new if end == "\n" else new.replace("\n", end)
    lines = new.split("\n")
    ends = _mixed_ends(lines, old.split("\n"), default)
    return "".join(line + end for line, end in zip(lines, ends, strict=True))


def _mixed_ends(lines: list[str], old_lines: list[str], default: str) -> list[str]:
    """The end of each of `lines`: that of the old line that is equal to it or stands in its place."""
    ends = [default] * (len(lines) - 1) + [""]
    # up to so many lines, old and new ones are aligned to keep mixed line ends; the comparison is quadratic
    if max(len(lines), len(old_lines)) > 2_000:
        return ends
    old_ends = ["\r\n" if line.endswith("\r") else "\n" for line in old_lines[:-1]]
    matcher = difflib.SequenceMatcher(None, [line.removesuffix("\r") for line in old_lines], lines, autojunk=False)
    for _, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        # never the last line: what follows the last line end has none
        for number in range(min(old_to - old_from, new_to - new_from)):
            if old_from + number < len(old_ends) and new_from + number < len(lines) - 1:
                ends[new_from + number] = old_ends[old_from + number]
    return ends


def main_line_end(text: str) -> str:
    """The line end that most lines of `text` have."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def numbered(lines: list[str], first: int) -> str:
    """Lines as the model sees them: the number right-aligned in six columns, a tab, the line; null bytes as ␀."""
    text = "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, first))
    return text.replace("\0", "␀") if "\0" in text else text


class PageBounds(Struct, frozen=True):
    """A page's bounds: `chars` in all (bytes of UTF-8, so that Chinese counts for what it costs), `line_chars` of a
    line, and the `limit` of lines that was asked for."""

    chars: int
    line_chars: int
    limit: int | None = None


class TextPage(Struct, frozen=True):
    """Some lines of a file. `total` is None when it was not read to its end, `sha256` also when it is very large.

    `first` is negative where lines are counted from the end. `cut` says how long each line is that was cut, by its
    number. `full` says that the page holds no more, as opposed to no more being asked for.
    """

    lines: list[str]
    first: int
    total: int | None
    sha256: str | None
    encoding: Encoding
    cut: dict[int, int]
    full: bool

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def read_page(
    file: FileIO, size: int, first: int, bounds: PageBounds, stopped: Stopped, named: Encoding | None = None
) -> TextPage:
    """Lines `first` (from 1) to `first + limit - 1`, or as many of them as fit.

    The encoding is `named`, or that of the first megabyte; if a smaller file does not hold it to its end, it is guessed
    anew from there, in a larger one what does not fit becomes U+FFFD. Ends early when `stopped()`. Raises `NotText`, and
    UnicodeDecodeError if the file is not in the encoding `named`.
    """
    encoding = named or encoding_of(file, size)
    if size <= COUNTED_BYTES:
        try:
            return _read_page(file, size, first, bounds, stopped, encoding, "strict")
        except UnicodeDecodeError as error:
            if named is not None:
                raise
            if not is_wide(encoding):
                encoding = guessed_encoding(error.object, final=False)
    return _read_page(file, size, first, bounds, stopped, encoding, "replace")


def encoding_of(file: FileIO, size: int) -> Encoding:
    """The encoding of a file, by its first megabyte. Raises `NotText`."""
    file.seek(0)
    head = file.read(BLOCK_BYTES) or b""
    return detect_encoding(head, final=len(head) >= size)


def is_wide(encoding: Encoding) -> bool:
    """Return whether a line feed is more than one byte."""
    return encoding.name.startswith(("utf-16", "utf-32"))


def _read_page(
    file: FileIO, size: int, first: int, bounds: PageBounds, stopped: Stopped, encoding: Encoding, errors: str
) -> TextPage:
    digest = hashlib.sha256()
    lines = Lines(first - 1, bounds, encoding, errors)
    to_the_end = size <= COUNTED_BYTES
    file.seek(0)
    block = file.read(BLOCK_BYTES) or b""
    rest = block.removeprefix(encoding.bom)
    while block and not stopped():
        if to_the_end:
            digest.update(block)
        lines.feed(rest)
        if lines.done and not to_the_end:
            break
        block = rest = file.read(BLOCK_BYTES) or b""
    ended = not block
    if ended:
        lines.end()
    return TextPage(
        lines.kept,
        first,
        lines.line_feeds + lines.unfinished if ended else None,
        digest.hexdigest() if ended and to_the_end else None,
        encoding,
        {first + index: length for index, length in lines.cut.items()},
        lines.full,
    )


@dataclass(slots=True, eq=False, repr=False)
class Lines:
    """Takes a file's bytes as they come; keeps the lines that are wanted, and counts all."""

    to_skip: int
    bounds: PageBounds
    encoding: Encoding
    errors: str
    kept: list[str] = field(default_factory=list)
    cut: dict[int, int] = field(default_factory=dict)
    line_feeds: int = 0
    unfinished: bool = False
    full: bool = False
    done: bool = False
    _chars: int = 0
    _part: str = ""
    _part_length: int = 0
    _decoder: codecs.IncrementalDecoder = field(init=False)

    def __post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self.encoding.name)(self.errors)

    def feed(self, data: bytes) -> None:
        """The next bytes of the file."""
        if not data:
            return
        if is_wide(self.encoding):
            self._feed_text(self._decoder.decode(data))
            return
        # counting in bytes is twenty times faster than decoding
        feeds = data.count(b"\n")
        self.line_feeds += feeds
        self.unfinished = not data.endswith(b"\n")
        if self.done:
            return
        if feeds < self.to_skip:
            self.to_skip -= feeds
            return
        at = 0
        while self.to_skip:
            at = data.find(b"\n", at) + 1
            self.to_skip -= 1
        if len(self._part) == self.bounds.line_chars:
            # of a line that is cut anyway only the length is wanted
            end = data.find(b"\n", at) if feeds else -1
            end = len(data) if end < 0 else end
            self._part_length += end - at
            self._decoder.reset()
            at = end
        self._keep(self._decoder.decode(data[at:]))

    def end(self) -> None:
        """There is nothing more."""
        if is_wide(self.encoding):
            self._feed_text(self._decoder.decode(b"", final=True))
        elif not self.done:
            # once all is there that is wanted nothing was decoded any more, and half a character may be left
            self._keep(self._decoder.decode(b"", final=True))
        if not self.done and not self.to_skip and self._part_length:
            self._end_line()
        self.done = True

    def _feed_text(self, text: str) -> None:
        if not text:
            return
        feeds = text.count("\n")
        self.line_feeds += feeds
        self.unfinished = not text.endswith("\n")
        if self.done:
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
        if not self._kept_at_once(text):
            self._keep_by_line(text)

    def _kept_at_once(self, text: str) -> bool:
        """Keep `text` if all of it is wanted for certain: that is so for most files, and many times faster."""
        if self.done or self._part_length > len(self._part):
            return False
        text = self._part + text
        if not text.isascii():
            return False
        *lines, part = text.split("\n")
        if max(map(len, lines), default=0) > self.bounds.line_chars or len(part) > self.bounds.line_chars:
            return False
        if "\r" in text:
            lines = [line.removesuffix("\r") for line in lines]
        chars = self._chars + sum(map(len, lines)) + NUMBER_CHARS * len(lines)
        limit = self.bounds.limit
        if chars > self.bounds.chars or (limit is not None and len(self.kept) + len(lines) >= limit):
            return False
        self.kept += lines
        self._chars, self._part, self._part_length = chars, part, len(part)
        return True

    def _keep_by_line(self, text: str) -> None:
        at = 0
        while not self.done:
            feed = text.find("\n", at)
            piece = text[at:] if feed < 0 else text[at:feed]
            self._part += piece[: self.bounds.line_chars - len(self._part)]
            self._part_length += len(piece)
            if feed < 0:
                return
            self._end_line()
            at = feed + 1

    def _end_line(self) -> None:
        line, length = self._part, self._part_length
        self._part, self._part_length = "", 0
        is_cut = length > len(line)
        if not is_cut:
            line = line.removesuffix("\r")
        self._chars += NUMBER_CHARS + (len(line) if line.isascii() else len(line.encode("utf-8", "replace")))
        if self.kept and self._chars > self.bounds.chars:
            self.full = self.done = True
            return
        if is_cut:
            self.cut[len(self.kept)] = length
        self.kept.append(line)
        self.done = len(self.kept) == self.bounds.limit


def read_tail(
    file: FileIO, size: int, count: int, bounds: PageBounds, stopped: Stopped, named: Encoding | None = None
) -> TextPage:
    """At most `limit` of the last `count` lines, numbered from 1 where they could be counted, else from -1 backwards.

    Ends early when `stopped()`. Raises `NotText`.
    """
    if size <= COUNTED_BYTES:
        total = read_page(file, size, 1, PageBounds(0, 0, 1), stopped, named).total or 0
        return read_page(file, size, max(total - count + 1, 1), bounds, stopped, named)
    encoding = named or encoding_of(file, size)
    start = _start_of_last(file, size, count, encoding, stopped)
    if start is None:
        # there are not so many lines: the first is known after all
        return read_page(file, size, 1, bounds, stopped, named)
    lines = Lines(0, bounds, encoding, "replace")
    file.seek(start)
    left = size - start
    while left > 0 and not lines.done and not stopped() and (block := file.read(min(BLOCK_BYTES, left))):
        lines.feed(block)
        left -= len(block)
    lines.end()
    cut = {index - count: length for index, length in lines.cut.items()}
    return TextPage(lines.kept, -count, None, None, encoding, cut, lines.full)


def _start_of_last(file: FileIO, size: int, count: int, encoding: Encoding, stopped: Stopped) -> int | None:
    """Find where the last `count` lines begin; None if there are not so many."""
    line_feed = "\n".encode(encoding.name)
    width = len(line_feed)
    end = size - (size - len(encoding.bom)) % width
    file.seek(end - width)
    # the line feed at the very end ends the last line, and begins no other
    if file.read(width) == line_feed:
        end -= width
    while end > len(encoding.bom) and not stopped():
        start = max(len(encoding.bom), end - BLOCK_BYTES)
        file.seek(start)
        block = file.read(end - start) or b""
        feeds = 0 if is_wide(encoding) else block.count(line_feed)
        if is_wide(encoding) or feeds >= count:
            found, count = _nth_last(block, line_feed, count)
            if found is not None:
                return start + found + width
        else:
            count -= feeds
        end = start
    return None


def _nth_last(block: bytes, line_feed: bytes, count: int) -> tuple[int | None, int]:
    """Find the `count`th last line feed of a block, or return None and how many are still to be found."""
    end = len(block)
    while count and (at := block.rfind(line_feed, 0, end)) >= 0:
        if at % len(line_feed):
            # the bytes of two characters that look like one
            end = at + len(line_feed) - 1
            continue
        count -= 1
        if not count:
            return at, 0
        end = at
    return None, count
