"""Files that are open in the browser with changes not on disk, and news for the pages of files that have changed.

Each page says what is open in it on the comm `cellwright.documents` (docs/protocol/documents.md), again and again
while there is something to say; what was not said again for a while is forgotten, since a page that is closed does
not say so.

The pages are told that files have changed, or may have, when a call that does more than read is over, a run, or a
command. They look at their file browser and at what they have open then. Which files it were is not said: of what a
command of the shell has written nobody knows.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellwright.events import Event, RunEnd, ToolEnd, ToolStart
from cellwright.kernel.pages.pages import SERVER, Pages, relative_path, served_folder

if TYPE_CHECKING:
    from cellwright.conversation.runs.run import Run
    from cellwright.sessions.session import Session

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
        import comm  # there is one in each kernel

        from cellwright.kernel.pages.comm import keep_own_shell

        self._comm = comm.create_comm(target_name=TARGET, data={"protocol": 1})
        keep_own_shell(self._comm)
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
        page, root, paths = message.get("page"), message.get("root"), message.get("paths")
        if not (isinstance(page, str) and isinstance(root, str) and isinstance(paths, list)):
            return
        on_message = [path for path in paths[:MAX_PATHS] if isinstance(path, str) and "\0" not in path]
        folder = served_folder(root, on_message)
        found = frozenset(os.path.realpath(folder / relative_path(path)) for path in on_message)
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


class FileNews:
    """An observer of a conversation."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._writing: set[str] = set()
        self._notifications: set[asyncio.Task[None]] = set()

    def notify(self) -> None:
        """Tell all pages. On the agent's thread."""
        # the server's page has neither a file browser nor editors
        shown = [page for page in self._pages.all() if page.front_end != SERVER]
        if shown:
            # of the loop that runs: one that is being stopped must not begin anew
            notification = asyncio.get_running_loop().create_task(self._pages.notify("files_changed", {}, shown))
            self._notifications.add(notification)
            notification.add_done_callback(self._notifications.discard)

    def run_added(self, run: Run) -> None:
        """Nothing has changed yet."""

    def on_event(self, run: Run, event: Event) -> None:
        match event:
            case ToolStart(calls=calls):
                self._writing |= {call.id for call in calls if not call.read_only}
            case ToolEnd(tool_use_id=call_id) if call_id in self._writing:
                self._writing.remove(call_id)
                self.notify()
            case RunEnd():
                self._writing.clear()
                self.notify()  # hooks, and what runs on in the background, write as well

    def run_ended(self, run: Run) -> None:
        """Its `RunEnd` was heard."""

    def session_changed(self, session: Session) -> None:
        """Files stay as they are; the command that did this tells of them."""
