"""A slash command in a cell: its page in the place of the answer, its questions as a run's."""

from __future__ import annotations

import json
from collections.abc import Callable

from IPython.display import display
from msgspec import Struct

from cellwright.agent.thread import AgentTask
from cellwright.commands.command import CommandCall, CommandPage, SlashCommand
from cellwright.commands.registry import answer_of, command_of
from cellwright.features.conversation import Conversation
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.output.cell_output import CellOutput, SavedOutput, ViewOutput
from cellwright.kernel.run.cell_run import CellSurface, run_options
from cellwright.terminal.views.plain_view import Unseen


class CellCommand(Struct, frozen=True):
    """A command that is ready to run. `prompt` is the cell's text; `ended` is called when it is over."""

    prompt: str
    options: MagicOptions
    command: SlashCommand
    call: CommandCall
    output: CellOutput
    ended: Callable[[], object]

    def start(self) -> AgentTask[CommandPage]:
        """Have it done on the agent's thread."""
        return self.call.conversation.thread.submit(self._answer())

    def show(self, page: CommandPage) -> None:
        """Show the page in the cell, unless it stands there already, where the question was."""
        if self.options.format != "text":
            print(json.dumps({self.prompt.strip().removeprefix("/"): page.markdown()}))
        elif not isinstance(self.output, SavedOutput):
            display(_bundle(page), raw=True)

    async def _answer(self) -> CommandPage:
        try:
            page = await answer_of(self.command, self.call)
        finally:
            self.ended()
        if isinstance(self.output, SavedOutput) and self.options.format == "text":
            self.output.instead(_bundle(page))
        return page


def cell_command(
    conversation: Conversation,
    prompt: str,
    options: MagicOptions,
    new_surface: Callable[[MagicOptions], CellSurface],
    ended: Callable[[], object],
) -> CellCommand:
    """The slash command that `prompt` is, with the options of its cell. Raises `CellwrightError`.

    `ended` is called on the agent's thread when it is over.
    """
    command, text = command_of(prompt)
    # what asks nothing shows its page alone
    surface = new_surface(options) if command.asks else CellSurface(output=ViewOutput(Unseen()))
    call = CommandCall(conversation, run_options(options), text, surface.output.emit, surface.ask_user)
    return CellCommand(prompt, options, command, call, surface.output, ended)


def _bundle(page: CommandPage) -> dict[str, str]:
    return {"text/markdown": page.markdown(), "text/plain": page.plain()}
