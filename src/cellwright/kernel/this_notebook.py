"""Which notebook file this kernel runs, as far as somebody tells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.kernel.run.front_end import FrontEnd
from cellwright.kernel.run.notebook_trust import notebook_of

TOLD_IN_NAMESPACE = ("PAPERMILL_INPUT_PATH", "__vsc_ipynb_file__")
"""What papermill (`--inject-input-path`) and VS Code put into the namespace."""


def this_notebook(front_end: FrontEnd, namespace: Mapping[str, Any], environ: Mapping[str, str]) -> Path | None:
    """The notebook's file; None where nothing tells.

    What Jupyter Server says with JPY_SESSION_NAME counts only where a front end runs the cell: nbclient and papermill,
    started from a notebook, hand on the variable of that one.
    """
    for name in TOLD_IN_NAMESPACE:
        told = namespace.get(name)
        if isinstance(told, str) and told.endswith(".ipynb") and (path := Path(told).absolute()).is_file():
            return path
    return None if front_end.headless else notebook_of(environ)
