"""The sources of cells as the model was last shown them: what a change of a live cell was made from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

KEPT_CHARS = 8_000_000


class ShownCells:
    """A session's memory of cells. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: OrderedDict[tuple[Path, str], str] = OrderedDict()
        self._chars = 0

    def add(self, path: Path, sources: Mapping[str, str]) -> None:
        """The model was shown these cells (id → source) of the notebook at `path`, a real path, or has written them."""
        with self._lock:
            for cell_id, source in sources.items():
                self._chars -= len(self._sources.pop((path, cell_id), ""))
                self._sources[path, cell_id] = source
                self._chars += len(source)
            while self._chars > KEPT_CHARS:
                self._chars -= len(self._sources.popitem(last=False)[1])

    def last(self, path: Path, cell_id: str) -> str | None:
        """The source that the model knows of a cell; None if it knows none."""
        with self._lock:
            return self._sources.get((path, cell_id))

    def forget(self, path: Path) -> None:
        """The notebook was changed behind the model's back."""
        with self._lock:
            for key in [key for key in self._sources if key[0] == path]:
                self._chars -= len(self._sources.pop(key))
