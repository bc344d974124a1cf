"""A page read in a process of its own: whoever wrote the page decides how long parsing it takes, and how much memory.

The process is `python -m cellwright.tools.web.page_reader`. It gets one page on its standard input and answers with what
`page_text.py` made of it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.environment import own_module_environment
from cellwright.tools.process.runner import OutputHead, RunningProgram
from cellwright.tools.web.client import FetchedPage, read_address
from cellwright.tools.web.page_text import HTML, PDF, WebPage, kind_of, page_of

MEMORY_MB = 2_000
"""A page of 9 MB takes 1.1 GB."""

MOST_OUTPUT_BYTES = 100 << 20

ARTICLE_SHARE = 0.6
"""Of the time that is left; the rest is for reading the page without looking for its article."""


class _Request(Struct, frozen=True):
    url: str
    content_type: str
    body: bytes
    whole: bool


class _Answer(Struct, frozen=True):
    """The page; or the `problem` for Claude with its `code`."""

    page: WebPage | None = None
    problem: str = ""
    code: ErrorCode = ErrorCode.EXECUTION_ERROR


async def read_page(
    fetched: FetchedPage, seconds: float, environ: Mapping[str, str], *, memory_mb: int = MEMORY_MB
) -> WebPage:
    """Read `fetched` within `seconds` and `memory_mb`. Raises ToolError if that is too little, or the page has no text."""
    kind = kind_of(fetched)
    if kind not in (*HTML, PDF):
        return await asyncio.to_thread(page_of, fetched)  # decoded, and no more
    deadline = time.monotonic() + seconds
    if kind == PDF:
        answer = await _read_in_child(fetched, seconds, environ, memory_mb, whole=True)
    else:
        answer = await _read_in_child(fetched, seconds * ARTICLE_SHARE, environ, memory_mb, whole=False)
        if answer is None:
            answer = await _read_in_child(fetched, deadline - time.monotonic(), environ, memory_mb, whole=True)
    if answer is None:
        raise _too_costly(fetched, seconds, memory_mb)
    if answer.page is None:
        raise ToolError(answer.problem, code=answer.code)
    return answer.page


async def _read_in_child(
    fetched: FetchedPage, seconds: float, environ: Mapping[str, str], memory_mb: int, *, whole: bool
) -> _Answer | None:
    """The answer of a process that reads the page; None if it took more than it may."""
    request = _Request(fetched.address.url, fetched.content_type, fetched.body, whole)
    command = Command(
        # -P: modules of the current folder are not imported
        arguments=(sys.executable, "-P", "-m", "cellwright.tools.web.page_reader"),
        cwd=Path(Path.cwd().anchor),
        environ=own_module_environment(environ),
        memory_mb=memory_mb,
        read_only=True,
    )
    output, errors = OutputHead(MOST_OUTPUT_BYTES), OutputHead(4_096)
    program = RunningProgram(command, output=output.take, errors=errors.take, source=msgspec.msgpack.encode(request))
    if not await program.finish(max(seconds, 0)) or program.exit_code or output.cut:
        return None
    return msgspec.msgpack.decode(bytes(output.data), type=_Answer)


def _too_costly(fetched: FetchedPage, seconds: float, memory_mb: int) -> ToolError:
    return ToolError(
        f"{fetched.address.url} came ({len(fetched.body):,} bytes), but reading it took more than the {seconds:.0f} s "
        f"that were left, or {memory_mb:,} MB. Give a longer timeout_seconds, or another source.",
        code=ErrorCode.EXECUTION_TIMEOUT,
        details={"requested_timeout": seconds, "bytes": len(fetched.body)},
    )


def main() -> int:
    """Read the page on standard input, and write the answer."""
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Request)
    fetched = FetchedPage(read_address(request.url), 200, "", request.content_type, request.body)
    try:
        answer = _Answer(page_of(fetched, whole=request.whole))
    except ToolError as error:
        answer = _Answer(problem=error.message, code=error.code)
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
