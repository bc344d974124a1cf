"""The execution count that a cell's reply has, also when the cell has run others meanwhile.

The kernel takes the shell's count at the end of a cell for the count of that cell. Where Claude has run cells while the
cell that asked it was running, the front end would show the last one's count twice, and the own one nowhere.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class ExecutionCountMender:
    """Mends the replies of one kernel, from `install` to `remove`."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._kernel: Any = getattr(shell, "kernel", None)

    def install(self) -> None:
        if self._kernel is None:
            return
        original = self._kernel.do_execute

        @functools.wraps(original)
        async def do_execute(*args: Any, **more: Any) -> Any:
            count = self._shell.execution_count
            reply = await original(*args, **more)
            if self._shell.execution_count > count + 1:
                reply["execution_count"] = count
            return reply

        self._kernel.do_execute = do_execute

    def remove(self) -> None:
        if self._kernel is not None:
            del self._kernel.do_execute
