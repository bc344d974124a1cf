"""A definition taken out of a text, or another put in its place or beside it, with the blank lines that belong between."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.code.symbol_outline import Definition
from cellwright.tools.files.formats.text import main_line_end
from cellwright.tools.indentation import indentation_unit, indented
from cellwright.tools.languages import PYTHON, Grammar
from cellwright.tools.patch_matching import split_lines

_COMMENT = re.compile(r"\s*(?:#(?!\[)|//|/\*)")
_DECORATOR = re.compile(r"^\s*(?:@\w|#\[)", re.MULTILINE)
_EXPORT = re.compile(r"(?:^|\n)\s*export\b")
_CLOSERS = ("}", ")", "]", "end")


@dataclass(frozen=True, slots=True)
class Spliced:
    """The text after an edit, and what Claude should know of it."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A definition's lines `first` to `last` (excluded) among `lines`, and what the new ones are like."""

    lines: list[str]
    first: int
    last: int
    indent: str
    end: str
    blank: int
    """How many blank lines the language's usual style has between two definitions here."""


def splice(text: str, source: bytes, found: Definition, action: str, new: str, grammar: Grammar, shown: str) -> Spliced:
    """`text` (in UTF-8: `source`) with `action` done to the definition `found`."""
    keeps_comment = action == "replace" and not _COMMENT.match(new)
    start = found.below_comment if keeps_comment else found.start
    line_start = source.rfind(b"\n", 0, start) + 1
    line_end = source.find(b"\n", found.stop)
    before, after = source[line_start:start], source[found.stop : line_end if line_end >= 0 else len(source)]
    if before.strip() or after.strip():
        return Spliced(_within_line(source, start, found, action, new, shown))
    end = main_line_end(text)
    lines = split_lines(text)
    first, last = source.count(b"\n", 0, start), source.count(b"\n", 0, found.stop) + 1
    indent = before.decode()
    place = _Place(lines, first, last, indent, end, 2 if grammar is PYTHON and not indent else 1)
    notes: tuple[str, ...] = ()
    if action == "delete":
        result = _without(place)
    else:
        unit = indentation_unit(text, "\t" if "\t" in indent else "    ")
        added = [line + end for line in indented(new, indent, unit, grammar)]
        if action == "replace":
            notes = _lost(source[start : found.stop].decode("utf-8", "replace"), new)
            result = lines[:first] + added + lines[last:]
        else:
            result = _before(place, added) if action == "insert_before" else _after(place, added)
    return Spliced(_ended_like(text, result, end), notes)


def _within_line(source: bytes, start: int, found: Definition, action: str, new: str, shown: str) -> str:
    """The same where other code is on the definition's lines: only its own characters go."""
    if action.startswith("insert"):
        raise ToolError(
            f"{found.name} shares line {found.line} of {shown} with other code. Insert with Edit.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    put = new.strip().encode("utf-8", "surrogatepass") if action == "replace" else b""
    after = source[found.stop :] if put else source[found.stop :].lstrip(b" \t")
    return (source[:start] + put + after).decode("utf-8", "surrogatepass")


def _ended_like(text: str, lines: list[str], end: str) -> str:
    """The lines as one text, with a line end at its end only if `text` has one."""
    whole = "".join(line if line.endswith("\n") else line + end for line in lines)
    return whole if text.endswith("\n") or not whole.endswith("\n") else whole.removesuffix("\n").removesuffix("\r")


def _lost(old: str, new: str) -> tuple[str, ...]:
    """What was part of a definition and is not in what replaces it: it may have been forgotten."""
    notes = []
    if (decorator := _DECORATOR.search(old)) and not _DECORATOR.search(new):
        line = old[decorator.start() :].lstrip().split("\n")[0]
        notes.append(f"{line.strip()} is gone: new_source does not have it.")
    if _EXPORT.match(old) and not _EXPORT.match(new):
        notes.append("It was exported and is not any more: new_source does not begin with export.")
    return tuple(notes)


def _gap(lines: list[str], at: int, step: int) -> tuple[int, str]:
    """How many blank lines are from line `at` on (`step` 1 or -1), and the line after them, "" at the text's end."""
    count = 0
    while 0 <= at < len(lines) and not lines[at].strip():
        count += 1
        at += step
    return count, lines[at] if 0 <= at < len(lines) else ""


def _neighbour(line: str, indent: str) -> bool:
    """Whether a line is of the same block: not its head, not its end."""
    own = line[: len(line) - len(line.lstrip(" \t"))]
    return bool(line.strip()) and len(own) >= len(indent) and not line.strip().startswith(_CLOSERS)


def _blank_lines(place: _Place, added: list[str]) -> int:
    """Blank lines to go between the definition and the new one: none where one-liners stand close together."""
    if place.last - place.first > 1 or len(added) > 1:
        return place.blank
    sides = _gap(place.lines, place.first - 1, -1), _gap(place.lines, place.last, 1)
    return 0 if any(not gap and _neighbour(line, place.indent) for gap, line in sides) else place.blank


def _after(place: _Place, added: list[str]) -> list[str]:
    gap, line = _gap(place.lines, place.last, 1)
    blank = _blank_lines(place, added)
    # what follows closely gets its distance too
    missing = max(blank - gap, 0) if _neighbour(line, place.indent) else 0
    own = [*place.lines[: place.last]]
    if not own[-1].endswith("\n"):
        own[-1] += place.end
    return [*own, *[place.end] * blank, *added, *[place.end] * missing, *place.lines[place.last :]]


def _before(place: _Place, added: list[str]) -> list[str]:
    gap, line = _gap(place.lines, place.first - 1, -1)
    blank = _blank_lines(place, added)
    neighbour = _neighbour(line, place.indent) and not _opens(line, place.indent)
    missing = max(blank - gap, 0) if neighbour else 0
    return [
        *place.lines[: place.first],
        *[place.end] * missing,
        *added,
        *[place.end] * blank,
        *place.lines[place.first :],
    ]


def _opens(line: str, indent: str) -> bool:
    """Whether a line is the head of a block that begins there, though it is not less indented."""
    return not indent and line.rstrip().endswith(("{", "("))


def _without(place: _Place) -> list[str]:
    above, head = _gap(place.lines, place.first - 1, -1)
    below, foot = _gap(place.lines, place.last, 1)
    if not _neighbour(foot, place.indent):
        keep = below  # the last one of its block: what is above it ends as it did
    elif not _neighbour(head, place.indent) or _opens(head, place.indent):
        keep = above
    else:
        keep = max(above, below)
    blank = [line for line in place.lines[place.last : place.last + below] if keep] or [place.end]
    return [
        *place.lines[: place.first - above],
        *(blank * keep)[:keep],
        *place.lines[place.last + below :],
    ]
