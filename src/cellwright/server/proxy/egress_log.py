"""What left the server, and what it cost: a line of JSON for each request, never what it was about.

    {"at", "user", "kernel", "method", "path", "model", "status", "refused", "input_tokens", "output_tokens",
     "cache_read_input_tokens", "cache_creation_input_tokens", "cost_usd", "complete", "bytes_out", "bytes_in", "ms",
     "request_id"}

`at` is UTC; `bytes_out` went to the API, `bytes_in` came from it; `refused` is the code of the proxy's own rule, or empty;
`complete` is false where the answer broke off, and its output was estimated. The file is for its owner alone. When it has
grown to `MOST_BYTES` it becomes `.1`, and so on up to `KEPT`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder

MOST_BYTES = 10_000_000
KEPT = 5


class EgressLog:
    """Appends to `file`; from any thread."""

    def __init__(self, file: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._lock = threading.Lock()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line. Raises OSError."""
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            make_private_folder(self._file.parent)
            with contextlib.suppress(FileNotFoundError):
                if self._file.stat().st_size + len(line) > self._most_bytes:
                    self._rotate()
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with os.fdopen(fd, "ab") as opened:
                opened.write(line)

    def _rotate(self) -> None:
        names = [self._file, *(self._file.with_name(f"{self._file.name}.{n}") for n in range(1, KEPT + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
