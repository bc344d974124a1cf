"""An edit of a text file, worked out from what is on disk now, nothing written.

`old_string` → `new_string` in a text whose line ends the model does not see. Where `old_string` is not found, the place
most like it is named, and the difference in words.
"""

from __future__ import annotations

import html
import json
import os
import re
import time
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import LOOK_ALIKES, counted, look_alike_words
from cellwright.tools.code.syntax_check import check_syntax
from cellwright.tools.files.changes import Change, diff_texts
from cellwright.tools.files.encodings import (
    UTF_8,
    Encoding,
    NotText,
    decode,
    decode_as,
    detect_encoding,
    encode,
    encode_changed,
    encoding_note,
    named_encoding,
)
from cellwright.tools.files.file_state import FileState, SeenFile, is_stale, sha256
from cellwright.tools.files.text import main_line_end, numbered, open_regular, read_bytes, with_line_ends
from cellwright.tools.notebook.notebook_json import notebook_content, parse_notebook
from cellwright.tools.notebook.notebook_source import NotANotebook

LINE_CHARS = 300
LIKE_ENOUGH = 0.6
"""The part of a line that must be alike."""

EDITED_BYTES = 10 * 2**20
TOO_LARGE = "Change it with Bash (sed) or Python."

HEAD_BYTES = 64 * 1024
"""So much of a file tells whether it is text."""

PLACES_NAMED = 20
"""The number of places of an ambiguous `old_string` that are named."""


def look_alikes(text: str, target: str) -> str:
    """A hint if `target` is in `text` but for characters that look alike: which they are, and how to write them."""
    if text.isascii() and target.isascii() and "\0" not in text:
        return ""
    at = text.translate(LOOK_ALIKES).find(target.translate(LOOK_ALIKES))
    if at < 0:
        return ""
    line = text.count("\n", 0, at) + 1
    named = look_alike_words(text[at : at + len(target)], target, "old_string")
    return f"It is at line {line} with {named}. Write old_string with the file's characters."


def nearest_place(text: str, target: str, name: str = "old_string") -> str:
    """A hint that shows the lines of `text` most like `target` (called `name`), numbered; empty if nothing is like it."""
    lines = text.split("\n")
    sought = target.strip("\n").split("\n")
    start = _by_equal_lines(lines, sought)
    if start is None:
        start = _by_similar_line(lines, sought)
    if start is None:
        return ""
    found = lines[start : start + len(sought)]
    shown = numbered([line[:LINE_CHARS] for line in found[:12]], start + 1)
    return f"The nearest place is this:\n{shown}\n{_difference(found, sought, start, name)}"


def _by_equal_lines(lines: list[str], sought: list[str]) -> int | None:
    """The start on which most lines agree that are equal but for white space around them."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        places[line.strip()].append(number)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(sought):
        where = places.get(line.strip(), []) if line.strip() else []
        # a line that is there so often says nothing about the place
        if len(where) <= 50:
            votes.update(number - offset for number in where if number >= offset)
    if not votes:
        return None
    best = max(votes.values())
    return min(start for start, count in votes.items() if count == best)


def _by_similar_line(lines: list[str], sought: list[str]) -> int | None:
    """The start that the longest line sought has by similarity, as far as the time allows."""
    offset, longest = max(enumerate(sought), key=lambda pair: len(pair[1].strip()))
    matcher = SequenceMatcher(None, "", longest.strip()[:LINE_CHARS], autojunk=False)
    # comparing goes line by line; a good hint is not worth more than this
    deadline = time.monotonic() + 0.2
    near: list[tuple[float, int]] = []
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:LINE_CHARS])
        # the first two are quick, and never below the third
        if matcher.real_quick_ratio() >= LIKE_ENOUGH and matcher.quick_ratio() >= LIKE_ENOUGH:
            near.append((matcher.ratio(), max(number - offset, 0)))
        if time.monotonic() > deadline:
            break
    near = sorted((each for each in near if each[0] >= LIKE_ENOUGH), key=lambda pair: (-pair[0], pair[1]))
    if not near:
        return None

    def likeness(start: int) -> float:
        # so many lines of each such place are weighed
        there = lines[start : start + 10]
        return sum(_likeness(line, other) for line, other in zip(there, sought, strict=False))

    # of the lines that are alike, the one whose neighbours are alike too
    return max((start for _, start in near[:5]), key=likeness)


def _likeness(line: str, other: str) -> float:
    return SequenceMatcher(None, line.strip()[:LINE_CHARS], other.strip()[:LINE_CHARS], autojunk=False).ratio()


def _unquoted(text: str) -> str:
    return re.sub(r"[\"'`\u00b4\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2032\u2033]", "'", text)


def _plain(text: str) -> str:
    """Characters that look alike, as one: dashes, blanks, ligatures; without those that cannot be seen."""
    text = re.sub(r"[\u2010-\u2015\u2212]", "-", unicodedata.normalize("NFKC", text))
    return "".join(character for character in text if unicodedata.category(character) != "Cf")


def _unescaped(text: str) -> str:
    known = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'", "\\\\": "\\"}

    return html.unescape(re.sub(r"\\[nt\"'\\]", lambda found: known[found[0]], text))


def _by_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


_DIFFERENCES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ('escapes (`\\n`, `\\"` or `&lt;` written out)', _unescaped),
    ("line ends", lambda text: text.replace("\r", "")),
    ("characters that look alike (dashes, blanks that are no blanks, …)", _plain),
    ("quotes", _unquoted),
    ("indentation (white space at the start of a line)", _by_line(lambda line: line.lstrip(" \t"))),
    ("white space at the end of a line", _by_line(lambda line: line.rstrip(" \t"))),
    ("white space within a line", _by_line(lambda line: re.sub(r"(?<=[^ \t])[ \t]+", " ", line))),
    ("upper and lower case", str.casefold),
)


def differences(one: str, other: str) -> list[str]:
    """Describe what two texts differ in, if that is all they differ in."""

    def alike(left_out: int) -> bool:
        left, right = one, other
        for number, (_, change) in enumerate(_DIFFERENCES):
            if number != left_out:
                left, right = change(left), change(right)
        return left == right

    if not alike(left_out=-1):
        return []
    return [words for number, (words, _) in enumerate(_DIFFERENCES) if not alike(left_out=number)]


def _difference(found: list[str], sought: list[str], start: int, name: str) -> str:
    there, target = "\n".join(found), "\n".join(sought)
    named = differences(there, target)
    only = f"It differs only in {' and '.join(named)}. " if named else ""
    for number, (line, line_sought) in enumerate(zip(found, sought, strict=False), start + 1):
        if line != line_sought:
            return f"{only}Line {number} is {line[:LINE_CHARS]!r}, {name} has {line_sought[:LINE_CHARS]!r}."
    if len(found) == len(sought):
        return "It differs only in empty lines before or after it."
    return f"{name} goes on after the last line of the file."


def replace_text(text: str, old: str, new: str, *, replace_all: bool, display_path: str) -> tuple[str, int]:
    """`text` with `old` replaced by `new`, literally, and how often.

    LF in `old` matches CRLF in the text; what is put in gets the line ends of what it stands for. Everything else stays
    as it is. Raises `ToolError` unless `old` is there exactly once, or `replace_all`.
    """
    flat = text.replace("\r\n", "\n")
    needle = old.replace("\r\n", "\n") if flat != text else old
    first = flat.find(needle)
    if first < 0:
        raise _not_found(flat, needle, display_path)
    # also one that overlaps the first: it is not clear which one is meant
    if not replace_all and flat.find(needle, first + 1) >= 0:
        raise _ambiguous(flat, needle, display_path)
    # a result that is too large is not even made in memory
    count = text.count(needle) if flat == text else flat.count(needle)
    check_size(len(text) + count * (len(new) - len(needle)), EDITED_BYTES, display_path)
    if flat == text:
        return text.replace(needle, new), count
    return _replace_in_crlf(text, flat, needle, new)


def _replace_in_crlf(text: str, flat: str, needle: str, new: str) -> tuple[str, int]:
    """The same where `text` has CRLF: `needle` is looked for in `flat`, its copy with LF alone."""
    carriage_returns = (found.start() for found in re.finditer("\r\n", text))
    line_feeds = [position - number for number, position in enumerate(carriage_returns)]
    parts: list[str] = []
    done = count = 0
    for start in _occurrences(flat, needle, step=len(needle)):
        stop = start + len(needle)
        begin, end = start + bisect_left(line_feeds, start), stop + bisect_left(line_feeds, stop)
        parts += text[done:begin], _fitting(new, text, begin, end)
        done = end
        count += 1
    return "".join(parts) + text[done:], count


def _occurrences(text: str, needle: str, step: int) -> Iterator[int]:
    """Yield where `needle` begins; the search for the next one goes on `step` characters later."""
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + step)


def _fitting(new: str, text: str, begin: int, end: int) -> str:
    """`new` with the line ends of `text[begin:end]`; without any there, with that of the line it stands on."""
    line_feed = text.find("\n", end)
    if line_feed < 0:
        line_feed = text.rfind("\n", 0, begin)
    here = "\r\n" if line_feed > 0 and text[line_feed - 1] == "\r" else "\n"
    return with_line_ends(new, text[begin:end], here if line_feed >= 0 else main_line_end(text))


def _ambiguous(text: str, needle: str, display_path: str) -> ToolError:
    count = sum(1 for _ in _occurrences(text, needle, step=1))
    lines = [text.count("\n", 0, start) + 1 for start in islice(_occurrences(text, needle, step=1), PLACES_NAMED)]
    more = f" and {count - PLACES_NAMED} more" if count > PLACES_NAMED else ""
    return ToolError(
        f"old_string is in {display_path} {count} times, at lines {', '.join(map(str, lines))}{more}. "
        "Give more of the lines around the one you mean, or set replace_all.",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"matches": count, "lines": lines},
    )


def _not_found(text: str, needle: str, display_path: str) -> ToolError:
    message = f"old_string is not in {display_path}."
    if re.match(r"\s*\d+\t", needle):
        message += " It seems to begin with the line number that Read puts before each line: leave those out."
    if alike := look_alikes(text, needle):
        return ToolError(f"{message} {alike}", code=ErrorCode.INVALID_PARAMETERS)
    near = nearest_place(text, needle)
    return ToolError(
        f"{message} {near or 'Nothing there is like it: read the file again.'}", code=ErrorCode.INVALID_PARAMETERS
    )


class FileOnDisk(Struct, frozen=True):
    """A text file as it is now, and what the model saw of it."""

    data: bytes
    status: os.stat_result
    text: str
    encoding: Encoding
    seen: SeenFile
    stale: bool

    @property
    def known(self) -> bool:
        """True when the model knows all of it, as it is now."""
        return self.seen.whole and not self.stale


def check_size(size: int, limit: int, display_path: str) -> None:
    """Raise ToolError for a content that no tool of ours could change again."""
    if size > limit:
        raise ToolError(
            f"{display_path} "
            f"would have {size / 2**20:,.1f} MB; the limit is {limit // 2**20} MB. Nothing was written. Write it "
            "with Bash or Python, or split it.",
            code=ErrorCode.INVALID_PARAMETERS,
            details={"bytes": size, "limit": limit},
        )


def creation(real: Path, display_path: str, content: str, encoding: str | None = None) -> Change:
    """A new file, in UTF-8 or the encoding of that name."""
    written = UTF_8 if encoding is None else named_encoding(encoding)
    after = encode(content, written, display_path)
    check_size(len(after), EDITED_BYTES, display_path)
    diff = diff_texts(None, content, display_path)
    note = check_syntax(real, None, content, display_path, allowed=True)
    return Change(
        path=real,
        display_path=display_path,
        before=None,
        replacing=None,
        after=after,
        diff=diff,
        title=f"Create {display_path}",
        result=f"Created {display_path} ({counted(diff.added, 'line')}, {len(after):,} bytes).{note}",
        whole=True,
        encoding=written,
    )


def update(
    real: Path,
    display_path: str,
    old: FileOnDisk,
    text: str,
    verb: tuple[str, str],
    *,
    allow_syntax_errors: bool,
    whole: bool,
    about: str = "",
    encoding: Encoding | None = None,
) -> Change:
    """The file with `text` in place of what it holds, in its own encoding or another that was asked for.

    ToolError if its syntax breaks, unless that is allowed, and if its encoding was guessed and cannot hold the text.
    """
    if encoding is None:
        encoding = old.encoding
        after = encode_changed(old.data, old.text, text, encoding, display_path)
    else:
        after = encode(text, encoding, display_path)
    check_size(len(after), EDITED_BYTES, display_path)
    diff = diff_texts(old.text, text, display_path)
    if after == old.data:
        result = f"{display_path} has exactly this content already; nothing was written."
    else:
        note = check_syntax(real, old.text, text, display_path, allowed=allow_syntax_errors)
        note += encoding_note(encoding, display_path)
        if encoding.name != old.encoding.name:
            was = "was taken as" if old.encoding.guessed else "was"
            note += f"\n[{display_path} is {encoding.label} now; it {was} {old.encoding.label}.]"
        result = f"{verb[1]} {display_path} ({diff.counts}{about}):\n{diff.excerpt}{note}"
        if old.stale:
            result += (
                "\n[It had changed on disk since it was read; only your text was replaced. Read it to see the rest.]"
            )
    return Change(
        path=real,
        display_path=display_path,
        before=old.data,
        replacing=old.status,
        after=after,
        diff=diff,
        title=f"{verb[0]} {display_path}",
        result=result,
        whole=whole,
        encoding=encoding,
    )


def replaced(
    old: FileOnDisk, old_string: str, new_string: str, replace_all: bool, display_path: str
) -> tuple[str, int]:
    """`replace_text` in a file that may have changed since it was read."""
    try:
        return replace_text(old.text, old_string, new_string, replace_all=replace_all, display_path=display_path)
    except ToolError as error:
        if old.stale:
            # what is there now was not shown to the model, and is not told to it by the way
            raise stale_error(display_path) from error
        raise


def on_disk(real: Path, display_path: str, state: FileState, encoding: str | None = None) -> FileOnDisk | None:
    """The file as it is; None if there is none. It must have been read before.

    Its text is in the encoding of that name, in the one it was read in, or in the one that it seems to have.
    """
    if not real.exists():
        return None
    if real.is_file() and state.get(real) is None:
        _check_text(real, display_path)
        state.require(real, display_path)
    data, status = read_bytes(real, display_path, EDITED_BYTES, TOO_LARGE)
    seen = state.require(real, display_path)
    stale = is_stale(seen, status, sha256(data))
    try:
        if encoding is not None:
            named = named_encoding(encoding)
            named = replace(named, bom=named.bom if data.startswith(named.bom) else b"")
            return FileOnDisk(data, status, decode_as(data, named, display_path), named, seen, stale)
        text, found = decode(data, None if stale else seen.encoding)
    except NotText:
        raise _binary(display_path) from None
    return FileOnDisk(data, status, text, found, seen, stale)


def _check_text(real: Path, display_path: str) -> None:
    """Raise ToolError for a file that Read would not show either: then it is no use to say that it must be read."""
    with open_regular(real, display_path) as file:
        head = file.read(HEAD_BYTES) or b""
    try:
        detect_encoding(head, final=len(head) < HEAD_BYTES)
    except NotText:
        raise _binary(display_path) from None


def _binary(display_path: str) -> ToolError:
    return ToolError(
        f"{display_path} is binary data, which the file tools neither read nor change. {TOO_LARGE}",
        code=ErrorCode.FILE_ACCESS_ERROR,
    )


def check_editable(real: Path, display_path: str, old: FileOnDisk, old_string: str) -> None:
    """Raise ToolError if `old_string` cannot be replaced in this file, whatever it holds."""
    if not old_string and old.text:
        raise ToolError(
            f"old_string is empty, but {display_path} exists and is not. Give the text to replace, or use Write.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    check_editable_notebook(real, display_path, old.text)


def check_editable_notebook(real: Path, display_path: str, text: str) -> None:
    """Raise ToolError if the file is a notebook: those are not changed as text."""
    if real.suffix.lower() != ".ipynb":
        return

    try:
        notebook_content(text)
    except NotANotebook:
        return  # broken as a notebook: it can only be mended as text
    raise ToolError(
        f"{display_path} is a notebook. Change its cells with NotebookEdit.", code=ErrorCode.FILE_PATH_INVALID
    )


def with_cell_ids(content: str) -> tuple[str, str]:
    """A notebook's content with ids for cells that lack one, and a note that says so."""
    data, count = parse_notebook(content.encode("utf-8", "surrogatepass")).with_ids()
    if not count:
        return content, ""
    note = f"\n[{counted(count, 'cell')} had no id, which nbformat 4.5 asks for, and got one.]"
    return data.decode("utf-8", "surrogatepass"), note


def check_notebook(content: str, display_path: str) -> None:
    """Raise ToolError if a notebook file would not be a notebook with this content."""

    try:
        notebook_content(content)
    except NotANotebook as error:
        minimal = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        raise ToolError(
            f"{display_path} would not be a notebook: {error}. The smallest one is {minimal}; add cells with NotebookEdit.",
            code=ErrorCode.INVALID_PARAMETERS,
        ) from error


def stale_error(display_path: str) -> ToolError:
    """The error for a file that is no longer what the model has seen."""
    return ToolError(
        f"{display_path} has changed on disk since it was read. Read it again before you change it.",
        code=ErrorCode.FILE_ACCESS_ERROR,
    )
