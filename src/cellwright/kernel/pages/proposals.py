"""Changes of cells that wait for the user's yes, shown at the cells in every page that has the notebook open.

It is the same question as in the turn's own card, and the first answer counts, wherever it is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cellwright.agent.calls.approval import ToolUse
from cellwright.agent.calls.tool_names import changes_cells
from cellwright.events import Asked
from cellwright.kernel.output.protocol import AnswerMessage, read_message
from cellwright.kernel.output.transcript_ops import ask_op
from cellwright.kernel.pages.comm import PageError
from cellwright.kernel.pages.pages import PageConnection, Pages
from cellwright.kernel.run.questions import SubmitAnswer
from cellwright.tools.paths import real_path, resolve_path


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
