"""The place of one run in its cell, where it shows itself and asks, by what the cell's front end can do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.features.conversation import Conversation
from cellwright.kernel.magic.options import MagicOptions
from cellwright.kernel.output.cell_output import CellOutput, RenewedOutput, SavedOutput, ViewOutput, WidgetOutput
from cellwright.kernel.output.later_pages import RunPages
from cellwright.kernel.output.op_log import OpLog
from cellwright.kernel.run.front_end import FrontEnd
from cellwright.kernel.run.questions import READY_TIMEOUT_SECONDS, QuestionMirror, Questions
from cellwright.kernel.widgets.bundle import why_no_widget
from cellwright.terminal.views.terminal_text import Look, look_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.terminal.views.plain_view import View


BACKGROUND_SECONDS_TO_GET_READY = 30.0
"""Nobody waits for a run in the background, and no `input()` can ask in its place."""


class CellSurface(RunSurface, frozen=True, kw_only=True):
    """A cell in which a run shows itself: `output` is what is drawn there."""

    output: CellOutput


def cell_surface(
    shell: InteractiveShell,
    front_end: FrontEnd,
    conversation: Conversation,
    options: MagicOptions,
    mirror: QuestionMirror,
    is_watched: Callable[[], bool],
    log_of: Callable[[Run], OpLog],
    pages: RunPages,
) -> CellSurface:
    """The cell that is running: a widget where one can be shown, else text, else only what is saved.

    `log_of` gives what a run is drawn from, `pages` tells which pages are there: a console is none of them.
    """
    quiet, for_people = options.quiet, options.format == "text"
    widget = for_people and front_end.kernel is not None and not front_end.headless
    notice = why_no_widget() if widget else ""
    in_notebook, widget = widget, widget and not notice
    look = look_of(conversation.in_force.settings, os.environ)
    # a question on stdout would end up among the JSON
    questions = Questions(
        conversation.jobs,
        front_end.allows_input and for_people and not options.background,
        widget,
        conversation.in_force.save_rules,
        answer_seconds=conversation.in_force.settings.ask_user_question_seconds,
        mirror=mirror,
        is_watched=is_watched,
        was_closed=lambda: pages.was_closed(front_end.page),
        look=look,
        seconds_to_get_ready=BACKGROUND_SECONDS_TO_GET_READY if options.background else READY_TIMEOUT_SECONDS,
    )

    def clean_each(texts: Iterable[str]) -> Mapping[str, str]:
        return conversation.redaction.clean_each(texts) if conversation.in_force.settings.redact_secrets else {}

    output: CellOutput
    if widget:
        output = WidgetOutput(
            shell,
            clean_each,
            conversation.thread.loop,
            questions,
            front_end,
            quiet=quiet,
            run=lambda: conversation.runs.current,
            log_of=log_of,
            stop_agent=conversation.features.subagents.stop_one,
            pages=pages,
        )
    elif for_people and front_end.kernel is not None and front_end.headless:
        output = SavedOutput(shell, clean_each, quiet=quiet)
    elif in_notebook:
        output = RenewedOutput(shell, clean_each, conversation.thread.loop, quiet=quiet, notice=_shown_once(notice))
    else:
        output = ViewOutput(_view(options, look, in_terminal=front_end.kernel is None))
    somebody = widget or questions.allows_input
    ask_user = questions.can_use_tool if somebody else None
    return CellSurface(output.on_event, questions.can_use_tool, ask_user, output.belongs_to, output=output)


def _view(options: MagicOptions, look: Look, *, in_terminal: bool) -> View:
    # most cells show a widget
    from cellwright.terminal.views.plain_view import AnswerView, JsonLinesView, JsonView, PlainView
    from cellwright.terminal.views.terminal_text import columns_of, draws

    if options.format == "json-lines":
        return JsonLinesView(sys.stdout)
    if options.format == "json":
        return JsonView(sys.stdout)
    if options.quiet:
        return AnswerView(sys.stdout, None)
    if not in_terminal:
        return PlainView(sys.stdout)
    columns = columns_of(sys.stdout, os.environ)
    if not draws(sys.stdout, os.environ, columns):
        return PlainView(sys.stdout, columns if sys.stdout.isatty() else None)
    from cellwright.terminal.views.live_view import live_view  # rich

    return live_view(sys.stdout, look, shares_screen=True)


_notices_shown: set[str] = set()


def _shown_once(notice: str) -> str:
    """`notice` the first time in this process, then nothing."""
    if notice in _notices_shown:
        return ""
    _notices_shown.add(notice)
    return notice
