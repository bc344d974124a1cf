"""Glob: files by name, newest first. It only reads."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.inputs import HERE, MAX_GLOBS, Globs, in_folder, timed_limits, timeout_meta
from cellwright.tools.search.globs import any_matcher, glob_readings, literal_globs
from cellwright.tools.search.grep_output import SearchRoot, checked, search_root
from cellwright.tools.search.ls import created_time
from cellwright.tools.search.ripgrep import (
    FoundLinks,
    Output,
    find_links,
    glob_arguments,
    milliseconds_since,
    newest_first,
    relative_pattern,
    run_ripgrep,
    search_program,
)

GLOB_SECONDS = 20.0
"""The time rg may take unless the call or the environment says otherwise; what it found until then is the result."""

SECONDS_VARIABLE = "CLAUDE_CODE_GLOB_TIMEOUT_SECONDS"
LIMITS = timed_limits(results=100)

DESCRIPTION = """\
Find files by name, newest first. Names are found whether hidden, git-ignored or links, as by LS and FileTree; Grep \
searches only what git does not ignore.
- `**/*.py`: in all folders below; `src/**/*.{ts,tsx}`: below src; a pattern without a slash (`*.toml`) matches in \
all folders. Folders themselves are not found: use LS or FileTree to see them.
- To search file contents use Grep."""


class GlobInput(ToolInput):
    """The input of Glob."""

    pattern: Annotated[
        str, Meta(min_length=1, description="The glob: `*`, `?`, `**`, `[a-z]`, `{a,b}`; relative to path.")
    ]
    path: Annotated[
        str, Meta(min_length=1, description="The folder to search below. Leave it out for the working directory.")
    ] = HERE
    ignore: Annotated[
        Globs, Meta(max_length=MAX_GLOBS, description="Files and folders to leave out: `node_modules`, `*.min.js`.")
    ] = ()
    timeout_seconds: Annotated[int, timeout_meta(GLOB_SECONDS)] | None = None


class FoundFile(Struct, kw_only=True, frozen=True):
    """A file; its facts are None if it is gone by now, or the system does not tell."""

    path: str
    size: int | None
    modified: float | None
    created_time: float | None = None


class GlobOutput(ToolOutput):
    """The newest files that match, and how many do; the count is not complete where the search was stopped."""

    files: tuple[FoundFile, ...]
    filenames: tuple[str, ...]
    num_files: int = field(name="numFiles")
    total_matches: int = field(name="totalMatches")
    truncated: bool
    count_is_complete: bool = field(name="countIsComplete")
    timed_out: bool = field(name="timedOut")
    search_time_ms: float = 0.0


def glob_tool(cwd: Path, environ: Mapping[str, str] = os.environ) -> Tool:
    """Glob. Relative paths start at `cwd`, and so do the paths in results; `environ` has CLAUDE_CODE_GLOB_…."""

    @tool(
        name="Glob",
        other_names=(
            *("find_files", "glob_files", "file_search", "search_by_name"),
            *("list_files", "search_by_pattern", "search_files"),
        ),
        output=GlobOutput,
        description=DESCRIPTION,
        access=ToolAccess("find", "path"),
        read_only=True,
        category="search",
        everyday=True,
        best_for="names",
        limits=LIMITS,
        examples=[{"pattern": "**/*.py"}, {"pattern": "*.{ts,tsx}", "path": "web", "ignore": ["dist"]}],
        title=lambda input: f"Find {input.pattern}{in_folder(cwd, input.path)}",
    )
    async def glob(input: GlobInput) -> ToolResult:
        started = time.perf_counter()
        root = search_root(cwd, input.path)
        if root.target != ".":
            raise ToolError(f"{input.path} is a file, not a folder.", code=ErrorCode.FILE_PATH_INVALID)
        pattern = relative_pattern(input.pattern, root.folder)
        seconds = _usual_seconds(environ) if input.timeout_seconds is None else input.timeout_seconds
        readings = await asyncio.to_thread(glob_readings, pattern, root.folder, follow=True)
        ignore = _behind(readings.prefix, literal_globs(input.ignore, root.folder))
        root = root.behind(readings)
        deadline = time.monotonic() + seconds
        for globs in readings.readings:
            with glob_arguments(pattern, globs, ignore, environ) as (arguments, accepts):
                left = max(deadline - time.monotonic(), 0.1)
                output = await run_ripgrep(search_program(), arguments, cwd=root.folder, separator=b"\0", seconds=left)
            found = list(filter(accepts, checked(output, seconds).records))
            if found:
                break
        links = await asyncio.to_thread(_links, root.folder, globs, ignore)
        found += links.files
        paths = await asyncio.to_thread(newest_first, root.folder, found, LIMITS.results)
        names = [root.shown(path) for path in paths]
        files = await asyncio.to_thread(_with_status, root, names, paths)
        notes = [*_notes(output, len(names), len(found)), *links.note(root.prefix)]
        missing = [] if names else [f"No file matches {input.pattern}{in_folder(cwd, input.path)}."]
        structured = GlobOutput(
            files=files,
            filenames=tuple(names),
            num_files=len(names),
            total_matches=len(found),
            truncated=len(found) > len(names),
            count_is_complete=output.whole,
            timed_out=output.timed_out,
            search_time_ms=milliseconds_since(started),
        )
        return ToolResult("\n".join([*names, *missing, *notes]), structured=structured)

    return glob


def _behind(prefix: str, ignore: Sequence[str]) -> tuple[str, ...]:
    """The globs to leave out, as they are meant where the search starts: `prefix` from the folder that was asked for."""
    plain = [glob.removeprefix("/") for glob in ignore]
    return tuple(
        f"/{each[len(prefix) :]}" if prefix and each.startswith(prefix) else glob
        for glob, each in zip(ignore, plain, strict=True)
    )


def _links(folder: Path, globs: Sequence[str], ignore: Sequence[str]) -> FoundLinks:
    matches = any_matcher(globs)
    ignored = any_matcher([glob.removeprefix("!").removesuffix("/**").removesuffix("/") for glob in ignore])

    def wanted(path: str) -> bool:
        parents = itertools.accumulate(path.split("/"), lambda above, name: f"{above}/{name}")
        return matches(path) and not any(map(ignored, parents))

    return find_links(folder, globs, wanted)


def _with_status(root: SearchRoot, names: Sequence[str], paths: Sequence[bytes]) -> tuple[FoundFile, ...]:
    files = []
    for name, path in zip(names, paths, strict=True):
        file = root.folder / os.fsdecode(path)
        try:
            status = file.lstat()
        except OSError:
            files.append(FoundFile(path=name, size=None, modified=None))
        else:
            created = created_time(str(file), status)
            files.append(FoundFile(path=name, size=status.st_size, modified=status.st_mtime, created_time=created))
    return tuple(files)


def _notes(output: Output, shown: int, found: int) -> list[str]:
    if not output.whole:
        return [f"[Stopped early: there may be more than these {found:,} files. Narrow the search.]"]
    if found > shown:
        return [f"[The {shown} newest of {found:,} files. Narrow the pattern or path for others.]"]
    return []


def _usual_seconds(environ: Mapping[str, str]) -> float:
    """The user's own default time; what is no number counts as not given."""
    try:
        return max(float(environ[SECONDS_VARIABLE]), 1.0)
    except (KeyError, ValueError):
        return GLOB_SECONDS
