"""Loading the extension while a cell runs: by completing `from cellwright.kernel.pages.load_on_completion import LOADED`.

A page or a server has one way to a busy kernel, a subshell. Code executed there fires the user's hooks on the subshell's
thread: matplotlib's inline backend then draws the figures of the running cell, and they come out blank or torn. A
completion fires no hook, and IPython imports the module whose names it completes and asks it for them
(`IPython.core.completerlib.try_import`). The name is offered once the extension is there.
"""

from __future__ import annotations

from typing import Any

from cellwright.this_process.late_imports import importing

EXTENSION = "cellwright"


def __dir__() -> list[str]:
    # no name of this module says it: static completion would offer it unasked
    return ["LOADED"] if _load() else []


def _load() -> bool:
    with importing:
        from IPython.core.interactiveshell import InteractiveShell

    if not InteractiveShell.initialized():
        return False
    manager: Any = InteractiveShell.instance().extension_manager
    try:
        manager.load_extension(EXTENSION)
    except Exception:  # noqa: BLE001  told by who loads it with code next
        return False
    return True
