"""The output of a command: its head and tail for the model, the whole in a file when it is long."""

from __future__ import annotations

import codecs
import os
import tempfile
from pathlib import Path

SHOWN_CHARS = 30_000
"""What the model gets of one command's output, half from its start, half from its end."""

MOST_BYTES = 1_000_000_000
"""More than this is not written; the command is stopped."""


class CommandOutput:
    """Takes bytes as they come; nothing of a long output stays in memory but its head and tail."""

    def __init__(self) -> None:
        self.bytes = 0
        self.path: Path | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self._cut = False
        self._file: int | None = None

    def add(self, data: bytes) -> str:
        """The text of `data`, which is kept."""
        self.bytes += len(data)
        text = self._decoder.decode(data)
        if self._file is None and len(self._head) + len(self._tail) + len(text) > SHOWN_CHARS:
            self._spill()
        if self._file is not None:
            os.write(self._file, text.encode())
        room = max(SHOWN_CHARS // 2 - len(self._head), 0)
        self._head += text[:room]
        tail = self._tail + text[room:]
        self._cut |= len(tail) > SHOWN_CHARS // 2
        self._tail = tail[-(SHOWN_CHARS // 2) :]
        return text

    def _spill(self) -> None:
        self._file, name = tempfile.mkstemp(prefix="cellwright-output-", suffix=".txt")
        self.path = Path(name)
        os.write(self._file, (self._head + self._tail).encode())

    def close(self) -> str:
        """What the model gets; the file is complete."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if not self._cut:
            return self._head + self._tail
        note = f"[… {self.bytes:,} bytes in all; the whole output is in {self.path} …]"
        return f"{self._head}\n{note}\n{self._tail}"
