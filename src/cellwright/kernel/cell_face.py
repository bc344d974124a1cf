"""How one run shows itself and asks, by what the front end of its cell can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cellwright.agent.approval import CanUseTool
from cellwright.conversation import Conversation
from cellwright.kernel.cell_output import CellOutput, SavedOutput, WidgetOutput
from cellwright.kernel.front_end import FrontEnd
from cellwright.kernel.lines_output import LinesOutput
from cellwright.kernel.magic_line import MagicOptions
from cellwright.kernel.printed_output import PrintedOutput
from cellwright.kernel.questions import Questions
from cellwright.kernel.widgets.bundle import is_built

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NOT_BUILT = (
    "[Cellwright's widget was not built: run `make build` in the source checkout. Answers appear as plain text.]"
)


@dataclass(frozen=True)
class CellFace:
    """A run's output and the coroutine that puts its questions to the user."""

    output: CellOutput
    can_use_tool: CanUseTool


def cell_face(
    shell: InteractiveShell,
    front_end: FrontEnd,
    conversation: Conversation,
    options: MagicOptions,
    save_rule: Callable[[str], object],
) -> CellFace:
    """The face of the cell that is running: a widget where one can be shown, else text, else only what is saved."""
    quiet = options.quiet
    widget = options.format == "text" and front_end.kernel is not None and not front_end.headless
    notice = ""
    if widget and not is_built():
        widget, notice = False, _once(NOT_BUILT)
    questions = Questions(conversation.jobs, front_end.allows_input, widget, save_rule)
    output: CellOutput
    if options.format != "text":
        output = LinesOutput(options.format)
    elif widget:
        output = WidgetOutput(shell, conversation.thread.loop, questions, quiet=quiet)
    elif front_end.kernel is not None and front_end.headless:
        output = SavedOutput(shell, quiet=quiet)
    else:
        output = PrintedOutput(quiet=quiet, notice=notice)
    return CellFace(output, questions.can_use_tool)


_said: set[str] = set()


def _once(notice: str) -> str:
    """`notice` the first time in this process, then nothing."""
    if notice in _said:
        return ""
    _said.add(notice)
    return notice
