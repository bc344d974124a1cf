"""A slash command in a cell: its page in the place of the answer, its questions as a run's."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.kernel.magic.line import MagicOptions
from cellwright.kernel.output.cell_output import SavedOutput, ViewOutput
from cellwright.kernel.run.cell_run import CellRun
from cellwright.kernel.run.cell_surface import CellSurface
from cellwright.terminal.plain_view import Unseen


@dataclass(frozen=True, slots=True)
class CellCommand:
    """A command that is ready to run. `prompt` is the cell's text."""

    prompt: str
    options: MagicOptions
    run: CellRun[CommandPage]

    def show(self, page: CommandPage) -> None:
        """Show the page in the cell, unless it stands there already, where the question was."""
        from IPython.display import display

        if self.options.format != "text":
            print(json.dumps({self.prompt.strip().removeprefix("/"): page.markdown()}))
        elif not isinstance(self.run.output, SavedOutput):
            display(_bundle(page), raw=True)


def cell_command(
    conversation: Conversation,
    kernel: Any,
    prompt: str,
    options: MagicOptions,
    given: RunOptions,
    new_face: Callable[[MagicOptions], CellSurface],
    ended: Callable[[], object],
) -> CellCommand:
    """The slash command that `prompt` is, with the options of its cell. Raises `CellwrightError`.

    `ended` is called on the agent's thread when it is over.
    """
    command, text = command_of(prompt)
    face = new_face(options) if command.asks else None
    output = face.output if face is not None else ViewOutput(Unseen())
    call = CommandCall(conversation, given, text, output.emit, face.ask_user if face is not None else None)

    async def answered() -> CommandPage:
        try:
            page = await answer_of(command, call)
        finally:
            ended()
        if isinstance(output, SavedOutput) and options.format == "text":
            output.instead(_bundle(page))
        return page

    start = functools.partial(conversation.thread.submit, answered())
    return CellCommand(prompt, options, CellRun(conversation, start, output, kernel))


def _bundle(page: CommandPage) -> dict[str, str]:
    return {"text/markdown": page.markdown(), "text/plain": page.plain()}
