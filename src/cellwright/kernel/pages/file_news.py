"""News for the pages that files have changed, or may have.

They are told when a call that does more than read is over, a run, or a command, and then look at their file browser and
at what they have open. Which files it were is not said: of what a command of the shell has written nobody knows.

A module of its own: loading the extension needs `open_documents.py`, and none of the events that this one reads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cellwright.events import Event, RunEnd, ToolEnd, ToolStart
from cellwright.kernel.pages.pages import SERVER, Pages

if TYPE_CHECKING:
    from cellwright.conversation.runs.run import Run
    from cellwright.sessions.session import Session


class FileNews:
    """An observer of a conversation: tells the pages when a call, or a run, may have written files."""

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
