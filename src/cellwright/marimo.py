"""Claude in a marimo notebook: `ask` as everywhere, with the answer in the cell while it comes.

    import cellwright.marimo
    result = cellwright.marimo.ask("Which of the columns of `tides` has gaps?")

marimo has no IPython kernel, so there is no `%%claude`. While a cell runs, no click reaches its kernel; so the view is
Markdown that marimo draws itself, and questions are asked in the cell's console.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Unpack

from msgspec import Struct

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.prompt import Prompt
from cellwright.conversation.runs.kinds import TrustCheck
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import Result
from cellwright.events import Event, TextDelta, ToolStart
from cellwright.features.conversation import Conversation
from cellwright.kernel.output.saved_markdown import WORKING, SavedTranscript
from cellwright.kernel.run.questions import ask_by_input
from cellwright.python_api.ask import ask_in, process_conversation
from cellwright.python_api.ask_option_types import AskOptions
from cellwright.python_api.ask_options import ASK_DEFAULTS, spelled_out

DRAW_SECONDS = 0.25
"""The time between two drawings of an answer that grows."""


@spelled_out(ASK_DEFAULTS)
def ask(prompt: Prompt, **options: Unpack[AskOptions]) -> Result:
    """Do what `cellwright.ask` does, and show the answer in the cell of a marimo notebook while it comes.

    Options, result and errors are those of `cellwright.ask`. Without `can_use_tool`, permissions are asked for in the cell's
    console: nothing typed is a no. The answer stays as the cell's output where the cell's last line has no value.
    """
    return ask_in(_CellConversation(process_conversation().conversation), prompt, options)


class _CellConversation(Struct, frozen=True):
    """The conversation of this process, asked in by a cell that shows its runs."""

    conversation: Conversation
    origin: str = "a marimo notebook"
    trust_checks: tuple[TrustCheck, ...] = ()

    @contextlib.contextmanager
    def surface(self) -> Iterator[RunSurface]:
        view = _CellView(self.conversation)
        try:
            yield RunSurface(view.on_event, view.ask, view.ask)
        finally:
            view.close()


class _CellView:
    """The output of the running cell for one run. Events come on the agent's loop; marimo draws on the cell's thread."""

    def __init__(self, conversation: Conversation) -> None:
        self._jobs = conversation.jobs
        self._saved = SavedTranscript()
        self._drawing: asyncio.Task[None] | None = None
        self._pause = DRAW_SECONDS
        self._has_answer = False
        self._closed = False

    def on_event(self, event: Event) -> None:
        self._saved.emit(event)
        self._has_answer = self._has_answer or isinstance(event, TextDelta | ToolStart)
        if self._drawing is None or self._drawing.done():
            self._drawing = asyncio.get_running_loop().create_task(self._draw_soon())

    async def ask(self, use: ToolUse) -> Allow | Deny:
        def answered() -> Allow | Deny:
            self._draw_again()  # nothing is drawn while the question waits
            return ask_by_input(use)

        # the console belongs to the thread that runs the cell
        return await self._jobs.call(answered)

    async def _draw_soon(self) -> None:
        await asyncio.sleep(self._pause)
        await self._jobs.call(self._draw_again)

    def _draw_again(self) -> None:
        if self._closed:
            return
        began = time.monotonic()
        _show(f"{self._saved.markdown()}\n\n{WORKING}" if self._has_answer else WORKING)
        # a long answer is drawn less often: it may not cost more than a tenth of the time
        self._pause = max(DRAW_SECONDS, 10 * (time.monotonic() - began))

    def close(self) -> None:
        self._closed = True
        _show(self._saved.markdown())


def _show(markdown: str) -> None:
    # no dependency: who calls this is in a notebook of marimo's
    import marimo

    marimo.output.replace(marimo.md(markdown))
