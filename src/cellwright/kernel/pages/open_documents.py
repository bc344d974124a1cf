"""Files that are open in the browser with changes that are not on disk.

Each page says what is open in it on the comm `cellwright.documents` (docs/protocol/documents.md), again and again
while there is something to say; what was not said again for a while is forgotten, since a page that is closed does
not say so.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellwright.kernel.pages.kernel_comms import create_comm, isolate_from_shell

TARGET = "cellwright.documents"
FORGOTTEN_SECONDS = 60.0
MAX_PATHS = 1_000


class OpenDocuments:
    """The documents open in this kernel's pages, as these said. From any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[float, frozenset[str]]] = {}
        self._comm: Any = None

    def open(self) -> None:
        """Open the comm, on which each page that shows a notebook of this kernel answers."""
        self._comm = create_comm(TARGET, data={"protocol": 1})
        isolate_from_shell(self._comm)
        self._comm.on_msg(lambda message: self.on_message(message["content"]["data"]))

    def close(self) -> None:
        """Close the comm; what the pages said is forgotten."""
        if self._comm is not None:
            self._comm.close()
        with self._lock:
            self._pages.clear()

    def on_message(self, message: object) -> None:
        """A page said which of its documents are unsaved. What makes no sense is passed over."""
        if not isinstance(message, dict) or message.get("type") != "unsaved":
            return
        # loading the extension needs none
        from cellwright.kernel.pages.pages import relative_path, served_folder

        page, root, paths = message.get("page"), message.get("root"), message.get("paths")
        if not (isinstance(page, str) and isinstance(root, str) and isinstance(paths, list)):
            return
        valid = [path for path in paths[:MAX_PATHS] if isinstance(path, str) and "\0" not in path]
        folder = served_folder(root, valid)
        found = frozenset(os.path.realpath(folder / relative_path(path)) for path in valid)
        with self._lock:
            self._pages[page] = self._clock(), found

    def is_unsaved(self, path: Path) -> bool:
        """Return whether some page has `path`, a real path, open with unsaved changes."""
        now = self._clock()
        with self._lock:
            for page, (reported_at, _) in list(self._pages.items()):
                if now - reported_at > FORGOTTEN_SECONDS:
                    del self._pages[page]
            return any(str(path) in paths for _, paths in self._pages.values())
