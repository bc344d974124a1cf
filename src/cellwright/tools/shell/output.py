"""The output of a command: live for the views, head and tail for the model, the whole in a file when it is long.

Its exit code is explained too: what it says, and whether it is a failure.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

from cellwright.agent.calls.tool_results import create_output_folder
from cellwright.text import plain
from cellwright.this_process.temporary_files import new_file

SHOWN_CHARS = 30_000
"""The number of characters the model gets of one command's output, half from its start, half from its end."""

MAX_BYTES = 1_000_000_000
"""More than this is not written; the command is stopped."""

LIVE_CHARS = 8_000
"""The number of characters a view gets at once of output that comes faster than anybody reads."""
LIVE_SECONDS = 0.033
"""Between two pieces of live output."""


class HeadAndTail:
    """A text of any length, of which the first and the last `half` characters stay in memory."""

    def __init__(self, half: int) -> None:
        self._half = half
        self.head = ""
        self.tail = ""
        self.chars = 0

    def add(self, text: str) -> None:
        """Keep `text`, which comes next."""
        self.chars += len(text)
        room = max(self._half - len(self.head), 0)
        self.head += text[:room]
        self.tail = (self.tail + text[room:])[-self._half :]

    @property
    def left_out(self) -> int:
        """The number of characters in the middle that are gone."""
        return self.chars - len(self.head) - len(self.tail)

    def text(self) -> str:
        """All of it, or head and tail and how much is missing."""
        if not self.left_out:
            return plain(self.head + self.tail)
        return f"{plain(self.head)}\n[… {self.left_out:,} characters left out …]\n{plain(self.tail)}"


class OutputStream:
    """One of a program's two outputs: its text, decoded as it comes."""

    def __init__(self, half: int) -> None:
        self.kept = HeadAndTail(half)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> str:
        """Keep `data`; gives its text (a character cut in two comes with its second half)."""
        text = self._decoder.decode(data)
        self.kept.add(text)
        return text


class CommandOutput:
    """Takes bytes as they come; nothing of a long output stays in memory but its head and tail.

    `stdout` and `stderr` are kept apart for programs, and together, in the order in which they came, for the model.
    """

    def __init__(self, shown_chars: int = SHOWN_CHARS) -> None:
        self._kept_chars = shown_chars
        self.bytes = 0
        self.path: Path | None = None
        self.stdout = OutputStream(shown_chars // 2)
        self.stderr = OutputStream(shown_chars // 2)
        self._both = HeadAndTail(shown_chars // 2)
        self._start = bytearray()
        self._file: int | None = None
        self._problem = ""

    def add(self, data: bytes, *, error: bool = False) -> str:
        """Keep `data`, of stderr where it is an `error`, and give its text."""
        self.bytes += len(data)
        self._keep(data)
        text = (self.stderr if error else self.stdout).add(data)
        self._both.add(text)
        return text

    def _keep(self, data: bytes) -> None:
        if self._file is None and not self._problem:
            self._start += data
            if len(self._start) > self._kept_chars:
                self._open()
        elif self._file is not None:
            self._write(data)

    def _open(self) -> None:
        try:
            self._file, path = new_file("command", ".txt", create_output_folder())
        except OSError as error:
            self._problem = f"it could not be kept: {error.strerror}"
        else:
            self.path = path
            self._write(bytes(self._start))
        self._start.clear()

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            # a full disk must not end the command
            self._problem = f"its beginning is in {self.path}: {error.strerror}"
            self.close()

    def keep_in_file(self) -> None:
        """All of it goes into a file, from its first byte on, however short it is."""
        if self._file is None and self.path is None and not self._problem:
            self._open()

    def close(self) -> None:
        """The file, if there is one, is complete."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None

    def text(self) -> str:
        """Return what the model gets: all of it, or head and tail and where the whole is."""
        both = self._both
        if not both.left_out:
            return both.text()
        where = self._problem or f"the whole output is in {self.path}"
        note = f"[… {self.bytes:,} bytes in all, the middle is left out; {where} …]"
        return f"{plain(both.head)}\n{note}\n{plain(both.tail)}"


class LiveText:
    """Hands text on to `progress` at a pace that views keep up with: the first at once, then what came meanwhile."""

    def __init__(self, progress: Callable[..., None]) -> None:
        self._progress = progress
        self._waiting = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """Hand `text` on now or with what comes next; of more than anybody can read only the end."""
        self._waiting += text
        if len(self._waiting) > 4 * LIVE_CHARS:
            self._waiting = f"[…]\n{self._waiting[-LIVE_CHARS:]}"
        if self._timer is None:
            self._hand_on()

    def close(self) -> None:
        """Hand on what is left."""
        self._hand_on()
        if self._timer is not None:
            self._timer.cancel()

    def _hand_on(self) -> None:
        self._timer = None
        if self._waiting:
            text, self._waiting = self._waiting, ""
            self._progress(text=text)
            self._timer = asyncio.get_running_loop().call_later(LIVE_SECONDS, self._hand_on)


class LiveOutput:
    """The output of a program that runs: kept, and handed on live while anybody looks."""

    def __init__(self, shown_chars: int, progress: Callable[..., None]) -> None:
        self.kept = CommandOutput(shown_chars)
        self._live: LiveText | None = LiveText(progress)

    def take(self, chunk: bytes) -> bool:
        """Add what the program wrote; false when it has written too much."""
        return self._take(chunk, error=False)

    def take_error(self, chunk: bytes) -> bool:
        """The same of what it wrote to stderr."""
        return self._take(chunk, error=True)

    def _take(self, chunk: bytes, *, error: bool) -> bool:
        text = self.kept.add(chunk, error=error)
        if self._live is not None:
            self._live.add(text)
        return self.kept.bytes <= MAX_BYTES

    def go_unseen(self) -> None:
        """Show nothing live from now on, and keep all of it in a file."""
        self._stop_showing()
        self.kept.keep_in_file()

    def close(self) -> None:
        """Hand on what is left; the output is complete."""
        self._stop_showing()
        self.kept.close()

    def _stop_showing(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None


_ANSWERS = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "git grep"), "no lines matched"),
    **dict.fromkeys(("diff", "cmp", "git diff"), "they differ"),
    **dict.fromkeys(("test", "["), "the condition is false"),
    "find": "some folders could not be searched",
}
"""Programs whose exit code 1 is an answer."""

_MEANINGS = {126: "not executable", 127: "command not found"}
_JOINS = frozenset({";", "|", "|&", "&&", "||", "&"})


def exit_code(returncode: int) -> int:
    """The code as a shell shows it: 128 + N for a shell that signal N ended."""
    return 128 - returncode if returncode < 0 else returncode


def answer(command: str, code: int) -> str:
    """Explain what exit code 1 of `command` answers; "" where it is a failure, or may be."""
    words = _last_command(command) if code == 1 else []
    return _ANSWERS.get(" ".join(words[:2])) or _ANSWERS.get("".join(words[:1]), "")


def meaning(code: int) -> str:
    """Explain an exit code by what is known about it besides its number, or return ""."""
    if code in _MEANINGS:
        return _MEANINGS[code]
    try:
        return f"ended by {signal.Signals(code - 128).name}" if code > 128 else ""
    except ValueError:
        return ""


def _last_command(command: str) -> list[str]:
    """The words of the simple command whose exit code is certainly that of the whole; none where it may be another's."""
    if "\n" in command.strip():
        return []
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed
        return []
    last = max((place for place, word in enumerate(words) if word in _JOINS), default=-1)
    # after `a &&` it may be the code of `a`
    return words[last + 1 :] if last < 0 or words[last] in (";", "|", "|&") else []
