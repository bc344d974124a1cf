"""Changes in pages: of cells, while they wait for the user's yes; of files, once they were made; and turns taken back there.

A change of a cell is shown at the cell in every page that has the notebook open. It is the same question as in the turn's
own card, and the first answer counts, wherever it is given.

Pages are notified when a call that does more than read is over, a run, or a command, and then look at their file browser
and at what they have open. Which files it were is not said: of what a command of the shell has written nobody knows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from cellwright.agent.calls.approval import ToolUse
from cellwright.agent.calls.tool_names import changes_cells
from cellwright.errors import CellwrightError
from cellwright.events import Asked, Event, RunEnd, ToolEnd, ToolStart
from cellwright.features.conversation import Conversation
from cellwright.kernel.output.protocol import AnswerMessage, read_message
from cellwright.kernel.output.transcript_ops import ask_op
from cellwright.kernel.pages.comm import PageError
from cellwright.kernel.pages.pages import SERVER, PageConnection, Pages
from cellwright.kernel.run.questions import SubmitAnswer
from cellwright.tools.paths import real_path, resolve_path

if TYPE_CHECKING:
    from types import ModuleType

    from cellwright.conversation.runs.run import Run
    from cellwright.sessions.session import Session


class _OpenProposal(Struct, frozen=True):
    """An open question: the notebook's real path, what is shown where, who takes its answer, which pages have it."""

    path: Path
    shown: Mapping[str, Any]
    take: SubmitAnswer
    notified: set[tuple[str, str]] = field(default_factory=set)


class Proposals:
    """The questions that pages show at cells. All of it on the agent's loop."""

    def __init__(self, pages: Pages, cwd: Path) -> None:
        self._pages = pages
        self._cwd = cwd
        self._open: dict[str, _OpenProposal] = {}
        pages.serve("answer", self._on_answer)
        pages.follow(self._catch_up)

    @contextlib.asynccontextmanager
    async def mirror(self, use: ToolUse, take: SubmitAnswer) -> AsyncIterator[None]:
        """Have the pages show `use` as long as the block lasts, if it changes a cell that they have open."""
        path = real_path(resolve_path(self._cwd, str(use.input["notebook_path"]))) if changes_cells(use.name) else None
        if path is None or use.kind != "permission":
            yield
            return
        asked = Asked(
            use.question_id,
            {"id": use.id, "name": use.name, "input": use.input},
            use.preview,
            use.decision.shown_reason,
            use.decision.suggestions,
        )
        proposed = self._open[use.question_id] = _OpenProposal(
            path, {**_card_location(use.input), "ask": ask_op(asked)}, take
        )
        try:
            for page in self._pages.showing(path):
                await self._show(proposed, page)
            yield
        finally:
            del self._open[use.question_id]
            await self._pages.notify("withdraw", {"question": use.question_id}, self._pages.showing(path))

    async def _on_answer(self, _page: PageConnection, params: Mapping[str, Any]) -> None:
        """A page answers one of the questions."""
        answer = read_message({**params, "type": "answer"})
        if not isinstance(answer, AnswerMessage):
            raise PageError("failed", "This is no answer.")
        if (proposed := self._open.get(answer.question)) is not None:
            proposed.take(answer, "widget")

    async def _catch_up(self, page: PageConnection) -> None:
        """Show what is open to a page that has come since, or has opened the notebook since."""
        for proposed in self._open.values():
            await self._show(proposed, page)

    async def _show(self, proposed: _OpenProposal, page: PageConnection) -> None:
        notebook = page.shows(proposed.path)
        if notebook is None or (page.id, notebook.served_path) in proposed.notified:
            return
        proposed.notified.add((page.id, notebook.served_path))
        await self._pages.notify("propose", {**proposed.shown, "path": notebook.served_path}, [page])


def _card_location(tool_input: Mapping[str, Any]) -> dict[str, Any]:
    """Return the place of the card in the notebook."""
    cell = str(tool_input.get("cell_id", ""))
    if tool_input.get("edit_mode") != "insert":
        return {"where": "on", "cell": cell}
    position = tool_input.get("position", "after" if cell else "end")
    return {"where": position, "cell": cell}


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


def _undo() -> ModuleType:
    from cellwright.commands import undo  # most kernels undo nothing

    return undo


class UndoRequests:
    """Answers `undo_turns` and `undo_turn` of all pages and panels, on the agent's loop."""

    def __init__(self, pages: Pages, conversation: Conversation, file_news: FileNews) -> None:
        self._conversation = conversation
        self._file_news = file_news
        pages.serve("undo_turns", self.turns)
        pages.serve("undo_turn", self.turn)

    async def turns(self, _place: object, _params: Mapping[str, Any]) -> dict[str, Any]:
        """Say which turns of the session can be taken back."""
        try:
            return {
                "session": self._conversation.sessions.current.id,
                "turns": _undo().turns_to_undo(self._conversation),
            }
        except CellwrightError as error:
            raise PageError("failed", error.message) from error

    async def turn(self, _place: object, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take a turn back, or say what that would do."""
        turn, preview = params.get("turn"), params.get("preview") is not False
        if params.get("session") != self._conversation.sessions.current.id or not isinstance(turn, int):
            raise PageError("failed", "This answer is from another session. Resume that session, then use /undo.")
        try:
            undone: dict[str, Any] = await _undo().undo_turn(
                self._conversation, turn, preview=preview, force=params.get("force") is True and not preview
            )
        except CellwrightError as error:
            raise PageError("failed", error.message) from error
        finally:
            if not preview:
                self._file_news.notify()
        return undone
