"""What Grep asks rg for, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.found_files import NO_VERSION_CONTROL, newest_first
from cellwright.tools.ripgrep import Output, run_ripgrep
from cellwright.tools.schemas import counted

HEAD_LIMIT = 250
LINE_CHARS = 500
RESULT_CHARS = 80_000
COLLECTED_LINES = 5_000
"""Up to so many matching lines, all are collected (in parallel) and sorted; past it they are searched for in order."""

NUMBERED_LINE = re.compile(r"\d+([:-])")
SEPARATOR = b"--"


@dataclass(frozen=True, slots=True)
class Place:
    """Where is searched: rg runs in `folder` on `target`; `prefix` goes before the paths that it prints."""

    folder: Path
    target: str
    prefix: str

    def shown(self, path: bytes) -> str:
        """A path as rg printed it, for the model."""
        text = path.decode("utf-8", "replace")
        return self.prefix + (text.replace("\\", "/") if os.name == "nt" else text).removeprefix("./")


@dataclass(frozen=True, slots=True)
class Found:
    """The lines of a result, how many there are in all (None: more, not counted), and a first line on the whole."""

    lines: list[str]
    total: int | None
    heading: str = ""
    noun: str = "lines"


async def grep(place: Place, tool_input: Mapping[str, Any], seconds: float) -> str:
    """The text that answers a Grep call. Raises `ToolError` with what rg complained of."""
    limit = int(tool_input.get("head_limit", HEAD_LIMIT))
    offset = int(tool_input.get("offset", 0))
    arguments = [*_common_arguments(tool_input), *_mode_arguments(tool_input)]
    filters, listed = _glob_arguments(tool_input)
    deadline = time.monotonic() + seconds
    keep = await _listed_only(place, seconds) if listed else None

    async def run(*more: str, separator: bytes = b"\n", max_records: int | None = None) -> Output:
        command = [*arguments, *filters, *more, "--", tool_input["pattern"], place.target]
        output = await run_ripgrep(
            command,
            cwd=place.folder,
            separator=separator,
            seconds=deadline - time.monotonic(),
            max_records=max_records,
            keep=keep,
        )
        return checked(output, seconds)

    mode = tool_input.get("output_mode", "files_with_matches")
    if mode == "content":
        output = await run(max_records=COLLECTED_LINES)
        if not output.whole and not output.timed_out:
            output = await run("--sort=path", max_records=offset + (limit or COLLECTED_LINES))
        found = _content(output, place, context=_context(tool_input))
    elif mode == "count":
        output = await run()
        found = _counts(output, place)
    else:
        output = await run(separator=b"\0")
        found = await _files(output, place)
    return _page(found, offset, limit, output, seconds)


def _common_arguments(tool_input: Mapping[str, Any]) -> list[str]:
    arguments = ["--hidden", "--null", "--color=never", "--no-heading", "--with-filename", *NO_VERSION_CONTROL]
    arguments += [f"--max-columns={LINE_CHARS}", "--max-columns-preview"]
    if tool_input.get("-i"):
        arguments.append("--ignore-case")
    if tool_input.get("multiline"):
        arguments += ["--multiline", "--multiline-dotall"]
    if "type" in tool_input:
        arguments.append(f"--type={tool_input['type']}")
    return arguments


def _mode_arguments(tool_input: Mapping[str, Any]) -> list[str]:
    mode = tool_input.get("output_mode", "files_with_matches")
    if mode == "files_with_matches":
        return ["--files-with-matches"]
    if mode == "count":
        return ["--count"]
    arguments = ["--line-number" if tool_input.get("-n", True) else "--no-line-number"]
    around = tool_input.get("-C", tool_input.get("context"))
    for flag, lines in (
        ("--before-context", tool_input.get("-B", around)),
        ("--after-context", tool_input.get("-A", around)),
    ):
        if lines:
            arguments.append(f"{flag}={int(lines)}")
    if tool_input.get("-o"):
        arguments.append("--only-matching")
    return arguments


def _context(tool_input: Mapping[str, Any]) -> bool:
    return any(tool_input.get(key) for key in ("-A", "-B", "-C", "context"))


def _glob_arguments(tool_input: Mapping[str, Any]) -> tuple[list[str], bool]:
    """The arguments for `glob`, and whether ignored files must be taken out of the result.

    rg's --glob overrides .gitignore. A type made for the occasion does not, but it sees only names and adds to --type.
    """
    glob = tool_input.get("glob")
    if glob is None:
        return [], False
    if glob.startswith("!"):
        return [f"--glob={glob}"], False
    if "/" not in glob and "type" not in tool_input:
        return [f"--type-add=wanted:{glob}", "--type=wanted"], False
    return [f"--glob={glob}"], True


async def _listed_only(place: Place, seconds: float) -> Callable[[bytes], bool]:
    """Whether a record is about a file that is not ignored."""
    arguments = ["--files", "--hidden", "--null", *NO_VERSION_CONTROL, "--", place.target]
    output = await run_ripgrep(arguments, cwd=place.folder, separator=b"\0", seconds=seconds)
    listed = set(checked(output, seconds).records)
    if not output.whole:
        return lambda record: True  # better too much than matches that are silently missing
    return lambda record: record == SEPARATOR or record.split(b"\0", 1)[0] in listed


def checked(output: Output, seconds: float) -> Output:
    """`output`, unless it is no result at all: then the error that says why."""
    if output.timed_out and not output.records:
        raise ToolError(
            f"Nothing was found within {seconds:g} s. Narrow the search: a folder in path, a glob, a type.",
            code=ErrorCode.EXECUTION_TIMEOUT,
        )
    if output.whole and output.exit_code == 2 and not output.records and not _about_files(output.errors):
        message = output.errors.removeprefix("rg: ")
        raise ToolError(f"ripgrep refused the search: {message}", code=ErrorCode.INVALID_PARAMETERS)
    return output


def _about_files(errors: str) -> bool:
    """Whether rg complained only of single files that it could not read."""
    return all("(os error " in line for line in errors.splitlines())


def _content(output: Output, place: Place, *, context: bool) -> Found:
    lines: list[str] = []
    records = [record for record in map(_split, output.records) if record is not None]
    for path, group in groupby(_in_order(records, whole=output.whole), key=lambda record: record[0]):
        if lines and context:
            lines.append("--")
        shown = place.shown(path)
        lines += _file_lines(shown, [text for _, text in group])
    return Found(lines, len(lines) if output.whole else None)


def _split(record: bytes) -> tuple[bytes, str | None] | None:
    """Path and text of a line of output; the text of a separator between matches is None."""
    if record == SEPARATOR:
        return b"", None
    path, found, text = record.partition(b"\0")
    if not found:
        path, _, text = record.partition(b": ")
    return path, text.decode("utf-8", "replace").rstrip("\r")[: LINE_CHARS + 100]


def _in_order(records: Iterable[tuple[bytes, str | None]], *, whole: bool) -> Sequence[tuple[bytes, str | None]]:
    """Sorted by path, a file's lines in their order; a separator belongs to the file after it."""
    ordered: list[tuple[bytes, str | None]] = []
    separator = False
    for path, text in records:
        if text is None:
            separator = True
            continue
        if separator and ordered and ordered[-1][0] == path:
            ordered.append((path, None))
        separator = False
        ordered.append((path, text))
    return sorted(ordered, key=lambda record: record[0]) if whole else ordered


def _file_lines(shown: str, texts: list[str | None]) -> list[str]:
    lines = []
    for text in texts:
        if text is None:
            lines.append("--")
            continue
        found = NUMBERED_LINE.match(text)
        lines.append(f"{shown}{found[1] if found else ':'}{text}")
    return lines


def _counts(output: Output, place: Place) -> Found:
    pairs = [record.rpartition(b"\0")[::2] for record in output.records]
    counts = sorted((place.shown(path), int(count)) for path, count in pairs)
    total = sum(count for _, count in counts)
    heading = f"{counted(total, 'matching line')} in {counted(len(counts), 'file')}"
    return Found([f"{path}:{count}" for path, count in counts], len(counts), heading, "files")


async def _files(output: Output, place: Place) -> Found:
    paths = await asyncio.to_thread(newest_first, place.folder, output.records, None)
    total = len(output.records)
    return Found([place.shown(path) for path in paths], total, f"{counted(total, 'file')}, newest first", "files")


def _page(found: Found, offset: int, limit: int, output: Output, seconds: float) -> str:
    lines = found.lines[offset : offset + limit if limit else None]
    shown, chars = 0, 0
    for line in lines:
        chars += len(line) + 1
        if chars > RESULT_CHARS:
            break
        shown += 1
    notes = []
    if output.timed_out:
        notes.append(f"[Stopped after {seconds:g} s: there may be more. Narrow the search.]")
    if not found.lines:
        notes.append("No matches.")
    elif not lines:
        notes.append(f"[offset={offset} is past the last of {len(found.lines)} {found.noun}.]")
    elif found.total is None or offset + shown < found.total:
        of = "of more" if found.total is None else f"of {found.total:,}"
        notes.append(f"[{found.noun} {offset + 1}-{offset + shown} {of}. Go on with offset={offset + shown}.]")
    if output.errors and output.exit_code == 2:
        notes.append(f"[Not everything could be searched:\n{output.errors}]")
    heading = [found.heading] if found.heading and found.lines else []
    return "\n".join([*heading, *lines[:shown], *notes])
