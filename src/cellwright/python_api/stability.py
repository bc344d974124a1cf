"""`cellwright.stability`: the numbers of the last answer on perturbed data, as data."""

from __future__ import annotations

from concurrent.futures import CancelledError

from cellwright.commands.sessions.answers import checked, stability_report
from cellwright.conversation.kernel_copies import CannotRerun
from cellwright.conversation.runs.run import refuse_agent_code
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.stability.report import StabilityReport
from cellwright.features.stability.rerun import FIRST_SEED, RESAMPLES, SECONDS, Wish
from cellwright.python_api.ask import process_conversation


def stability(
    frame: str = "",
    *,
    label: str = "",
    by: str = "",
    n: int = RESAMPLES,
    seconds: float = SECONDS,
    seed: int = FIRST_SEED,
) -> StabilityReport:
    """Run the code behind the last answer's numbers on perturbed data, and give the spread of each, as `/stability` does.

    `frame` is the name of a frame or array in the notebook, `label` a column or variable to permute ("none": none), `by` a
    column whose groups stay together; what is not named is guessed, and asked in the cell. `n` resamples, within `seconds`;
    the same `seed` gives the same data. Blocks. Raises `CellwrightError` if nothing can be run, and outside a notebook:

    >>> try:
    ...     stability("df", label="churn")
    ... except CellwrightError as error:
    ...     print(error.message)
    Only a notebook's kernel has the data to resample; here Claude's code runs elsewhere. Nothing was run.
    """
    refuse_agent_code("test its own numbers")
    wish = checked(Wish(frame=frame, label=label, by=by, resamples=n, seconds=seconds, seed=seed))
    here = process_conversation()
    conversation = here.conversation
    with here.surface() as surface:
        task = conversation.thread.submit(stability_report(conversation, wish, surface.can_use_tool, surface.emit))
        try:
            conversation.jobs.work_until_done(task)
        except KeyboardInterrupt:
            task.cancel()
            conversation.jobs.work_until_done(task)
            raise
        try:
            return task.future.result()
        except CancelledError:
            raise CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True) from None
        except CannotRerun as cannot:
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, f"{cannot} Nothing was run.") from None
