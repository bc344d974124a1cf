"""The result and the error of a cell that is run for Claude: into `Out` and `_` as ever, and into the cell's own outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from IPython.core.display_trap import DisplayTrap

from cellwright.kernel.call_reports import cell_name
from cellwright.kernel.execute.redirect import Replacement, RunningCode
from cellwright.kernel.execute.traceback import short_traceback

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class Reported(Protocol):
    """What gets a cell's result and error."""

    def result(self, data: dict[str, Any], metadata: dict[str, Any], execution_count: int) -> None: ...

    def error(self, name: str, value: str, traceback: Sequence[str], short: str) -> None: ...


def cell_reports(shell: InteractiveShell, code: RunningCode, reported: Reported) -> Sequence[Replacement]:
    """What takes the place of the shell's own ways to show a result and an error while the cell runs."""

    def show(value: object = None) -> None:
        # what `DisplayHook.__call__` does, but for the sending
        hook = shell.displayhook
        hook.check_for_underscore()
        if value is None or hook.quiet():
            return
        data, metadata = hook.compute_format_data(value)
        hook.update_user_ns(value)
        hook.fill_exec_result(value)
        if data:
            reported.result(data, metadata, hook.prompt_count)
            hook.log_output(data)

    original = shell._showtraceback

    def showtraceback(kind: type[BaseException], error: BaseException, lines: list[str]) -> None:
        if not code.is_ours():
            original(kind, error, lines)
            return
        shell._last_traceback = lines  # type: ignore[attr-defined]  # where ipykernel's shell keeps it for the reply
        reported.error(kind.__name__, str(error), lines, short_traceback(error, cell_name(shell)))

    return (
        (shell, "display_trap", DisplayTrap(hook=show)),
        (shell, "_showtraceback", showtraceback),
    )
