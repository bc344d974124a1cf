"""Text on disk: its bytes, its lines and their ends, and how those survive an edit."""

from __future__ import annotations

import difflib
import os
import stat
from io import FileIO
from pathlib import Path

from cellwright.errors import ErrorCode, ToolError

ALIGNED_LINES = 2_000
"""Up to so many lines, old and new ones are aligned to keep mixed line ends; the comparison is quadratic."""


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
    """Lines as the model sees them: the number right-aligned in six columns, a tab, the line; null bytes as ␀."""
    text = "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, first))
    return text.replace("\0", "␀") if "\0" in text else text
