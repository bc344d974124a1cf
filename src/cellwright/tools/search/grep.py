"""Grep: the content of files, searched with ripgrep. It only reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, structs
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.encodings import Encoding, NotText, detect_encoding, named_encoding, ripgrep_label
from cellwright.tools.files.text import open_regular
from cellwright.tools.inputs import HERE, MAX_GLOBS, EncodingName, Globs, in_folder, timed_limits, timeout_meta
from cellwright.tools.paths import real_path
from cellwright.tools.search.globs import glob_readings, literal_globs
from cellwright.tools.search.grep_output import (
    COLOURS,
    LINE_CHARS,
    RESULT_CHARS,
    SEPARATOR,
    GrepOutput,
    GrepResult,
    SearchRoot,
    checked,
    content_lines,
    counts,
    file_list,
    page,
    path_of,
    search_root,
    with_whole_names,
    without_coloured_names,
)
from cellwright.tools.search.ripgrep import (
    MAX_RECORDS,
    NO_VERSION_CONTROL,
    Keep,
    Output,
    SearchProgram,
    checked_globs,
    find_links,
    ignore_arguments,
    milliseconds_since,
    newest_first,
    only_matching,
    run_ripgrep,
    search_program,
)

GREP_SECONDS = 20.0
"""The time rg may take unless the call says otherwise; what it found until then is the result."""

HEAD_LIMIT = 250

MAX_LINES = RESULT_CHARS // 16
"""The number of lines that fit into one result, where all lines are asked for."""

HEAD_BYTES = 64 * 1024

DESCRIPTION = """\
Search the content of files with ripgrep. Use this, not grep or rg in Bash.
- pattern is a regular expression in Rust's syntax; escape literal braces and parentheses: `interface\\{\\}`, `main\\(`.
- output_mode: "files_with_matches" (default) gives paths, "content" the lines, "count" the number of matching lines.
- Narrow the search with path, glob, type or ignore. Hidden files are searched, git-ignored and binary ones are not, \
unless path names the very file.
- For patterns that span lines set multiline."""


class GrepInput(ToolInput):
    """The input of Grep."""

    pattern: Annotated[str, Meta(min_length=1, description="The regular expression to search for.")]
    path: Annotated[
        str,
        Meta(min_length=1, description="A file, or a folder to search below. Leave it out for the working directory."),
    ] = HERE
    glob: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="Only such files: `*.py`, `*.{ts,tsx}`, `tests/**`, `!*.min.js`; relative to path.",
            ),
        ]
        | None
    ) = None
    type: (
        Annotated[
            str,
            Meta(
                pattern=r"^\w+$",
                description="Only files of this type, by ripgrep's name: py, js, ts, rust, go, md.",
            ),
        ]
        | None
    ) = None
    output_mode: Annotated[
        Literal["files_with_matches", "content", "count"],
        Meta(description="Paths, matching lines, or their number per file."),
    ] = "files_with_matches"
    after: Annotated[int, Meta(ge=0, description="Lines after each match (content only).")] | None = field(
        default=None, name="-A"
    )
    before: Annotated[int, Meta(ge=0, description="Lines before each match (content only).")] | None = field(
        default=None, name="-B"
    )
    around: Annotated[int, Meta(ge=0, description="Lines before and after each match (content only).")] | None = field(
        default=None, name="-C"
    )
    context: Annotated[int, Meta(ge=0, description="The same as -C.")] | None = None
    numbers: Annotated[bool, Meta(description="Show line numbers (content only).")] = field(default=True, name="-n")
    ignore_case: Annotated[bool, Meta(description="Ignore upper and lower case.")] = field(default=False, name="-i")
    only_matching: Annotated[bool, Meta(description="Show only what matches, not the whole line (content only).")] = (
        field(default=False, name="-o")
    )
    head_limit: Annotated[
        int,
        Meta(
            ge=0,
            description=f"Lines or files at most, {HEAD_LIMIT} by default; 0 for as many as fit.",
        ),
    ] = HEAD_LIMIT
    offset: Annotated[int, Meta(ge=0, description="Lines or files to skip.")] = 0
    ignore: Annotated[
        Globs, Meta(max_length=MAX_GLOBS, description="Files and folders to leave out: `node_modules`, `*.lock`.")
    ] = ()
    timeout_seconds: Annotated[int, timeout_meta(GREP_SECONDS)] = int(GREP_SECONDS)
    multiline: Annotated[bool, Meta(description="Let the pattern span lines, and `.` match line ends.")] = False
    encoding: EncodingName | None = None

    @property
    def lines_around(self) -> tuple[int, int]:
        """The number of lines that are shown before and behind each match."""
        around = (self.context if self.around is None else self.around) or 0
        return (around if self.before is None else self.before), (around if self.after is None else self.after)


def grep_tool(cwd: Path) -> Tool:
    """Grep. Relative paths start at `cwd`, and so do the paths in results."""

    @tool(
        name="Grep",
        other_names=(
            *("search_code", "search_by_pattern", "search_files", "search_in_files"),
            *("search_text", "search_file_content", "grep_search", "ripgrep"),
        ),
        output=GrepOutput,
        description=DESCRIPTION,
        access=ToolAccess("search", "path"),
        read_only=True,
        category="search",
        everyday=True,
        best_for="text",
        limits=timed_limits(),
        examples=[
            {"pattern": r"def \w+_page\(", "type": "py"},
            {"pattern": "TODO", "path": "src", "output_mode": "content", "-C": 2, "head_limit": 50},
        ],
        title=lambda input: f"Search for “{input.pattern}”{in_folder(cwd, input.path)}",
    )
    async def grep(input: GrepInput) -> ToolResult:
        if any("\0" in str(value) for value in structs.astuple(input)):
            raise ToolError(
                "The input holds a null byte. Write it as \\x00 in the pattern.", code=ErrorCode.INVALID_PARAMETERS
            )
        return await Grep(search_program(), search_root(cwd, input.path), input).answer()

    return grep


class Grep(Struct, frozen=True):
    """One call: what to search with, where, for what, how long."""

    program: SearchProgram
    root: SearchRoot
    input: GrepInput

    async def answer(self) -> ToolResult:
        """Answer the call. Raises `ToolError` with what rg complained of."""
        input, seconds = self.input, self.input.timeout_seconds
        started = time.perf_counter()
        deadline = time.monotonic() + seconds
        encoding = await asyncio.to_thread(_encoding, self.root, input.encoding)
        globs = None if input.glob is None else await self._globs(input.glob, deadline)
        with _filters(globs, literal_globs(input.ignore, self.root.folder)) as (filters, accepts):
            arguments = [*_common_arguments(input), *_mode_arguments(input), *filters]
            # rg sees byte order marks, but takes the rest for UTF-8
            if encoding is not None and not encoding.bom and (label := ripgrep_label(encoding)) is not None:
                arguments.append(f"--encoding={label}")

            async def run(*more: str, separator: bytes = b"\n", max_records: int = MAX_RECORDS) -> Output:
                return await run_ripgrep(
                    self.program,
                    [*arguments, *more, "--", input.pattern, self.root.target],
                    cwd=self.root.folder,
                    separator=separator,
                    seconds=max(deadline - time.monotonic(), 0.1),
                    max_records=max_records,
                )

            def read(output: Output) -> Output:
                records: Iterable[bytes] = output.records
                if input.output_mode != "files_with_matches":
                    records = map(without_coloured_names, with_whole_names(records))
                if accepts is not None:
                    records = (record for record in records if record == SEPARATOR or accepts(path_of(record)))
                return checked(replace(output, records=list(records)), seconds)

            found, output = await self._found(run, read, input.offset + (input.head_limit or MAX_LINES))
        took = milliseconds_since(started)
        result = page(found, input.offset, input.head_limit, output, seconds, took)
        remarks = await asyncio.to_thread(_remarks, encoding, input, self.root, found)
        return replace(result, content="\n".join([str(result.content), *remarks]))

    async def _globs(self, glob: str, deadline: float) -> tuple[str, ...]:
        """`glob` as it is meant: the first of its readings that files match. A leading `!` stays."""
        negated = "!" if glob.startswith("!") else ""
        found = await asyncio.to_thread(glob_readings, glob.removeprefix("!"), self.root.folder, follow=False)
        *others, last = found.readings
        for globs in others:
            with only_matching(globs) as (arguments, keep):
                output = await run_ripgrep(
                    self.program,
                    ["--files", "--hidden", "--null", *NO_VERSION_CONTROL, *arguments, "--", "."],
                    cwd=self.root.folder,
                    separator=b"\0",
                    seconds=max(deadline - time.monotonic(), 0.1),
                    # so many files tell which reading of a glob is meant; what an ignore file takes in may be among
                    # them
                    max_records=100,
                )
            if any(map(keep, output.records)):
                return tuple(f"{negated}{each}" for each in globs)
        return tuple(f"{negated}{each}" for each in last)

    async def _found(
        self, run: Callable[..., Awaitable[Output]], read: Callable[[Output], Output], needed: int
    ) -> tuple[GrepResult, Output]:
        if self.input.output_mode == "content":
            # up to so many matching lines, or as many as are asked for, all are collected (in parallel) and sorted;
            # past it they are searched for in order, up to what is asked for
            output = await run(max_records=max(1_000, needed))
            if not output.whole and not output.timed_out:
                output = await run("--sort=path", max_records=needed)
            output = read(output)
            return content_lines(output, self.root, numbers=self.input.numbers, around=self.input.lines_around), output
        if self.input.output_mode == "count":
            output = read(await run())
            return counts(output, self.root), output
        output = read(await run(separator=b"\0"))
        paths = await asyncio.to_thread(newest_first, self.root.folder, output.records, None)
        return file_list(paths, self.root), output


def _common_arguments(input: GrepInput) -> list[str]:
    arguments = ["--hidden", "--null", "--no-heading", "--with-filename", *NO_VERSION_CONTROL]
    arguments += [f"--max-columns={LINE_CHARS}", "--max-columns-preview"]
    if input.ignore_case:
        arguments.append("--ignore-case")
    if input.multiline:
        arguments += ["--multiline", "--multiline-dotall"]
    if input.type is not None:
        arguments.append(f"--type={input.type}")
    return arguments


def _mode_arguments(input: GrepInput) -> list[str]:
    if input.output_mode == "files_with_matches":
        return ["--color=never", "--files-with-matches"]
    if input.output_mode == "count":
        return ["--color=never", "--count"]
    # numbers also where they are not shown: their `:` or `-` tells matches from what is around them
    arguments = [*COLOURS, "--line-number", r"--context-separator=\x00\x00"]
    arguments += [
        f"{flag}={lines}"
        for flag, lines in zip(("--before-context", "--after-context"), input.lines_around, strict=True)
        if lines
    ]
    if input.only_matching:
        arguments += ["--only-matching", "--column"]
    return arguments


@contextmanager
def _filters(globs: Sequence[str] | None, ignore: Sequence[str]) -> Iterator[tuple[list[str], Keep | None]]:
    """The arguments for `glob` and `ignore`, and a check for the paths that rg prints where one is needed."""
    without = ignore_arguments(ignore)
    if globs is None:
        yield without, None
    elif globs[0].startswith("!"):
        checked_globs([glob[1:] for glob in globs])
        yield [*(f"--glob={glob}" for glob in globs), *without], None
    else:
        with only_matching(globs) as (arguments, keep):
            yield [*arguments, *without], keep


def _encoding(root: SearchRoot, named: str | None) -> Encoding | None:
    """The encoding to search in: the one that the call names, or that of the file it searches; None: rg's own choice."""
    if named is not None:
        return named_encoding(named)
    if root.target == ".":
        return None
    try:
        with open_regular(real_path(root.folder / root.target), root.target) as opened:
            head = opened.read(HEAD_BYTES) or b""
            return detect_encoding(head, final=len(head) < HEAD_BYTES)
    except (NotText, OSError):
        return None  # rg says what is wrong with it


def _remarks(encoding: Encoding | None, input: GrepInput, root: SearchRoot, found: GrepResult) -> list[str]:
    """The encoding that was guessed; if nothing was found, what may have been passed over."""
    if encoding is not None and encoding.guessed:
        return [f"[The file does not declare its encoding: searched as {encoding.label}.]"]
    if found.lines or root.target != ".":
        return []
    remarks = find_links(root.folder, (input.glob or "**",), lambda _: False).note(root.prefix)
    if encoding is None and not input.pattern.isascii():
        remarks.append("[Files were searched as UTF-8. For others give `encoding`, or the very file as path.]")
    return remarks
