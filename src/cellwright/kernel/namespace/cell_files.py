"""The name that a traceback has for a cell: the code of each is compiled under a file name of its own."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def cell_of_file(shell: InteractiveShell, file: str) -> tuple[str, str] | None:
    """`("Cell", "In[3]")` for the file name of a cell's code; None for a real file."""
    compiler: Any = shell.compile
    if hasattr(compiler, "format_code_name"):
        found: tuple[str, str] | None = compiler.format_code_name(file)
        return found
    # IPython 7 knows which files are cells, but not which is which
    if file not in getattr(linecache, "_ipython_cache", ()):
        return None
    history: Any = shell.history_manager
    codes = list(zip(history.input_hist_raw, history.input_hist_parsed, strict=False))
    for number in range(len(codes) - 1, 0, -1):
        raw, parsed = codes[number]
        # the history has both without the line ends at their ends
        if any(compiler.get_code_name(each, f"{parsed}\n", number) == file for each in (raw, f"{raw}\n")):
            return "Cell", f"In[{number}]"
    return "Cell", "In[?]"
