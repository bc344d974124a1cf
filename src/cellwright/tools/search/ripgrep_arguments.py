"""The arguments that have rg find files by name: what Glob lists, and the files that a glob leaves to other searches."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from cellwright.errors import ErrorCode, ToolError
from cellwright.this_process.temporary_files import new_file
from cellwright.tools.search.glob_regex import any_matcher

TEMPORARY_FILES = ".cellwright-*.tmp"
"""The names that files which we write may have for a moment, where there is no better way."""

NO_VERSION_CONTROL = ("--glob=!.git", "--glob=!.hg", "--glob=!.svn", "--glob=!.jj", f"--glob=!{TEMPORARY_FILES}")
"""rg's arguments that leave out the version control's own files, and our own; .gitignore and .github stay."""

Keep = Callable[[bytes], bool]
"""A test of whether a path that rg printed is wanted."""


def relative_pattern(pattern: str, folder: Path) -> str:
    """`pattern` as it is matched below `folder`. It cannot lead out of it."""
    if "\0" in pattern or "\n" in pattern:
        raise ToolError("The pattern holds a null byte or a line end.", code=ErrorCode.INVALID_PARAMETERS)
    inside = f"{folder.as_posix().rstrip('/')}/"
    pattern = pattern.removeprefix(inside).removeprefix("./")
    if pattern.startswith(("/", "!")) or Path(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts:
        raise ToolError(
            f"The pattern {pattern!r} must be relative to the folder that is searched, and may hold no `..` and no "
            "leading `!`. Give the folder in `path`.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    return pattern


def ignore_arguments(ignore: Sequence[str]) -> list[str]:
    """rg's arguments that leave out what matches one of the globs. Taking out overrides no ignore file."""
    checked_globs([glob.removeprefix("!") for glob in ignore])
    # a folder's contents go with it, however it was written
    return [f"--glob=!{glob.removeprefix('!').removesuffix('/**').removesuffix('/')}" for glob in ignore if glob]


def checked_globs(globs: Sequence[str]) -> Callable[[str], bool]:
    """A matcher for what matches one of `globs`; a `ToolError` that says what is wrong with one."""
    if any("\0" in glob or "\n" in glob for glob in globs):
        raise ToolError("A glob holds a null byte or a line end.", code=ErrorCode.INVALID_PARAMETERS)
    try:
        return any_matcher(globs)
    except ValueError as error:
        raise ToolError(f"ripgrep refused the search: {error}", code=ErrorCode.INVALID_PARAMETERS) from error


@contextmanager
def only_matching(globs: Sequence[str]) -> Iterator[tuple[list[str], Keep]]:
    """rg's arguments for files that match one of `globs` and are not ignored, and a check for the paths it then prints.

    rg's --glob would override .gitignore. An ignore file of ours that takes out everything else does not: it ranks lowest.
    What it cannot take out is what another ignore file takes in (`!keep.log`): hence the check.
    """
    matches = checked_globs(globs)
    seen: dict[bytes, bool] = {}

    def keep(path: bytes) -> bool:
        if path not in seen:
            seen[path] = matches(relative_path(path))
        return seen[path]

    descriptor, path = new_file("glob", ".ignore")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("*\n!*/\n" + "".join(f"!{_no_comment(glob)}\n" for glob in globs))
    try:
        yield [f"--ignore-file={path}"], keep
    finally:
        path.unlink(missing_ok=True)


def _no_comment(glob: str) -> str:
    """`glob` as a line of an ignore file, which rg's globs are, too."""
    return f"\\{glob}" if glob.startswith("#") else glob


def relative_path(path: bytes) -> str:
    """A path as rg printed it, relative to the searched folder, with `/`."""
    text = os.fsdecode(path)
    return (text.replace("\\", "/") if os.name == "nt" else text).removeprefix("./")


@contextmanager
def glob_arguments(
    pattern: str, globs: Sequence[str], ignore: Sequence[str], environ: Mapping[str, str]
) -> Iterator[tuple[list[str], Keep]]:
    """rg's arguments that list the files which match one of `globs`, a reading of `pattern`, and a check for the list.

    Hidden and ignored files are found, unless CLAUDE_CODE_GLOB_HIDDEN or CLAUDE_CODE_GLOB_NO_IGNORE is `false`.
    """
    version_control = any(part.startswith((".git", ".hg", ".svn", ".jj")) for part in pattern.split("/"))
    without = [*(() if version_control else NO_VERSION_CONTROL), *ignore_arguments(ignore)]
    arguments = ["--files", "--hidden", "--null", *without]
    hidden = _is_on("CLAUDE_CODE_GLOB_HIDDEN", environ) or any(part.startswith(".") for part in pattern.split("/"))

    def seen(path: bytes) -> bool:
        return hidden or not any(part.startswith(".") for part in relative_path(path).split("/"))

    if _is_on("CLAUDE_CODE_GLOB_NO_IGNORE", environ):
        # first: of rg's globs the last that matches decides
        wanted = [f"--glob={_no_comment(glob)}" for glob in globs]
        yield [*arguments[:3], "--no-ignore", *wanted, *without, "--", "."], seen
        return
    with only_matching(globs) as (more, matches):
        yield [*arguments, *more, "--", "."], lambda path: seen(path) and matches(path)


def _is_on(name: str, environ: Mapping[str, str]) -> bool:
    return environ.get(name, "").strip().lower() not in ("0", "false", "no", "off")


def newest_first(folder: Path, paths: Iterable[bytes], limit: int | None) -> list[bytes]:
    """Paths below `folder` by time of change, the newest first, those of one time by name. At most `limit`."""
    base = os.fsencode(folder) + os.fsencode(os.sep)
    keyed = ((-_mtime(base + path), path) for path in paths)
    return [path for _, path in (sorted(keyed) if limit is None else heapq.nsmallest(limit, keyed))]


def _mtime(path: bytes) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  bytes, 100,000 times
    except OSError:
        return 0  # gone meanwhile, or a link that leads nowhere
