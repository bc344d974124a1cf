"""Messages between the kernel, the snapshot and a branch: a length, then JSON of a known shape.

Never a pickle: reading one runs what its writer wants, and a branch runs Claude's code. What code in a forked process
prints and shows goes out by `Outlet`, which is closed in the snapshot, and leads to the kernel in a branch.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

_LENGTH = struct.Struct("!I")

MOST_BYTES = 48 * 1024 * 1024
"""Of one message; a picture has a few megabytes at most."""


class Stream(msgspec.Struct, frozen=True, tag="stream"):
    """Text that was printed."""

    name: Literal["stdout", "stderr"]
    text: str


class Shown(msgspec.Struct, frozen=True, tag="shown"):
    """A mimebundle: displayed, or with `update` in the place of the displays of `display_id`, or the value of a cell."""

    data: dict[str, Any]
    metadata: dict[str, Any] = {}
    display_id: str = ""
    update: bool = False
    result: bool = False


class Cleared(msgspec.Struct, frozen=True, tag="cleared"):
    """`clear_output` was called."""

    wait: bool


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The code raised."""

    ename: str
    evalue: str
    traceback: list[str]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The code came to its end, well or not."""

    ok: bool
    seconds: float


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """The answer to a question of the kernel's own, as plain data; `problem` says why there is none.

    Code of Claude's may have run in the process that gives it: whoever reads it trusts no part of it.
    """

    value: Any = None
    problem: str = ""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """A new process has given up what it must; `problem` says why it has not, and it ends. `steps`: the seconds of each."""

    problem: str = ""
    steps: dict[str, float] = {}


Event = Stream | Shown | Cleared | Failed | Done | Answered | Ready
_events = msgspec.json.Decoder(Event)


class ProtocolError(Exception):
    """A branch sent what is no event."""


def sent(message: object) -> bytes:
    """The bytes of `message`, a struct or plain data."""
    body = msgspec.json.encode(message)
    return _LENGTH.pack(len(body)) + body


def send(channel: socket.socket, message: object, descriptors: Sequence[int] = ()) -> None:
    """Send `message`, with `descriptors`. Raises OSError."""
    data = memoryview(sent(message))
    if descriptors:
        data = data[socket.send_fds(channel, [data], list(descriptors)) :]
    while data:  # a plain write: a confined process may be allowed no other way to send
        data = data[os.write(channel.fileno(), data) :]


def receive(channel: socket.socket) -> tuple[Any, list[int]] | None:
    """The next message as plain data, with its descriptors; None at the end. Raises OSError and ValueError."""
    head, descriptors = b"", []
    while len(head) < _LENGTH.size:
        data, more, _flags, _address = socket.recv_fds(channel, _LENGTH.size - len(head), 8)
        if not data:
            return None
        head += data
        descriptors += more
    left = _LENGTH.unpack(head)[0]
    if left > MOST_BYTES:
        message = f"a message of {left:,} bytes"
        raise ValueError(message)
    body = bytearray()
    while len(body) < left:
        if not (data := channel.recv(min(left - len(body), 1 << 20))):
            return None
        body += data
    return msgspec.json.decode(body), descriptors


class EventReader:
    """Reads the events of one branch on the agent's loop; what it sends is judged and not trusted."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffer = bytearray()

    async def next(self) -> Event | None:
        """The next event; None when the branch is gone. Raises `ProtocolError` for what is none."""
        loop = asyncio.get_running_loop()
        while (event := self._whole()) is None:
            data = b""
            with contextlib.suppress(ConnectionError):
                data = await loop.sock_recv(self._channel, 1 << 18)
            if not data:
                return None
            self._buffer += data
        return event

    def _whole(self) -> Event | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        length = _LENGTH.unpack_from(self._buffer)[0]
        if length > MOST_BYTES:
            message = f"an event of {length:,} bytes"
            raise ProtocolError(message)
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        try:
            event: Event = _events.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ProtocolError(str(error)) from None
        return event


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
        # a line that is not at its end yet is kept back up to here: `print` writes a line in two parts
        if "\n" in text or "\r" in text or sum(map(len, self._pending)) > 4_096:
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
        return os.pread(number, 1 << 16, position)
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
