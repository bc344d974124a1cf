"""Fresh kernels in the place of branches: each runs the notebook from the top, and then the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from cellwright.conversation.kernel_copies import CannotRerun, Ran
from cellwright.errors import ToolError
from cellwright.kernel.cells.fresh_kernel import FreshCell, own_confinement, run_fresh
from cellwright.kernel.cells.notebook_verify import named_kernel
from cellwright.kernel.execute.branch_tool import ran_with
from cellwright.kernel.magic.input_rewrite import asks_claude
from cellwright.text import counted
from cellwright.tools.files.changes import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.agent.calls.confinement import Confinement
    from cellwright.features.conversation import Conversation
    from cellwright.tools.notebook.open_notebook import Cell, OpenNotebooks

START_SECONDS = 60.0
"""The time in which a fresh kernel must have started and run the notebook, besides that of the code."""


class FreshCopies(Struct, frozen=True):
    """Fresh kernels for one notebook. `asks` says what running it may do; `confinement` holds it (None: nothing does)."""

    path: Path
    kernel: str
    cells: Sequence[Cell]
    conversation: Conversation
    asks: str
    confinement: Confinement | None = None
    words: str = "fresh kernels that run the notebook first"

    async def run(self, codes: Sequence[str], seconds: float) -> list[Ran]:
        """Run the notebook in a new kernel, then `codes`. Raises CannotRerun if the notebook does not run."""
        before = [FreshCell(cell.source) for cell in self.cells]
        try:
            result = await run_fresh(
                [*before, *(FreshCell(code, may_fail=True) for code in codes)],
                kernel=self.kernel,
                cwd=self.path.parent,
                environ=self.conversation.in_force.environ,
                cell_seconds=START_SECONDS,
                seconds=START_SECONDS + seconds,
                begins=lambda _: None,
                confinement=self.confinement,
            )
        except ToolError as error:
            raise CannotRerun(str(error)) from None
        failed = next(
            (index for index in range(len(before)) if index not in result.outputs or index in result.failed), None
        )
        if failed is not None:
            cell = f"cell {self.cells[failed].position + 1} of {self.path.name}"
            return [Ran("", f"The notebook does not run in a fresh kernel: {cell} does not come to its end.")]
        ran = [result.outputs.get(len(before) + index) for index in range(len(codes))]
        return [await ran_with(outputs) for outputs in ran if outputs is not None]


async def fresh_copies(
    shell: InteractiveShell, conversation: Conversation, notebooks: OpenNotebooks, why: str
) -> FreshCopies:
    """Return fresh kernels for this kernel's notebook; `why`: the reason for having no branches. Raises CannotRerun."""
    await notebooks.settled()
    notebook = notebooks.own()
    if notebook is None:
        raise CannotRerun(
            f"{why} It could run in fresh kernels, but which notebook this kernel runs is not known: save it."
        )
    code = [cell for cell in await notebook.cells() if cell.cell_type == "code" and cell.source.strip()]
    prompts = await conversation.jobs.call(
        lambda: frozenset(cell.id for cell in code if asks_claude(shell, cell.source))
    )
    cells = [cell for cell in code if cell.id not in prompts]
    kernel = await in_thread(lambda _: named_kernel(notebook.path))
    try:
        confinement = await in_thread(lambda _: own_confinement(conversation.in_force, conversation.sandbox.abilities))
    except ToolError as error:
        raise CannotRerun(str(error)) from None
    container = None if confinement is None else confinement.container
    bounds = (
        "Code can do anything you can there; nothing confines it."
        if container is None
        else f"They run in the container {container.name}."
    )
    asks = (
        f"{why} Instead, {counted(len(cells), 'cell')} of {notebook.path.name} and the code below run in fresh kernels, "
        f"many times over. {bounds}"
    )
    return FreshCopies(notebook.path, kernel, cells, conversation, asks, confinement)
