"""Files that are open in the browser with changes that are not on disk.

Each page says what is open in it on the comm `cellwright.documents` (docs/protocol/documents.md), again and again
while there is something to say; what was not said again for a while is forgotten, since a page that is closed does
not say so.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cellwright.kernel.pages.kernel_comms import comm_manager, create_comm, isolate_from_shell

TARGET = "cellwright.documents"
FORGOTTEN_SECONDS = 60.0
MAX_PATHS = 1_000


def _is_asked_by_page(request: Mapping[str, Any]) -> bool:
    """Return whether a page sent the request that loads us: it names a cell, answers `input()`, is not seen by its user, or
    is the completion by which a busy kernel is reached.

    nbclient, papermill and voila do nothing of this, and what loads a kernel's own configuration is no request.
    """
    content, metadata = request.get("content", {}), request.get("metadata", {})
    completes = request.get("header", {}).get("msg_type") == "complete_request"
    return bool(completes or metadata.get("cellId") or content.get("allow_stdin") or content.get("silent"))


class OpenDocuments:
    """The documents open in this kernel's pages, as these said. From any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[float, frozenset[str]]] = {}
        self._comm: Any = None

    def open(self, kernel: Any) -> None:
        """Open the comm, on which each page that shows a notebook of this kernel answers.

        Programs that run notebooks know no such comm, and warn of it: without a page it is only there to be found.
        """
        has_page = _is_asked_by_page(kernel.get_parent("shell"))
        self._comm = create_comm(TARGET, data={"protocol": 1}, primary=has_page)
        if not has_page:
            comm_manager().register_comm(self._comm)
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
