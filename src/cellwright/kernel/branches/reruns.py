"""Code that ran before, run again in copies of the kernel: branches, or fresh kernels that run the notebook first."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

from cellwright.agent.calls.approval import Decision
from cellwright.conversation.kernel_copies import BranchInUse, CannotRerun, Copies, Ran, Step
from cellwright.conversation.runs.in_force import PolicyInForce
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import ToolError
from cellwright.kernel.branches.bounds import branches_enforced
from cellwright.kernel.branches.snapshot import NoBranch
from cellwright.kernel.cells.fresh_kernel import FreshCell, own_confinement, run_fresh
from cellwright.kernel.cells.notebook_verify import named_kernel
from cellwright.kernel.execute.branch_tool import ran_with
from cellwright.kernel.execute.python_tool import kernel_folder
from cellwright.kernel.magic.input_rewrite import asks_claude
from cellwright.text import counted
from cellwright.tools.files.changes import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.agent.calls.approval import Confinement
    from cellwright.conversation.kernel_copies import ForkedKernel
    from cellwright.features.conversation import Conversation
    from cellwright.kernel.branches.kernel_branches import KernelBranches
    from cellwright.kernel.namespace.cell_log import CellLog
    from cellwright.tools.notebook.open_notebook import Cell, OpenNotebooks

NO_BRANCHES = "This system cannot copy a running kernel."
SWITCHED_OFF = "Branches of the kernel are switched off (cellwright.branches)."
IN_USE = "A branch of the kernel is in use, which a new copy of it would end."

START_SECONDS = 60.0
"""The time in which a fresh kernel must have started and run the notebook, besides that of the code."""


class BranchesBetweenTurns(Protocol):
    """The conversation's branches, as a command of the user's has them."""

    @property
    def setting(self) -> str: ...
    def between_turns(self) -> AbstractAsyncContextManager[ForkedKernel]: ...


class KernelReruns:
    """For one notebook's kernel. All of it on the agent's loop."""

    def __init__(
        self,
        conversation: Conversation,
        branches: BranchesBetweenTurns | None,
        shell: InteractiveShell,
        cells: CellLog,
        notebooks: OpenNotebooks,
    ) -> None:
        self._conversation = conversation
        self._branches = branches
        self._shell = shell
        self._cells = cells
        self._notebooks = notebooks

    def cells(self) -> list[Step]:
        """The cells that ran to their end, each as it ran last, oldest first; prompts are none."""
        latest: dict[str, Step] = {}
        for run in self._cells.runs():
            if run.by == "other" or run.source is None or run.success is not True or run.is_prompt:
                continue
            cell_id = run.cell_id or f"run {run.order}"
            latest.pop(cell_id, None)
            latest[cell_id] = Step(cell_id, f"cell [{run.execution_count}]", run.source)
        return list(latest.values())

    @contextlib.asynccontextmanager
    async def copies(self, codes: Sequence[str]) -> AsyncIterator[Copies]:
        """Copies to run `codes` in: branches; where there are none, fresh kernels. Raises CannotRerun."""
        self._conversation.runs.refuse_while_running()
        why = NO_BRANCHES if self._branches is None else SWITCHED_OFF if self._branches.setting == "off" else ""
        if not why:
            assert self._branches is not None
            decision = await asyncio.to_thread(self._decision, codes, self._branches.setting)
            try:
                # the snapshot is taken by whichever thread stands still: the cell that waits for us, or the main one
                with self._conversation.jobs.owned_by(_Unawaited()):
                    async with contextlib.AsyncExitStack() as stack:
                        forked = await stack.enter_async_context(self._branches.between_turns())
                        left = stack.pop_all()
            except NoBranch as error:
                why = error.reason
            except BranchInUse:
                why = IN_USE
            else:
                async with left:
                    asks = decision.reason if decision.behavior == "ask" else ""
                    # the feature's kernel is the one that `_fork` of the conversation made
                    yield BranchCopies(cast("KernelBranches", forked), decision.confinement, asks)
                return

        with self._conversation.jobs.owned_by(_Unawaited()):  # asked for in the panel, no cell works off its jobs
            fresh = await fresh_copies(self._shell, self._conversation, self._notebooks, why)
        yield fresh

    def _decision(self, codes: Sequence[str], setting: str) -> Decision:
        """Judge the code as calls of Branch: the strictest decision. Raises CannotRerun if it is denied."""
        conversation = self._conversation
        session = conversation.sessions.current
        options = RunOptions(allow=session.granted)
        policy = PolicyInForce(conversation.in_force, options, conversation.sandbox.abilities)
        facts = {"cwd": kernel_folder(), "setting": setting, "unconfined": branches_enforced() or ""}
        tool = next((each for each in conversation.tools.of(options) if each.name == "Branch"), None)
        if tool is None:
            raise CannotRerun(
                "The settings do not allow Claude the tool Branch, with which code runs in a copy of the kernel."
            )
        decisions = [policy.decide(tool, {"code": code, **facts}) for code in codes]
        for decision in decisions:
            if decision.behavior == "deny":
                raise CannotRerun(f"The code may not run again: {decision.reason}")
        return next((each for each in decisions if each.behavior == "ask"), decisions[0])


class _Unawaited:
    """The owner of jobs that no run waits for."""

    background = True


class BranchCopies:
    """Branches of a snapshot that was just taken; each run has a new one."""

    def __init__(self, kernel: KernelBranches, confinement: Confinement | None, asks: str) -> None:
        self._kernel = kernel
        self._confinement = confinement
        self._numbers = itertools.count(1)
        self.words = "copies of your kernel" if confinement is None else "confined copies of your kernel"
        self.asks = asks

    async def run(self, codes: Sequence[str], seconds: float) -> list[Ran]:
        owner = f"stability-{next(self._numbers)}"
        making = asyncio.ensure_future(self._kernel.branch(owner, self._confinement))
        ran: list[Ran] = []
        try:
            branch = await asyncio.shield(making)
            deadline = time.monotonic() + seconds
            for code in codes:
                result = await branch.run(code, timeout=max(0.5, deadline - time.monotonic()))
                ran.append(await ran_with(result.outputs, result.text))
                if result.status not in ("ok", "error"):
                    break
        except NoBranch as error:
            return [*ran, Ran("", error.reason)]
        finally:
            with contextlib.suppress(NoBranch):
                await making  # one that is made after all is ended, too
            await self._kernel.end(owner)
        return ran


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
