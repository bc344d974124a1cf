"""The pages' requests about turns that can be taken back, for the button under an answer.

See docs/protocol/notebook.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.errors import CellwrightError
from cellwright.features.conversation import Conversation
from cellwright.kernel.pages.comm import PageError
from cellwright.kernel.pages.file_news import FileNews
from cellwright.kernel.pages.pages import Pages


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
