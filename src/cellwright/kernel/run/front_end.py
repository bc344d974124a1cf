"""What the front end of the running cell can do: show widgets, answer `input()`, or nothing at all."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class FrontEnd(NamedTuple):
    """The front end of one cell. `kernel` is None in a terminal; `page` names the client that sent the cell.

    `request` names the request that runs the cell: each run has its own.
    """

    kernel: Any
    allows_input: bool
    cell_id: str | None
    page: str
    request: str = ""

    @property
    def headless(self) -> bool:
        """Whether nobody looks: nbclient and papermill allow no stdin and name no cell, a script has no terminal."""
        return not self.allows_input and self.cell_id is None


def front_end_of(shell: InteractiveShell) -> FrontEnd:
    """The front end that sent the request that is running now."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return FrontEnd(None, sys.stdin is not None and sys.stdin.isatty(), None, "", str(shell.execution_count))
    request = kernel.get_parent("shell")
    content, metadata = request.get("content", {}), request.get("metadata", {})
    header = request.get("header", {})
    allows_input = bool(content.get("allow_stdin", False))
    return FrontEnd(
        kernel, allows_input, metadata.get("cellId"), header.get("session", ""), str(header.get("msg_id", ""))
    )
