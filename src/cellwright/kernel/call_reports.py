"""The result and the error of Claude's own code, as the call gives them back: the user's `Out` and `_` know of neither."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.display_trap import DisplayTrap
from IPython.core.displayhook import DisplayHook

from cellwright.kernel.execute.captured_output import Piece, display_of
from cellwright.kernel.execute.redirect import Replacement, RunningCode
from cellwright.kernel.execute.traceback import short_traceback

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def call_reports(shell: InteractiveShell, code: RunningCode, put: Callable[[Piece], None]) -> Sequence[Replacement]:
    """What takes the place of the shell's own ways to show a result and an error while `code` runs."""

    def show(value: object) -> None:
        formatter = shell.display_formatter
        if value is None or formatter is None or DisplayHook.semicolon_at_end_of_expression(code.transformed):
            return
        data, _ = formatter.format(value)
        if data:
            put(display_of(data))

    def traceback_of(original: Callable[..., Any]) -> Callable[..., Any]:
        def show(exc_tuple: Any = None, *args: Any, **more: Any) -> None:
            if not code.is_ours():
                original(exc_tuple, *args, **more)
                return
            # `showsyntaxerror` takes a file name first
            error = exc_tuple[1] if isinstance(exc_tuple, tuple) else sys.exc_info()[1]
            if error is not None:
                put(short_traceback(error, cell_name(shell, code.file)))

        return show

    return (
        (shell, "display_trap", DisplayTrap(hook=show)),
        (shell, "showtraceback", traceback_of(shell.showtraceback)),
        (shell, "showsyntaxerror", traceback_of(shell.showsyntaxerror)),
    )


def cell_name(shell: InteractiveShell, own_file: str = "") -> Callable[[str], str | None]:
    """How tracebacks name files: the code of this call, the notebook's cells; None for real files."""

    def name_of(file: str) -> str | None:
        if file == own_file:
            return "<this call's code>"
        named = shell.compile.format_code_name(file)
        return " ".join(named) if named is not None else None

    return name_of
