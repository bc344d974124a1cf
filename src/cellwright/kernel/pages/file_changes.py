"""Changes of files, in pages: news that files have changed, or may have, and a page's requests to undo what a turn changed.

Pages are notified when a call that does more than read is over, a run, or a command, and then look at their file browser
and at what they have open. Which files it were is not said: of what a command of the shell has written nobody knows.

Loading the extension needs `open_documents.py`, and none of the events that are read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.errors import CellwrightError
from cellwright.events import Event, RunEnd, ToolEnd, ToolStart
from cellwright.features.conversation import Conversation
from cellwright.kernel.pages.comm import PageError
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


class UndoRequests:
    """Answers `undo_turns` and `undo_turn` of all pages and panels, on the agent's loop."""

    def __init__(self, pages: Pages, conversation: Conversation, file_news: FileNews) -> None:
        self._conversation = conversation
        self._file_news = file_news
        pages.serve("undo_turns", self.turns)
        pages.serve("undo_turn", self.turn)

    async def turns(self, _place: object, _params: Mapping[str, Any]) -> dict[str, Any]:
        """Say which turns of the session can be taken back."""
        from cellwright.commands.undo import turns_to_undo  # most kernels undo nothing

        try:
            return {"session": self._conversation.sessions.current.id, "turns": turns_to_undo(self._conversation)}
        except CellwrightError as error:
            raise PageError("failed", error.message) from error

    async def turn(self, _place: object, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take a turn back, or say what that would do."""
        from cellwright.commands.undo import undo_turn

        turn, preview = params.get("turn"), params.get("preview") is not False
        if params.get("session") != self._conversation.sessions.current.id or not isinstance(turn, int):
            raise PageError("failed", "This answer is from another session. Resume that session, then use /undo.")
        try:
            return await undo_turn(
                self._conversation, turn, preview=preview, force=params.get("force") is True and not preview
            )
        except CellwrightError as error:
            raise PageError("failed", error.message) from error
        finally:
            if not preview:
                self._file_news.notify()
