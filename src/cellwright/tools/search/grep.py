"""What Grep asks rg for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cellwright.agent.tool import ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.formats.text import CP_1252, LATIN_1, NotText, detect_encoding
from cellwright.tools.search.glob import (
    NO_VERSION_CONTROL,
    Keep,
    checked_glob,
    ignore_arguments,
    newest_first,
    only_matching,
)
from cellwright.tools.search.grep_output import (
    LINE_CHARS,
    RESULT_CHARS,
    SEPARATOR,
    GrepResult,
    SearchRoot,
    content_lines,
    counts,
    file_list,
    page,
    path_of,
    with_whole_names,
)
from cellwright.tools.search.ripgrep import MAX_RECORDS, Output, SearchProgram, run_ripgrep

HEAD_LIMIT = 250
COLLECTED_LINES = 1_000
"""Up to so many matching lines, or as many as are asked for, all are collected (in parallel) and sorted; past it they are
searched for in order, up to what is asked for."""

MAX_LINES = RESULT_CHARS // 16
"""What fits into one result, where all lines are asked for."""

HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Grep:
    """One call: what to search with, where, for what, how long."""

    program: SearchProgram
    place: SearchRoot
    tool_input: Mapping[str, Any]
    seconds: float

    async def answer(self) -> ToolResult:
        """What answers the call. Raises `ToolError` with what rg complained of."""
        limit = int(self.tool_input.get("head_limit", HEAD_LIMIT))
        offset = int(self.tool_input.get("offset", 0))
        deadline = time.monotonic() + self.seconds
        encoding = await asyncio.to_thread(_encoding_arguments, self.place)
        with _filters(self.tool_input) as (filters, wanted):
            arguments = [*_common_arguments(self.tool_input), *_mode_arguments(self.tool_input), *filters, *encoding]

            async def run(*more: str, separator: bytes = b"\n", max_records: int = MAX_RECORDS) -> Output:
                output = await run_ripgrep(
                    self.program,
                    [*arguments, *more, "--", self.tool_input["pattern"], self.place.target],
                    cwd=self.place.folder,
                    separator=separator,
                    seconds=max(deadline - time.monotonic(), 0.1),
                    max_records=max_records,
                )
                records: Iterable[bytes] = output.records if separator == b"\0" else with_whole_names(output.records)
                if wanted is not None:
                    records = (record for record in records if record == SEPARATOR or wanted(path_of(record)))
                return checked(replace(output, records=list(records)), self.seconds)

            found, output = await self._found(run, offset + (limit or MAX_LINES))
        return page(found, offset, limit, output, self.seconds)

    async def _found(self, run: Callable[..., Awaitable[Output]], needed: int) -> tuple[GrepResult, Output]:
        mode = self.tool_input.get("output_mode", "files_with_matches")
        if mode == "content":
            output = await run(max_records=max(COLLECTED_LINES, needed))
            if not output.whole and not output.timed_out:
                output = await run("--sort=path", max_records=needed)
            return content_lines(output, self.place, self.tool_input), output
        if mode == "count":
            output = await run()
            return counts(output, self.place), output
        output = await run(separator=b"\0")
        paths = await asyncio.to_thread(newest_first, self.place.folder, output.records, None)
        return file_list(paths, self.place), output


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
    # numbers also where they are not shown: their `:` or `-` tells matches from what is around them
    arguments = ["--line-number", r"--context-separator=\x00\x00"]
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


@contextmanager
def _filters(tool_input: Mapping[str, Any]) -> Iterator[tuple[list[str], Keep | None]]:
    """The arguments for `glob` and `ignore`, and a check for the paths that rg prints where one is needed."""
    ignore = ignore_arguments(tool_input.get("ignore", []))
    glob = tool_input.get("glob")
    if glob is None:
        yield ignore, None
    elif glob.startswith("!"):
        checked_glob(glob[1:])
        yield [f"--glob={glob}", *ignore], None
    else:
        with only_matching(glob) as (arguments, keep):
            yield [*arguments, *ignore], keep


def _encoding_arguments(place: SearchRoot) -> list[str]:
    """How rg must read a file that is named itself: it sees byte order marks, but takes the rest for UTF-8."""
    if place.target == ".":
        return []
    file = place.folder / place.target
    try:
        if not file.is_file():
            return []  # a pipe or a device: opening it could wait for ever
        with file.open("rb") as opened:
            latin = detect_encoding(opened.read(HEAD_BYTES), final=False) in (LATIN_1, CP_1252)
    except (NotText, OSError):
        return []  # rg says what is wrong with it
    return ["--encoding=latin1"] if latin else []


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
    """Whether rg complained only of single files that it could not read."""
    return bool(errors) and all("(os error " in line for line in errors.splitlines())
