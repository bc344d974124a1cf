"""The way out for what code in a forked process prints and shows: closed in the snapshot, to the kernel in a branch."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterable
from typing import Literal

from cellwright.kernel.branches.messages import Event, Stream, send

_LINE_CHARS = 4_096
"""A line that is not at its end yet is kept back up to here: `print` writes a line in two parts."""
_READ_BYTES = 1 << 16


class Outlet:
    """The one way out. Text of C code and of subprocesses is read from the files behind descriptors 1 and 2.

    Files and no pipes: whoever reads one after each step has all in its order, without a thread.
    """

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._pending: list[str] = []
        self._pending_name: Literal["stdout", "stderr"] = "stdout"
        self._read = {1: 0, 2: 0}

    def open(self, channel: socket.socket) -> None:
        """Send to the kernel from now on; what was printed before is dropped."""
        self._pending.clear()
        self._channel = channel

    def emit(self, event: Event) -> None:
        """Send `event`, behind all that was written before it."""
        if self._channel is None:
            return
        self.flush()
        self.drain_files()
        send(self._channel, event)

    def write(self, name: Literal["stdout", "stderr"], text: str) -> None:
        """Text was printed by Python code."""
        if self._channel is None or not text:
            return
        if name != self._pending_name:
            self.flush()
            self._pending_name = name
        self._pending.append(text)
        if "\n" in text or "\r" in text or sum(map(len, self._pending)) > _LINE_CHARS:
            self.flush()

    def flush(self) -> None:
        """Send the text that was kept back."""
        if self._channel is None or not self._pending:
            return
        self.drain_files()
        text = "".join(self._pending)
        self._pending.clear()
        send(self._channel, Stream(self._pending_name, text))

    def drain_files(self) -> None:
        """Send what others wrote to descriptors 1 and 2."""
        if self._channel is None:
            return
        names: Iterable[tuple[int, Literal["stdout", "stderr"]]] = ((1, "stdout"), (2, "stderr"))
        for number, name in names:
            while data := _read_at(number, self._read[number]):
                self._read[number] += len(data)
                send(self._channel, Stream(name, data.decode("utf-8", "replace")))


def _read_at(number: int, position: int) -> bytes:
    try:
        return os.pread(number, _READ_BYTES, position)
    except OSError:  # the code has put something else there
        return b""


class OutletStream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of a branch."""

    encoding = "UTF-8"
    errors = "replace"

    def __init__(self, outlet: Outlet, name: Literal["stdout", "stderr"]) -> None:
        self._outlet = outlet
        self.name = name

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            message = f"write() argument must be str, not {type(text).__name__}"
            raise TypeError(message)
        self._outlet.write(self.name, text)
        return len(text)

    def flush(self) -> None:
        self._outlet.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        """The number that subprocesses write to."""
        return 1 if self.name == "stdout" else 2

    def close(self) -> None:
        """The way out stays open."""
