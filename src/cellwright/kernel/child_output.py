"""What child processes write to the standard output and error they inherit: file descriptors 1 and 2.

Python's own streams never see it, so the descriptors lead into a pipe for a while. A child that lives longer keeps the
pipe; what it writes later goes where it would have gone without us.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import sys
import threading
from collections.abc import Callable, Iterator

STANDARD = (1, 2)
READ_BYTES = 65_536
READS_AT_ONCE = 64
"""A child that never stops writing must not hold up the end of the call."""


@contextlib.contextmanager
def child_output(put: Callable[[str], None]) -> Iterator[None]:
    """For the time of the block, `put` gets what children and forks write to descriptors 1 and 2, from any thread."""
    if sys.platform == "win32":  # its pipes cannot be waited for, and a kernel there has no descriptors to speak of
        yield
        return
    pipe = _Pipe(put)
    originals = [os.dup(descriptor) for descriptor in STANDARD]
    for descriptor in STANDARD:
        os.dup2(pipe.write_end, descriptor)
    os.close(pipe.write_end)
    pipe.start()
    try:
        yield
    finally:
        for descriptor, original in zip(STANDARD, originals, strict=True):
            os.dup2(original, descriptor)
        os.close(originals[1])
        pipe.release_to(originals[0])


class _Pipe:
    """The pipe and the thread that reads it until its last writer is gone."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._lock = threading.Lock()
        self._later: int | None = None
        self._released = threading.Event()
        self._at_end = False

    def start(self) -> None:
        threading.Thread(target=self._read_to_the_end, name="cellwright-child-output", daemon=True).start()

    def release_to(self, descriptor: int) -> None:
        """Take in what is there already; what comes later goes to `descriptor`, which is closed in the end."""
        with self._lock:
            self._pump()
            self._later = descriptor
        self._released.set()

    def _read_to_the_end(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._read_end, selectors.EVENT_READ)
            while not self._at_end:
                selector.select()
                with self._lock:
                    self._pump()
        self._released.wait()
        with self._lock:
            os.close(self._read_end)
            if self._later is not None:
                os.close(self._later)

    def _pump(self) -> None:
        for _ in range(READS_AT_ONCE):
            try:
                data = os.read(self._read_end, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._at_end = True
                return
            if self._later is not None:
                os.write(self._later, data)
            else:
                self._put(self._decode(data))
