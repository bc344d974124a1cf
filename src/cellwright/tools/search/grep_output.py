"""Grep's results from rg's output: records to lines, lines to a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from cellwright.agent.tool import ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import counted, visible
from cellwright.tools.paths import file_errors, not_found, resolve_path, shown_path
from cellwright.tools.search.ripgrep import Output
from cellwright.tools.search.ripgrep_arguments import relative_path

LINE_CHARS = 500
RESULT_CHARS = 80_000
SHOWN_FILES = 100
"""The number of names that go to the views."""

SEPARATOR = b"\0\0"
"""Between two places of a file whose context does not touch; asked for with --context-separator."""

_NUMBERED = re.compile(rb"(\d+)([:-])")
_BINARY = re.compile(rb"(.*?): ((?:binary file matches|WARNING: stopped searching binary file).*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SearchRoot:
    """The place of a search: rg runs in `folder` on `target`; `prefix` goes before the paths that it prints."""

    folder: Path
    target: str
    prefix: str

    def shown(self, path: bytes) -> str:
        """A path as rg printed it, for the model: on one line, whatever is in its name."""
        text = self.prefix + relative_path(path)
        if text.isprintable():
            return text
        return visible(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).replace("\n", "⏎")


def search_root(cwd: Path, given: str) -> SearchRoot:
    """Find the folder rg runs in, and what it searches, for the path that a call gives."""
    path = resolve_path(cwd, given)
    shown = shown_path(cwd, path)
    with file_errors(shown):
        if not path.exists():
            raise not_found(path, shown)
        if path.is_dir():
            return SearchRoot(path, ".", "" if shown == "." else f"{shown.rstrip('/')}/")
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
    if output.whole and output.exit_code not in (0, 1) and not output.records and not _about_files(output.errors):
        message = output.errors.removeprefix("rg: ") or f"it ended with {output.exit_code}"
        raise ToolError(f"ripgrep refused the search: {message}", code=ErrorCode.INVALID_PARAMETERS)
    return output


def _about_files(errors: str) -> bool:
    """Return whether rg complained only of single files that it could not read."""
    return bool(errors) and all("(os error " in line for line in errors.splitlines())


@dataclass(frozen=True, slots=True)
class GrepResult:
    """The lines of a result, how many there are in all (None: more, not counted), and a first line on the whole.

    `facts` are for the views.
    """

    lines: list[str]
    total: int | None
    facts: Mapping[str, Any]
    heading: str = ""
    noun: str = "lines"


def path_of(record: bytes) -> bytes:
    """The path that a record is about; empty for a separator."""
    path, found, _ = record.partition(b"\0")
    told = None if found else _BINARY.fullmatch(record)
    return told[1] if told else path


def with_whole_names(records: Iterable[bytes]) -> Iterator[bytes]:
    """Records of lines; one without a path is the beginning of a file name that has a line end in it."""
    beginning = b""
    for record in records:
        if b"\0" in record or _BINARY.fullmatch(record):
            yield beginning + record
            beginning = b""
        else:
            beginning += record + b"\n"


@dataclass(frozen=True, slots=True)
class _Line:
    path: bytes
    number: int
    sign: str
    text: str


_BREAK = _Line(b"", 0, "", "")


def content_lines(output: Output, root: SearchRoot, *, numbers: bool, around: bool) -> GrepResult:
    """The matching lines and those around them, by path."""
    shown: list[str] = []
    files = matches = 0
    ordered = _in_order(map(_line, output.records), whole=output.whole)
    for path, group in groupby(ordered, key=lambda line: line.path):
        files += 1
        name = root.shown(path)
        if shown and around:
            shown.append("--")
        for line in group:
            matches += line.sign == ":"
            number = f"{line.number}{line.sign}" if numbers and line.number else ""
            shown.append(f"{name}{line.sign}{number}{line.text}" if line.sign else "--")
    facts = {"mode": "content", "numFiles": files, "numMatches": matches}
    return GrepResult(shown, len(shown) if output.whole else None, facts)


def _line(record: bytes) -> _Line:
    if record == SEPARATOR:
        return _BREAK
    path, _, rest = record.partition(b"\0")
    if numbered := _NUMBERED.match(rest):
        text = _text(rest[numbered.end() :])
        return _Line(path, int(numbered[1]), numbered[2].decode(), text.rstrip("\r")[: LINE_CHARS + 100])
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
    facts = {"mode": "count", "numFiles": len(lines), "numMatches": total}
    return GrepResult(lines, len(lines), facts, heading, "files")


def file_list(paths: Sequence[bytes], root: SearchRoot) -> GrepResult:
    """The files in which something was found."""
    lines = [root.shown(path) for path in paths]
    facts = {"mode": "files_with_matches", "numFiles": len(lines), "filenames": lines[:SHOWN_FILES]}
    return GrepResult(lines, len(lines), facts, f"{counted(len(lines), 'file')}, newest first", "files")


def page(found: GrepResult, offset: int, limit: int, output: Output, seconds: float) -> ToolResult:
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
    facts = {
        **found.facts,
        "numLines": shown,
        "appliedLimit": limit,
        "appliedOffset": offset,
        "timedOut": output.timed_out,
    }
    return ToolResult("\n".join([*heading, *lines[:shown], *notes]), facts)


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
