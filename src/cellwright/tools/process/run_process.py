"""A child process whose output is taken while it runs, and that is stopped as soon as enough has come."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 64 * 1024
ERROR_BYTES = 8 * 1024

Take = Callable[[bytes], bool]
"""Gets the next piece of output; false means that it is enough."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a child ended. `whole` is false when it was stopped early: it had given enough, or its time was over."""

    exit_code: int
    errors: str
    whole: bool
    timed_out: bool


async def stream_child(
    arguments: Sequence[str],
    take: Take,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    seconds: float,
    memory_bytes: int | None = None,
) -> ProcessExit:
    """Run a program without input in `cwd` and hand its standard output to `take`. Raises OSError when it cannot start.

    The child is gone when this returns or raises, also when the caller is cancelled. `memory_bytes` bounds its own memory
    (files that it maps do not count), where the system can.
    """
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=cwd, env=environ
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(_head(process.stderr))
    if memory_bytes is not None:
        _bound_memory(process.pid, memory_bytes)
    whole, timed_out = False, False
    try:
        async with asyncio.timeout(seconds):
            whole = await _hand_on(process.stdout, take)
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
    return ProcessExit(process.returncode or 0, text, whole and not timed_out, timed_out)


def _bound_memory(pid: int, memory_bytes: int) -> None:
    if os.name != "posix":
        return
    import resource  # not on Windows

    if hasattr(resource, "prlimit"):
        with suppress(ProcessLookupError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


async def _hand_on(stream: asyncio.StreamReader, take: Take) -> bool:
    """Whether the stream was taken to its end."""
    while chunk := await stream.read(CHUNK_BYTES):
        if not take(chunk):
            return False
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
