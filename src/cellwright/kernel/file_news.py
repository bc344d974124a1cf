"""Tells the pages that files have changed, or may have: a call that does more than read is over, a run, or a command.

Pages look at their file browser and at what they have open then. Which files it were is not said: of what a command of the
shell has written nobody knows.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cellwright.events import Event, RunEnd, ToolEnd, ToolStart
from cellwright.kernel.pages.pages import SERVER, Pages

if TYPE_CHECKING:
    from cellwright.conversation.run_queue import ConversationRun
    from cellwright.sessions.session import Session


class FileNews:
    """Follows a conversation's feed."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._writing: set[str] = set()
        self._telling: set[asyncio.Task[None]] = set()

    def tell(self) -> None:
        """Tell all pages. On the agent's thread."""
        # the server's page has neither a file browser nor editors
        shown = [page for page in self._pages.all() if page.front_end != SERVER]
        if shown:
            # of the loop that runs: one that is being stopped must not begin anew
            telling = asyncio.get_running_loop().create_task(self._pages.tell("files_changed", {}, shown))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    def run_added(self, run: ConversationRun) -> None:
        """Nothing has changed yet."""

    def heard(self, run: ConversationRun, event: Event) -> None:
        match event:
            case ToolStart(calls=calls):
                self._writing |= {call.id for call in calls if not call.read_only}
            case ToolEnd(tool_use_id=call_id) if call_id in self._writing:
                self._writing.remove(call_id)
                self.tell()
            case RunEnd():
                self._writing.clear()
                self.tell()  # hooks, and what runs on in the background, write as well

    def run_ended(self, run: ConversationRun) -> None:
        """Its `RunEnd` was heard."""

    def session_changed(self, session: Session) -> None:
        """Files stay as they are; the command that did this tells of them."""
