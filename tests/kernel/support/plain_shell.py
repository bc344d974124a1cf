"""An IPython shell in the test's own process, for what needs no kernel around it."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from cellwright.agent.thread import agent_code_running


@contextlib.contextmanager
def plain_shell() -> Iterator[InteractiveShell]:
    """A shell with a history in memory."""
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell(config=config)
    try:
        yield shell
    finally:
        atexit.unregister(shell.atexit_operations)
        shell.atexit_operations()


def run(shell: InteractiveShell, source: str, cell_id: str | None = None) -> Any:
    """Run a cell as a kernel does."""
    return shell.run_cell(source, store_history=True, cell_id=cell_id)


def run_as_claude(shell: InteractiveShell, source: str) -> Any:
    """Run code as the tool Python does."""
    token = agent_code_running.set(True)
    try:
        return shell.run_cell(source, store_history=False)
    finally:
        agent_code_running.reset(token)
