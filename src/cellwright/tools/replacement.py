"""`old_string` → `new_string` in a text whose line ends the model does not see."""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import islice

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.nearest import nearest_place
from cellwright.tools.text_files import main_line_end, with_line_ends

PLACES_NAMED = 20
"""How many of the places of an ambiguous `old_string` are named."""


def replace_text(text: str, old: str, new: str, *, replace_all: bool, shown: str) -> tuple[str, int]:
    """`text` with `old` replaced by `new`, literally, and how often.

    LF in `old` matches CRLF in the text; what is put in gets the line ends of what it stands for. Everything else stays
    as it is. Raises `ToolError` unless `old` is there exactly once, or `replace_all`.
    """
    carriage_returns = [found.start() for found in re.finditer("\r\n", text)]
    flat = text.replace("\r\n", "\n") if carriage_returns else text
    needle = old.replace("\r\n", "\n") if carriage_returns else old
    starts = _places(flat, needle, overlapping=not replace_all)
    if not starts:
        raise _not_there(flat, needle, shown)
    if len(starts) > 1 and not replace_all:
        raise _ambiguous(flat, starts, shown)
    line_feeds = [position - number for number, position in enumerate(carriage_returns)]
    parts: list[str] = []
    done = 0
    for start in starts:
        begin = start + bisect_left(line_feeds, start)
        end = start + len(needle) + bisect_left(line_feeds, start + len(needle))
        parts += text[done:begin], _fitting(new, text, begin, end) if carriage_returns else new
        done = end
    return "".join(parts) + text[done:], len(starts)


def _places(text: str, needle: str, *, overlapping: bool) -> list[int]:
    """Where `needle` begins. Places that overlap count as several only if `overlapping`."""
    places: list[int] = []
    at = text.find(needle)
    while at >= 0:
        places.append(at)
        at = text.find(needle, at + (1 if overlapping else len(needle)))
    return places


def _fitting(new: str, text: str, begin: int, end: int) -> str:
    """`new` with the line ends of `text[begin:end]`; without any there, with that of the line it stands on."""
    line_feed = text.find("\n", end)
    if line_feed < 0:
        line_feed = text.rfind("\n", 0, begin)
    here = "\r\n" if line_feed > 0 and text[line_feed - 1] == "\r" else "\n"
    return with_line_ends(new, text[begin:end], here if line_feed >= 0 else main_line_end(text))


def _ambiguous(text: str, starts: list[int], shown: str) -> ToolError:
    lines = [text.count("\n", 0, start) + 1 for start in islice(starts, PLACES_NAMED)]
    more = f" and {len(starts) - PLACES_NAMED} more" if len(starts) > PLACES_NAMED else ""
    return ToolError(
        f"old_string is in {shown} {len(starts)} times, at lines {', '.join(map(str, lines))}{more}. "
        "Give more of the lines around the one you mean, or set replace_all.",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"matches": len(starts), "lines": lines},
    )


def _not_there(text: str, needle: str, shown: str) -> ToolError:
    message = f"old_string is not in {shown}."
    if re.match(r"\s*\d+\t", needle):
        message += " It seems to begin with the line number that Read puts before each line: leave those out."
    near = nearest_place(text, needle)
    return ToolError(
        f"{message} {near or 'Nothing there is like it: read the file again.'}", code=ErrorCode.INVALID_PARAMETERS
    )
