"""The front end of the running cell, by what it can do, and the notebook file that this kernel runs.

A front end shows widgets, answers `input()`, or can do nothing at all. The notebook is known as far as somebody
tells.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cellwright.kernel.run.notebook_trust import notebook_of

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
        """True when nobody looks: nbclient and papermill allow no stdin, name no cell; a script has no terminal."""
        return not self.allows_input and self.cell_id is None

    @property
    def is_vscode(self) -> bool:
        """True in Visual Studio Code, which names a cell by the address of its document, in notebooks and elsewhere."""
        return self.cell_id is not None and self.cell_id.startswith("vscode-")


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


TOLD_IN_NAMESPACE = ("PAPERMILL_INPUT_PATH", "__vsc_ipynb_file__")
"""The names that papermill (`--inject-input-path`) and VS Code put into the namespace."""


def this_notebook(front_end: FrontEnd, namespace: Mapping[str, Any], environ: Mapping[str, str]) -> Path | None:
    """The notebook's file; None where nothing tells.

    What Jupyter Server says with JPY_SESSION_NAME counts only where a front end runs the cell: nbclient and papermill,
    started from a notebook, hand on the variable of that one.
    """
    for name in TOLD_IN_NAMESPACE:
        value = namespace.get(name)
        if isinstance(value, str) and value.endswith(".ipynb") and (path := Path(value).absolute()).is_file():
            return path
    return None if front_end.headless else notebook_of(environ)
