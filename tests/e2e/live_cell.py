"""What a cell in JupyterLab runs: the kernel's view of its notebooks, used while that cell is busy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from IPython.core.getipython import get_ipython
from open_notebook_conformance import CASES, reset

from cellwright.kernel.pages.open_notebooks import LiveNotebook
from cellwright.kernel.run.interrupts import needs_pump, pump

own_cell = "cell-1"


def conversation() -> Any:
    return get_ipython().find_cell_magic("claude").__self__.extension.conversation()


def blocking(work: Coroutine[Any, Any, Any], seconds: float = 60) -> Any:
    """The result of `work` on the agent's loop; the main thread waits for it and does nothing else."""
    return asyncio.run_coroutine_threadsafe(work, conversation().conversation.thread.loop).result(seconds)


async def awaited(work: Coroutine[Any, Any, Any]) -> Any:
    """The same in a cell that is awaited, as those with `%%claude` are."""
    kernel = get_ipython().kernel
    pumping = asyncio.ensure_future(pump(kernel)) if needs_pump(kernel) else None
    try:
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(work, conversation().conversation.thread.loop)
        )
    finally:
        if pumping is not None:
            pumping.cancel()


async def own_notebook() -> Any:
    notebooks = conversation().conversation.tools.open_notebooks
    while not isinstance(notebook := notebooks.own(), LiveNotebook):
        await asyncio.sleep(0.01)
    return notebook


async def conform() -> str:
    """Run all cases; what came of each, as JSON."""
    notebook = await own_notebook()
    told = {"where": notebook.where}
    for name, case in CASES.items():
        try:
            await reset(notebook, keep=own_cell)
            await case(notebook)
        except Exception as error:  # noqa: BLE001  the test that reads this says what failed
            told[name] = f"{type(error).__name__}: {error}"[:2_000]
        else:
            told[name] = "ok"
    return json.dumps(told)
