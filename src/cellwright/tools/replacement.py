"""`old_string` → `new_string` in a text whose line ends the model does not see."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.files.formats.text import main_line_end, with_line_ends
from cellwright.tools.files.nearest import nearest_place

PLACES_NAMED = 20
"""How many of the places of an ambiguous `old_string` are named."""


def replace_text(text: str, old: str, new: str, *, replace_all: bool, shown: str) -> tuple[str, int]:
    """`text` with `old` replaced by `new`, literally, and how often.

    LF in `old` matches CRLF in the text; what is put in gets the line ends of what it stands for. Everything else stays
    as it is. Raises `ToolError` unless `old` is there exactly once, or `replace_all`.
    """
    flat = text.replace("\r\n", "\n")
    needle = old.replace("\r\n", "\n") if flat != text else old
    first = flat.find(needle)
    if first < 0:
        raise _not_there(flat, needle, shown)
    # also one that overlaps the first: it is not clear which one is meant
    if not replace_all and flat.find(needle, first + 1) >= 0:
        raise _ambiguous(flat, needle, shown)
    if flat == text:
        return text.replace(needle, new), text.count(needle)
    return _replace_in_crlf(text, flat, needle, new)


def _replace_in_crlf(text: str, flat: str, needle: str, new: str) -> tuple[str, int]:
    """The same where `text` has CRLF: `needle` is looked for in `flat`, its copy with LF alone."""
    carriage_returns = (found.start() for found in re.finditer("\r\n", text))
    line_feeds = [position - number for number, position in enumerate(carriage_returns)]
    parts: list[str] = []
    done = count = 0
    for start in _places(flat, needle, step=len(needle)):
        stop = start + len(needle)
        begin, end = start + bisect_left(line_feeds, start), stop + bisect_left(line_feeds, stop)
        parts += text[done:begin], _fitting(new, text, begin, end)
        done = end
        count += 1
    return "".join(parts) + text[done:], count


def _places(text: str, needle: str, step: int) -> Iterator[int]:
    """Where `needle` begins; the search for the next one goes on `step` characters later."""
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


def _ambiguous(text: str, needle: str, shown: str) -> ToolError:
    count = sum(1 for _ in _places(text, needle, step=1))
    lines = [text.count("\n", 0, start) + 1 for start in islice(_places(text, needle, step=1), PLACES_NAMED)]
    more = f" and {count - PLACES_NAMED} more" if count > PLACES_NAMED else ""
    return ToolError(
        f"old_string is in {shown} {count} times, at lines {', '.join(map(str, lines))}{more}. "
        "Give more of the lines around the one you mean, or set replace_all.",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"matches": count, "lines": lines},
    )


def _not_there(text: str, needle: str, shown: str) -> ToolError:
    message = f"old_string is not in {shown}."
    if re.match(r"\s*\d+\t", needle):
        message += " It seems to begin with the line number that Read puts before each line: leave those out."
    near = nearest_place(text, needle)
    return ToolError(
        f"{message} {near or 'Nothing there is like it: read the file again.'}", code=ErrorCode.INVALID_PARAMETERS
    )
