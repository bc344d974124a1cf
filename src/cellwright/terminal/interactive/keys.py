"""Keys that need no Enter: one at a question, and those that are pressed while Claude works.

POSIX terminals only; elsewhere nothing is read before Enter, and Ctrl-C stops.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator
from typing import TextIO

ESCAPE = "\x1b"
CTRL_O = "\x0f"
ENTER = "\n"
UP, DOWN = "\x1b[A", "\x1b[B"
ERASE = ("\x7f", "\x08")

SEQUENCE_SECONDS = 0.05
"""The rest of an arrow key's escape sequence comes within it; the Escape key comes alone."""

READ_BYTES = 1024


def reads_keys(stdin: TextIO) -> bool:
    """Return whether single keys can be read from `stdin`."""
    return os.name == "posix" and not stdin.closed and stdin.isatty()


@contextlib.contextmanager
def single_keys(stdin: TextIO) -> Iterator[None]:
    """In the block keys come at once and are not echoed; Ctrl-C stays a signal.

    Raises OSError where `stdin` is no terminal, or not any more. One that goes in the block is none to be restored.
    """
    if sys.platform == "win32":
        raise OSError("single keys cannot be read on Windows")
    import termios  # not on Windows
    import tty

    try:
        descriptor = stdin.fileno()
        before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor, termios.TCSADRAIN)
    except (termios.error, ValueError) as error:  # ValueError: it is closed
        raise OSError(f"the keyboard cannot be read: {error}") from error
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def pressed(stdin: TextIO, seconds: float | None) -> str:
    """The keys that were pressed, at least one within `seconds` (None: for ever), else "".

    "\\x1b" is the Escape key; arrows and the like, which begin with it, are left out. Raises EOFError at the end.
    """
    descriptor = stdin.fileno()
    if not select.select([descriptor], [], [], seconds)[0]:
        return ""
    data = os.read(descriptor, READ_BYTES)
    while data.endswith(b"\x1b") and select.select([descriptor], [], [], SEQUENCE_SECONDS)[0]:
        data += os.read(descriptor, READ_BYTES)
    if not data or data == b"\x04":
        raise EOFError
    return _without_sequences(data.decode(errors="replace")).replace("\r", ENTER)


def next_key(stdin: TextIO) -> str | None:
    """Wait for a key and return its character, or `UP`, `DOWN`, `ENTER`, `ESCAPE`; None at the end of the input.

    To be called within `single_keys`. What follows the key stays to be read; keys without a meaning here are passed over.
    """
    descriptor = stdin.fileno()
    with contextlib.suppress(OSError):  # a terminal that is gone is an end, too
        while data := os.read(descriptor, 1):
            if data == b"\x04":
                return None
            if data == b"\x1b":
                if key := _rest_of_sequence(descriptor):
                    return key
                continue
            while data[0] >= 0xC0 and len(data) < (2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4):
                if not (more := os.read(descriptor, 1)):
                    return None
                data += more
            return data.decode(errors="replace").replace("\r", ENTER)
    return None


def forget_keys(stdin: TextIO, seconds: float) -> None:
    """Forget the keys that are pressed within `seconds`. To be called within `single_keys`."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and select.select([stdin.fileno()], [], [], left)[0]:
        if not os.read(stdin.fileno(), READ_BYTES):
            return


def _rest_of_sequence(descriptor: int) -> str:
    """Read the rest of an escape sequence and return its key; "" for one without a meaning here."""

    def follows() -> bool:
        return bool(select.select([descriptor], [], [], SEQUENCE_SECONDS)[0])

    if not follows():
        return ESCAPE
    if os.read(descriptor, 1) not in (b"[", b"O"):
        return ""
    sequence = b""
    while follows() and (end := os.read(descriptor, 1)):
        sequence += end
        if end.isalpha() or end == b"~":
            break
    return {b"A": UP, b"B": DOWN}.get(sequence, "")


def _without_sequences(text: str) -> str:
    """`text` without the escape sequences of arrows, function keys and pastes."""
    kept: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != ESCAPE or at + 1 == len(text):
            kept.append(text[at])
            at += 1
            continue
        at += 2
        if text[at - 1] in "[O":
            while at < len(text) and not text[at].isalpha() and text[at] != "~":
                at += 1
            at += 1
    return "".join(kept)


class KeysAtWork:
    """The keys while Claude works: Escape stops it, Ctrl-O shows more or less, and words are written beside.

    `draft` is what was typed and not sent; it is the next prompt's beginning.
    """

    def __init__(self, stdin: TextIO) -> None:
        self.draft = ""
        self._stdin = stdin
        self._listening: contextlib.ExitStack | None = None

    @property
    def listens(self) -> bool:
        return self._listening is not None

    def listen(self) -> None:
        """Take the keyboard; where there is none, or none any more, no key is heard."""
        if self._listening is None:
            listening = contextlib.ExitStack()
            with contextlib.suppress(OSError):
                listening.enter_context(single_keys(self._stdin))
                self._listening = listening

    def pause(self) -> None:
        """Give the keyboard to a question."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def poll(self) -> list[str]:
        """The keys that were pressed: ESCAPE, CTRL_O, and each line that was written and sent."""
        if self._listening is None:
            return []
        try:
            typed = pressed(self._stdin, 0)
        except (EOFError, OSError, ValueError):  # the terminal is gone, or closed: so will the process be
            self.pause()
            return []
        found: list[str] = []
        for key in typed:
            if key in (ESCAPE, CTRL_O):
                found.append(key)
            elif key == ENTER:
                if line := self.draft.strip():
                    found.append(line)
                self.draft = ""
            else:
                self._write(key)
        return found

    def finish_writing(self) -> None:
        """Wait for Enter or Escape while the user is writing: letters of a sentence go on being its, and answer nothing."""
        with contextlib.suppress(EOFError, OSError, ValueError), single_keys(self._stdin):
            while True:
                for key in pressed(self._stdin, None):
                    if key in (ENTER, ESCAPE):
                        return
                    self._write(key)

    def _write(self, key: str) -> None:
        if key in ERASE:
            self.draft = self.draft[:-1]
        elif key.isprintable():
            self.draft += key
