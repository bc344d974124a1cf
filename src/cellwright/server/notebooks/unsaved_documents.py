"""The documents that pages of this server hold with unsaved changes, as they say (docs/protocol/documents.md).

A page tells its kernels of the same; what is done without a kernel (`/cellwright/mcp`) has to know it, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

FORGOTTEN_SECONDS = 60.0
MAX_PAGES = 50
"""Of one user at once: a further one takes the place of that which was not heard of for longest."""

MAX_PATH_CHARS = 200_000
"""Of all paths of a page; those behind are passed over."""


class UnsavedDocuments:
    """`root` is the folder that the pages' paths start from. From any thread."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[tuple[str, str], tuple[float, frozenset[str]]] = {}

    def take(self, owner: str, page: str, paths: Sequence[str]) -> None:
        """A page of the user `owner` says which of its documents are unsaved: its newest word counts."""
        found = frozenset(
            os.path.realpath(self._root / without_drive(path)) for path in _bounded(paths) if "\0" not in path
        )
        with self._lock:
            self._forget_old()
            self._pages.pop((owner, page), None)
            own = [key for key in self._pages if key[0] == owner]  # the longest unheard first
            for key in own[: max(len(own) + 1 - MAX_PAGES, 0)]:
                del self._pages[key]
            self._pages[owner, page] = self._clock(), found

    def is_unsaved(self, path: Path) -> bool:
        """Return whether some page has `path`, a real path, open with unsaved changes."""
        with self._lock:
            self._forget_old()
            return any(str(path) in paths for _, paths in self._pages.values())

    def _forget_old(self) -> None:
        now = self._clock()
        self._pages = {page: said for page, said in self._pages.items() if now - said[0] <= FORGOTTEN_SECONDS}


def _bounded(paths: Sequence[str]) -> Iterator[str]:
    left = MAX_PATH_CHARS
    for path in paths:
        left -= len(path)
        if left >= 0:
            yield path


def without_drive(path: str) -> str:
    """The path of a document as the files have it.

    >>> without_drive("RTC:plots/a.ipynb"), without_drive("plots/a:b.ipynb")
    ('plots/a.ipynb', 'plots/a:b.ipynb')
    """
    return path.partition(":")[2] if ":" in path.partition("/")[0] else path.lstrip("/")
