"""Text on disk: its encoding, its line ends, and how both survive an edit."""

from __future__ import annotations

import codecs
import difflib
import os
import stat
from io import FileIO
from pathlib import Path

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern

ALIGNED_LINES = 2_000
"""Up to so many lines, old and new ones are aligned to keep mixed line ends; the comparison is quadratic."""


class Encoding(Struct, frozen=True):
    """The way a file's bytes become text: a byte order mark (perhaps empty), then Python's codec `name`."""

    name: str
    bom: bytes = b""


UTF_8 = Encoding("utf-8")
LATIN_1 = Encoding("latin-1")
CP_1252 = Encoding("cp1252")
MARKED_ENCODINGS = (
    Encoding("utf-8", codecs.BOM_UTF8),
    # before UTF-16: the mark of UTF-32 LE begins with that of UTF-16 LE
    Encoding("utf-32-le", codecs.BOM_UTF32_LE),
    Encoding("utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)
UTF_16_LE = Encoding("utf-16-le")
UTF_16_BE = Encoding("utf-16-be")

CONTROLS = bytes(code for code in range(32) if code not in b"\b\t\n\r\f\x1b")
MAX_CONTROLS = 0.02
WINDOWS_ONLY = bytes(range(0x80, 0xA0))
NOT_IN_CP_1252 = (0x81, 0x8D, 0x8F, 0x90, 0x9D)

DECLARATION = lazy_pattern(rb"""(?:coding[:=]|encoding=|charset=)[ \t]*["']?([A-Za-z][\w.-]{1,30})""")
DECLARED_WITHIN = 1_024
LONGEST_CHARACTER = 8

MIN_NULLS = 0.2
LOOKED_AT = 4_096


class NotText(Exception):
    """The bytes are not text in any encoding that is known here."""


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


def detect_encoding(head: bytes, *, final: bool) -> Encoding:
    """The encoding of a file that begins with `head` (all of it if `final`). Raises `NotText` for binary data."""
    for encoding in MARKED_ENCODINGS:
        if head.startswith(encoding.bom):
            return encoding
    if b"\0" in head:
        return _unmarked_utf_16(head, final=final)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final)
    except UnicodeDecodeError:
        one_byte = one_byte_encoding(head)
        return _declared_encoding(head, final=final) or one_byte
    return UTF_8


def one_byte_encoding(data: bytes) -> Encoding:
    """The encoding of text that is not UTF-8. Raises `NotText` for what has more control characters than text has."""
    controls = len(data) - len(data.translate(None, CONTROLS))
    if controls > len(data) * MAX_CONTROLS:
        raise NotText
    # Latin-1 has control characters there that no text holds; Windows has quotation marks, dashes and the euro
    if len(data.translate(None, WINDOWS_ONLY)) < len(data) and not any(byte in data for byte in NOT_IN_CP_1252):
        return CP_1252
    return LATIN_1


def _declared_encoding(head: bytes, *, final: bool) -> Encoding | None:
    """The encoding that the text says it has, as Python (PEP 263), XML and HTML do; None if that cannot be."""
    found = DECLARATION.search(head[:DECLARED_WITHIN])
    if found is None:
        return None
    name = found[1].decode("ascii").lower()
    try:
        if b"\n <a=1>".decode(name) != "\n <a=1>":
            return None
        text = codecs.getincrementaldecoder(name)().decode(head, final)
        again = text.encode(name)
    # the name may be none, or that of something that is no encoding of text
    except (LookupError, UnicodeError, ValueError):
        return None
    # a head may end within a character
    unread = 0 if final else LONGEST_CHARACTER
    return Encoding(name) if head.startswith(again) and len(head) - len(again) <= unread else None


def _unmarked_utf_16(head: bytes, *, final: bool) -> Encoding:
    """UTF-16 without a byte order mark, told by where its null bytes are: text is mostly of the first 256 characters."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    encoding = UTF_16_LE if odd else UTF_16_BE
    if min(even, odd) or max(even, odd) < len(head) * MIN_NULLS or (final and len(head) % 2):
        raise NotText
    try:
        text = codecs.getincrementaldecoder(encoding.name)().decode(head, final)
    except UnicodeDecodeError:
        raise NotText from None
    if any(character < " " and character not in "\t\n\r\f\x1b" for character in text[:LOOKED_AT]):
        raise NotText
    return encoding


def decode(data: bytes) -> tuple[str, Encoding]:
    """All of a file's text, without its byte order mark. `encode` gives exactly `data` back. Raises `NotText`."""
    encoding = detect_encoding(data, final=True)
    try:
        return data[len(encoding.bom) :].decode(encoding.name), encoding
    except UnicodeDecodeError as error:
        raise NotText from error


def encode(text: str, encoding: Encoding, display_path: str) -> bytes:
    """`text` as a file's bytes; an error that names the character which the encoding does not have."""
    try:
        return encoding.bom + text.encode(encoding.name)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{display_path} is {encoding.name}, which has no character {text[error.start]!r}; nothing was changed. "
            "Use another character, or convert the file to UTF-8 first.",
            code=ErrorCode.INVALID_PARAMETERS,
        ) from error


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
    if max(len(lines), len(old_lines)) > ALIGNED_LINES:
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
    """Lines as the model sees them: the number right-aligned in six columns, a tab, the line."""
    return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, first))
