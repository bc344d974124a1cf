"""What a cell's options come to: a run that can be waited for, and whether the cell waits for it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from cellwright.conversation.conversation import Conversation
from cellwright.conversation.run_options import RunOptions, result_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import RunEnd
from cellwright.kernel.magic.line import MagicOptions
from cellwright.kernel.run.cell_run import CellRun
from cellwright.kernel.run.front_end import FrontEnd
from cellwright.kernel.run.idle_kernel import loses_output
from cellwright.kernel.view_output import ViewOutput
from cellwright.kernel.widgets.bundle import is_built

if TYPE_CHECKING:
    from cellwright.agent.full_prompt import Telling
    from cellwright.agent.structured_output.answer import AnswerType


class PreparedRun(NamedTuple):
    """A run that can be waited for, and what is done with its end; `finish` raises what the cell should show.

    `background`: the cell does not wait for it.
    """

    cell: CellRun[RunEnd]
    finish: Callable[[RunEnd], None]
    background: bool = False


def run_options(options: MagicOptions, typed: AnswerType | None = None) -> RunOptions:
    """The magic's options as the conversation takes them; `typed` is what its `schema` names."""
    return RunOptions(
        model=options.model,
        mode=options.mode,
        max_turns=options.max_turns,
        budget_usd=options.budget,
        effort=options.effort,
        builtin_tools=not options.no_tools,
        answer_type=typed,
    )


def goes_on_alone(options: MagicOptions, front_end: FrontEnd) -> bool:
    """Whether the run goes on without its cell. Raises `CellwrightError` where nobody could see or answer it."""
    if not options.background:
        return False
    if front_end.kernel is not None and front_end.headless:
        # the kernel ends with its last cell, and the answer would be cut off
        print("[--background: nobody watches this notebook, so the cell waits for the answer.]")
        return False
    if front_end.cell_id is None or options.format != "text" or not is_built():
        message = (
            "--background needs a notebook that shows widgets: here nothing could be seen of the run, and nobody "
            "could answer its questions. Leave it out, and the prompt is answered while you wait. Nothing was sent."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if loses_output():
        print("[--background needs ipykernel 6, or 7.4 or newer; with this one the cell waits for the answer.]")
        return False
    return True


def dry_run(
    conversation: Conversation,
    shell: Any,
    prompt: str,
    options: MagicOptions,
    typed: AnswerType | None,
    telling: Sequence[Telling],
) -> PreparedRun:
    """A run that shows what `prompt` would send and sends nothing."""
    # not what most runs need
    from cellwright.conversation.dry_run import DryRun, shown, unsaved_copy
    from cellwright.terminal.plain_view import Unseen

    provider = DryRun()
    start = functools.partial(
        conversation.start,
        prompt,
        replace(run_options(options), telling=tuple(telling)),
        emit=lambda _: None,
        provider=provider,
        session=unsaved_copy(conversation.session),
    )

    def finish(end: RunEnd) -> None:
        result_of(end, ())
        summary = provider.summary(typed)
        print(shown(summary) if options.format == "text" else json.dumps(summary))
        if options.out is not None:
            shell.user_ns[options.out] = summary

    return PreparedRun(CellRun(conversation, start, ViewOutput(Unseen()), getattr(shell, "kernel", None)), finish)
