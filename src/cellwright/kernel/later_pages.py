"""The pages that came after the one that runs the cell: the same notebook reloaded, or open in a second tab.

JupyterLab puts an update of an output only into the page that ran the cell, which alone knows the display's id. Every
other page shows what was displayed first, and saves it: so these get what came of the run by the widget's own channel.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cellwright.kernel.comm import SavedMessage
from cellwright.kernel.output.op_log import OpLog

if TYPE_CHECKING:
    from cellwright.kernel.widgets.transcript import TranscriptWidget


class LaterPages:
    """The later pages of one run; `first` names the page that runs it. Called from any thread."""

    def __init__(self, first: str, log: OpLog) -> None:
        self._first = first
        self._log = log
        self._lock = threading.Lock()
        self._there: set[str] = set()
        self._saved: SavedMessage | None = None
        self._over = False

    def begin(self, saved: SavedMessage) -> None:
        """The run has shown itself: a page that has read nothing of it from disk can show it, too."""
        with self._lock:
            self._saved = saved

    def ready(self, widget: TranscriptWidget, page: str, have: int) -> None:
        """`page` shows the transcript and holds `have` operations of it."""
        with self._lock:
            if page != self._first:
                self._there.add(page)
            elif self._over:
                return  # its output was updated
            self._log.replay(have)
            if self._saved is not None and page != self._first:
                widget.send(self._saved)

    def end(self, widget: TranscriptWidget, saved: SavedMessage) -> None:
        """The run is over and the first page has its output: take the widget away where nobody needs it."""
        with self._lock:
            self._saved = saved
            self._over = True
            if self._there:
                widget.send(saved)
            else:
                widget.leave_pages()

    def kept(self, widget: TranscriptWidget, page: str) -> None:
        """`page` has put what it was sent into the widget's place."""
        with self._lock:
            if not self._over or page not in self._there:
                return
            self._there.remove(page)
            if not self._there:
                widget.leave_pages()
