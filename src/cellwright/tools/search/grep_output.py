"""Grep's results from rg's output: records to lines, lines to a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, field, structs

from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import counted, lazy_pattern, visible
from cellwright.tools.paths import file_errors, not_found, resolve_path, shown_path
from cellwright.tools.search.globs import GlobReadings
from cellwright.tools.search.ripgrep import Output, relative_path

LINE_CHARS = 500
RESULT_CHARS = 80_000
SHOWN_FILES = 100
"""The number of names that go to the views."""

NEAR_LINES = 10
"""Lines before and behind a match that programs are given with it at most."""

SEPARATOR = b"\0\0"
"""Between two places of a file whose context does not touch; asked for with --context-separator."""

_NUMBERED = lazy_pattern(rb"(\d+)([:-])(?:(\d+)\x00)?")
_BINARY = lazy_pattern(rb"(.*?): ((?:binary file matches|WARNING: stopped searching binary file).*)", re.DOTALL)


MATCH_COLOUR = (1, 163, 7)
"""Lines come with their matches in this colour, which says where they begin and end; it is taken out again."""

COLOURS = (
    "--color=always",
    *(f"--colors={what}:none" for what in ("path", "line", "column", "match")),
    f"--colors=match:fg:{','.join(map(str, MATCH_COLOUR))}",
)
"""rg's arguments for that."""

_RESET = b"\x1b[0m"
_MATCH = lazy_pattern(
    re.escape(_RESET + b"\x1b[38;2;%d;%d;%dm" % MATCH_COLOUR) + rb"(.*?)" + re.escape(_RESET), re.DOTALL
)
_COLOURED = lazy_pattern(
    rb"\x1b\[0m(.*?)\x1b\[0m(\x00)\x1b\[0m(\d+)\x1b\[0m([:-])(?:\x1b\[0m(\d+)\x1b\[0m[:-])?", re.DOTALL
)
_COLOURED_NAME = lazy_pattern(rb"\x1b\[0m(.*?)\x1b\[0m(?=: )", re.DOTALL)


class GrepMatch(Struct, kw_only=True, frozen=True):
    """A match in a line (a part of it, of a match that spans lines): from byte `start` to byte `end` of the line's UTF-8.

    Bytes count from 0; `end` is the first that is not of the match, so that `line.encode()[start:end]` is it. Lines count
    from 1. Matches that touch are one. What lies behind the part of a long line that is shown is not listed.
    `line_content` is the line as the result shows it; of the lines around it that were asked for, the nearest are here.
    """

    path: str
    line: int
    start: int
    end: int
    line_content: str = ""
    context_before: tuple[str, ...] = ()
    context_after: tuple[str, ...] = ()


class MatchPlaces(NamedTuple):
    """The matches of one line, by their bytes; none in a line that is shown as context."""

    path: str
    line: int
    spans: Sequence[tuple[int, int]]
    text: str = ""


NO_PLACES = MatchPlaces("", 0, ())


class GrepOutput(ToolOutput):
    """The finds and their places, in Claude Code's names; `matches` and `numMatches` (matching lines) by the mode.

    `filenames` are the first files; `matches` those of the lines that the result shows, in mode "content" alone.
    """

    mode: Literal["content", "files_with_matches", "count"]
    num_files: int = field(name="numFiles")
    filenames: tuple[str, ...] = ()
    num_matches: int | None = field(name="numMatches", default=None)
    num_lines: int = field(name="numLines", default=0)
    applied_limit: int = field(name="appliedLimit", default=0)
    applied_offset: int = field(name="appliedOffset", default=0)
    timed_out: bool = field(name="timedOut", default=False)
    matches: tuple[GrepMatch, ...] = ()
    search_time_ms: float = 0.0


class SearchRoot(Struct, frozen=True):
    """The place of a search: rg runs in `folder` on `target`; `prefix` goes before the paths that it prints."""

    folder: Path
    target: str
    prefix: str

    def behind(self, readings: GlobReadings) -> SearchRoot:
        """The place where the search for a glob starts: this one, or a folder behind a link."""
        return structs.replace(self, folder=readings.folder, prefix=self.prefix + readings.prefix)

    def shown(self, path: bytes) -> str:
        """A path as rg printed it, for the model: on one line, whatever is in its name."""
        text = self.prefix + relative_path(path)
        if text.isprintable():
            return text
        return visible(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).replace("\n", "⏎")


def search_root(cwd: Path, file_path: str) -> SearchRoot:
    """Find the folder rg runs in, and what it searches, for the path that a call gives."""
    path = resolve_path(cwd, file_path)
    display_path = shown_path(cwd, path)
    with file_errors(display_path):
        if not path.exists():
            raise not_found(path, display_path)
        if path.is_dir():
            return SearchRoot(path, ".", "" if display_path == "." else f"{display_path.rstrip('/')}/")
    folder = shown_path(cwd, path.parent)
    return SearchRoot(path.parent, path.name, "" if folder == "." else f"{folder.rstrip('/')}/")


def checked(output: Output, seconds: float) -> Output:
    """`output`, unless it is no result at all: then the error that says why."""
    if output.timed_out and not output.records:
        raise ToolError(
            f"Nothing was found within {seconds:g} s. Narrow the search (a folder in path, a glob, a type), or give it "
            "more time with timeout_seconds.",
            code=ErrorCode.EXECUTION_TIMEOUT,
        )
    # whether rg complained only of single files that it could not read
    if (
        output.whole
        and output.exit_code not in (0, 1)
        and not output.records
        and not (bool(output.errors) and all("(os error " in line for line in output.errors.splitlines()))
    ):
        message = output.errors.removeprefix("rg: ") or f"it ended with {output.exit_code}"
        raise ToolError(f"ripgrep refused the search: {message}", code=ErrorCode.INVALID_PARAMETERS)
    return output


class GrepResult(Struct, frozen=True):
    """The lines of a result, how many there are in all (None: more, not counted), and a first line on the whole.

    `output` is for programs; `places` tell the matches of each line, where they are known.
    """

    lines: list[str]
    total: int | None
    output: GrepOutput
    heading: str = ""
    noun: str = "lines"
    places: Sequence[MatchPlaces] = ()
    around: tuple[int, int] = (0, 0)
    """The number of lines before and behind a match that programs are given with it."""


def path_of(record: bytes) -> bytes:
    """The path that a record is about; empty for a separator."""
    path, found, _ = record.partition(b"\0")
    told = None if found else _BINARY.fullmatch(record)
    return told[1] if told else path


def without_coloured_names(record: bytes) -> bytes:
    """A record with the colour codes taken from all but its text; a column goes before that, and ends with a null byte."""
    if coloured := _COLOURED.match(record):
        path, null, number, sign, column = coloured.groups()
        before = b"".join((path, null, number, sign, b"" if column is None else column + b"\0"))
        return before + record[coloured.end() :]
    return _COLOURED_NAME.sub(rb"\1", record, count=1) if record.startswith(_RESET) else record


def _without_colour(data: bytes, before: int) -> tuple[bytes, list[tuple[int, int]]]:
    """A line without the colour of its matches, and where they are in it; `before` bytes of it are not shown."""
    if _RESET not in data:
        return data, []
    pieces: list[bytes] = []
    spans: list[tuple[int, int]] = []
    end = length = 0
    for match in _MATCH.finditer(data):
        length += match.start() - end
        spans.append((before + length, before + length + len(match[1])))
        length += len(match[1])
        pieces += (data[end : match.start()], match[1])
        end = match.end()
    return b"".join((*pieces, data[end:])), spans


def with_whole_names(records: Iterable[bytes]) -> Iterator[bytes]:
    """Records of lines; one without a path is the beginning of a file name that has a line end in it."""
    beginning = b""
    for record in records:
        if b"\0" in record or _BINARY.fullmatch(record):
            yield beginning + record
            beginning = b""
        else:
            beginning += record + b"\n"


class _Line(Struct, frozen=True):
    path: bytes
    number: int
    sign: str
    text: str
    spans: Sequence[tuple[int, int]] = ()


_BREAK = _Line(b"", 0, "", "")


def content_lines(output: Output, root: SearchRoot, *, numbers: bool, around: tuple[int, int]) -> GrepResult:
    """The matching lines and those around them, by path; `around`: how many before and behind a match."""
    shown: list[str] = []
    places: list[MatchPlaces] = []
    names: list[str] = []
    matches = 0
    ordered = _in_order(map(_line, output.records), whole=output.whole)
    for path, group in groupby(ordered, key=lambda line: line.path):
        name = root.shown(path)
        names.append(name)
        if shown and any(around):
            shown.append("--")
            places.append(NO_PLACES)
        for line in group:
            matches += line.sign == ":"
            number = f"{line.number}{line.sign}" if numbers and line.number else ""
            shown.append(f"{name}{line.sign}{number}{line.text}" if line.sign else "--")
            places.append(MatchPlaces(name, line.number, line.spans, line.text))
    near = min(around[0], NEAR_LINES), min(around[1], NEAR_LINES)
    about = GrepOutput(mode="content", num_files=len(names), filenames=tuple(names[:SHOWN_FILES]), num_matches=matches)
    return GrepResult(shown, len(shown) if output.whole else None, about, places=places, around=near)


def matches_of(found: GrepResult, index: int) -> list[GrepMatch]:
    """The matches in the line `index` of a result."""
    place, (before, after) = found.places[index], found.around
    near = [
        each
        for each in found.places[max(0, index - before) : index + after + 1]
        if each.path == place.path and place.line - before <= each.line <= place.line + after
    ]
    above = tuple(each.text for each in near if each.line < place.line)
    below = tuple(each.text for each in near if each.line > place.line)
    return [
        GrepMatch(
            path=place.path,
            line=place.line,
            start=start,
            end=end,
            line_content=place.text,
            context_before=above,
            context_after=below,
        )
        for start, end in place.spans
    ]


def _line(record: bytes) -> _Line:
    if record == SEPARATOR:
        return _BREAK
    path, _, rest = record.partition(b"\0")
    if numbered := _NUMBERED.match(rest):
        data, spans = _without_colour(rest[numbered.end() :], int(numbered[3] or 1) - 1)
        text = _text(data).rstrip("\r")[: LINE_CHARS + 100]
        return _Line(path, int(numbered[1]), numbered[2].decode(), text, spans)
    told = _BINARY.fullmatch(record)
    return _Line(told[1], 0, ": ", _text(told[2])) if told else _Line(path, 0, ":", _text(rest))


def _text(data: bytes) -> str:
    """A line as text; rg gives the bytes as they are, and what is not UTF-8 is most likely Latin-1."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _in_order(lines: Iterable[_Line], *, whole: bool) -> Sequence[_Line]:
    """Sorted by path, a file's lines in their order; a break belongs to the file after it."""
    ordered: list[_Line] = []
    separated = False
    for line in lines:
        if line is _BREAK:
            separated = True
            continue
        if separated and ordered and ordered[-1].path == line.path:
            ordered.append(_Line(line.path, 0, "", ""))
        separated = False
        ordered.append(line)
    return sorted(ordered, key=lambda line: line.path) if whole else ordered


def counts(output: Output, root: SearchRoot) -> GrepResult:
    """The number of matching lines of each file, and of all."""
    pairs = [record.rpartition(b"\0")[::2] for record in output.records]
    total = sum(int(count) for _, count in pairs)
    lines = sorted(f"{root.shown(path)}:{int(count)}" for path, count in pairs)
    heading = f"{counted(total, 'matching line')} in {counted(len(lines), 'file')}"
    names = tuple(root.shown(path) for path, _ in pairs[:SHOWN_FILES])
    about = GrepOutput(mode="count", num_files=len(lines), filenames=names, num_matches=total)
    return GrepResult(lines, len(lines), about, heading, "files")


def file_list(paths: Sequence[bytes], root: SearchRoot) -> GrepResult:
    """The files in which something was found."""
    lines = [root.shown(path) for path in paths]
    about = GrepOutput(mode="files_with_matches", num_files=len(lines), filenames=tuple(lines[:SHOWN_FILES]))
    return GrepResult(lines, len(lines), about, f"{counted(len(lines), 'file')}, newest first", "files")


def page(
    found: GrepResult, offset: int, limit: int, output: Output, seconds: float, search_time_ms: float
) -> ToolResult:
    """The lines from `offset`, at most `limit` and as many as fit, and what must be said about the rest."""
    lines = found.lines[offset : offset + limit if limit else None]
    shown, chars = 0, 0
    for line in lines:
        chars += len(line) + 1
        if chars > RESULT_CHARS:
            break
        shown += 1
    notes = _notes(found, offset, shown, output, seconds)
    heading = [found.heading] if found.heading and found.lines else []
    structured = structs.replace(
        found.output,
        num_lines=shown,
        applied_limit=limit,
        applied_offset=offset,
        timed_out=output.timed_out,
        search_time_ms=search_time_ms,
        matches=tuple(
            match
            for index in range(offset, min(offset + shown, len(found.places)))
            if found.places[index].spans
            for match in matches_of(found, index)
        ),
    )
    return ToolResult("\n".join([*heading, *lines[:shown], *notes]), structured=structured)


def _notes(found: GrepResult, offset: int, shown: int, output: Output, seconds: float) -> list[str]:
    notes = []
    if output.timed_out:
        notes.append(f"[Stopped after {seconds:g} s: there may be more. Narrow the search.]")
    elif not output.whole and found.total is not None:
        notes.append("[Stopped early: there is more than can be counted here. Narrow the search.]")
    if not found.lines:
        notes.append("No matches.")
    elif offset >= len(found.lines):
        notes.append(f"[offset={offset} is past the last of {len(found.lines)} {found.noun}.]")
    elif found.total is None or offset + shown < found.total:
        of = "of more" if found.total is None else f"of {found.total:,}"
        notes.append(f"[{found.noun} {offset + 1}-{offset + shown} {of}. Go on with offset={offset + shown}.]")
    if output.errors and output.exit_code == 2:
        notes.append(f"[Not everything could be searched:\n{output.errors}]")
    return notes
