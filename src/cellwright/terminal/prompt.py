"""The prompt of a command: its words, and what is piped in."""

from __future__ import annotations

import select
import sys
from typing import TextIO

from cellwright.errors import CellwrightError, ErrorCode

WAIT_SECONDS = 3.0
"""How long something may take to come through a pipe, when there are words besides: a pipe may be inherited and idle."""

MAX_BYTES = 10_000_000


def read_prompt(words: str, stdin: TextIO) -> str:
    """`words`, then what is piped in. Raises `CellwrightError` INVALID_PARAMETERS when there is neither, or no text."""
    piped = _piped(stdin, wait_seconds=WAIT_SECONDS if words else None) if is_piped(stdin) else ""
    parts = [part for part in (words, piped) if part.strip()]
    if not parts:
        message = 'There is no prompt. Give one, as in cellwright "what is this project?", or pipe one in.'
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return "\n\n".join(parts)


def is_piped(stdin: TextIO | None) -> bool:
    """Whether something other than a keyboard is there to be read."""
    return stdin is not None and not stdin.isatty()


def _piped(stdin: TextIO, wait_seconds: float | None) -> str:
    # Windows can wait for sockets only
    if sys.platform != "win32" and wait_seconds is not None:
        ready, _, _ = select.select([stdin], [], [], wait_seconds)
        if not ready:
            print(f"Nothing came through stdin for {wait_seconds:g} s; going on without it.", file=sys.stderr)
            return ""
    data = stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        message = f"More than {MAX_BYTES // 1_000_000} MB were piped in. Save them in a file and name it in the prompt."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if b"\0" in data:
        message = "What was piped in is no text. Save it in a file and name it in the prompt."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return data.decode("utf-8", "replace")
