"""The tool `NotebookRun`: cells of the open notebook, run in this kernel while the cell that asked still runs.

The kernel takes no other request meanwhile, so the cells run as jobs of the thread that waits, as if the user had run
them, one after another; what they give is written into them through the front end.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field
from msgspec.structs import astuple

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.thread import CallerJobs
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.kernel.cells.run_cells import CellsRun
from cellwright.kernel.execute.output_limits import HEAD_CHARS, TAIL_CHARS
from cellwright.kernel.execute.python_tool import kernel_folder, run_code
from cellwright.kernel.magic.input_rewrite import asks_claude
from cellwright.kernel.namespace.hidden_state import stale_cells
from cellwright.text import counted
from cellwright.tools.inputs import MIN_SECONDS
from cellwright.tools.notebook.open_notebook import Cell, OpenNotebook, OpenNotebooks, cell_name
from cellwright.tools.paths import real_path, resolve_path, shown_path

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.namespace.cell_log import CellLog

SECONDS = 120

Which = Literal["below", "above", "all", "stale"]


class NotebookRunOutput(ToolOutput):
    """Each cell: its `id`, its `number` from 1, the `status` it ended with, its `execution_count`, its `seconds`."""

    notebook: str
    cells: tuple[dict[str, Any], ...]
    failed: bool


class NotebookRunInput(ToolInput):
    """The input of NotebookRun."""

    cell_ids: (
        Annotated[
            tuple[Annotated[str, Meta(min_length=1)], ...],
            Meta(min_length=1, max_length=200, description="The cells to run, by id, in this order."),
        ]
        | None
    ) = None
    which: Annotated[Which, Meta(description="The cells to run, in the notebook's order.")] | None = None
    notebook_path: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="The notebook that this kernel runs; only to make sure that it is the one you mean.",
            ),
        ]
        | None
    ) = None
    timeout_seconds: Annotated[
        int,
        Meta(
            ge=MIN_SECONDS,
            le=3_600,
            description=f"Seconds the cells may take together, {SECONDS} by default.",
        ),
    ] = SECONDS


def chosen_cells(
    cells: Sequence[Cell], input: NotebookRunInput, running: str | None, log: CellLog, display_path: str
) -> list[Cell]:
    """The code cells that the input names, in the order in which they are to run.

    `running` is the cell that asked Claude, None where it is not known; `display_path` is the notebook's name.
    Raises ToolError.
    """
    if input.cell_ids is not None and input.which is None:
        chosen, what = _by_id(cells, input.cell_ids, display_path), "these cells"
        if running in input.cell_ids:
            raise _bad(f"Cell {running} is the one that is running now: it asked you.")
    elif input.which is not None and input.cell_ids is None:
        chosen, what = _by_place(cells, input.which, running, log, display_path), f'the cells of which="{input.which}"'
    else:
        raise _bad(f"Give either cell_ids or which ({', '.join(get_args(Which))}).")
    chosen = [cell for cell in chosen if cell.cell_type == "code" and cell.source.strip()]
    if not chosen:
        raise _bad(f"There is nothing to run: {what} of {display_path} hold no code.")
    return chosen


def _by_id(cells: Sequence[Cell], cell_ids: Sequence[str], display_path: str) -> list[Cell]:
    by_id = {cell.id: cell for cell in cells}
    missing = [cell_id for cell_id in cell_ids if cell_id not in by_id]
    if missing:
        known = ", ".join(list(by_id)[:40]) + (" …" if len(by_id) > 40 else "")
        raise _bad(
            f"Cell {', '.join(missing)} was not found in {display_path}; nothing was run. The cells are: {known or 'none'}."
        )
    return [by_id[cell_id] for cell_id in dict.fromkeys(cell_ids)]


def _by_place(cells: Sequence[Cell], which: Which, running: str | None, log: CellLog, display_path: str) -> list[Cell]:
    others = [cell for cell in cells if cell.id != running]
    if which == "all":
        return others
    if which == "stale":
        stale = set(stale_cells(others, log))
        if not stale:
            raise _bad(f"No cell of {display_path} is stale: no cell has changed since it ran. Nothing was run.")
        return [cell for cell in others if cell.id in stale]
    here = next((cell.position for cell in cells if cell.id == running), None)
    if here is None:
        raise _bad(
            f"The cell of {display_path} that asked you is unknown here, so no cell is {which} it. Give cell_ids."
        )
    return [cell for cell in others if (cell.position > here if which == "below" else cell.position < here)]


def _bad(message: str) -> ToolError:
    return ToolError(message, code=ErrorCode.INVALID_PARAMETERS)


CHOICES_KEPT = 20

DESCRIPTION = f"""\
Run code cells of the notebook that this kernel runs, in the kernel, as if the user had run them: the user's variables \
change, and outputs and execution counts appear in the cells, where the user sees them. You get the outputs too, \
figures as images.
- Choose by cell_ids (in the order given) or by which: "below" or "above" the cell that asked you, "all", or "stale" \
(changed since they ran, and cells that depend on them). NotebookRead shows ids and stale cells.
- The first cell that fails ends the run; the result says which did not run. Cells that ask Claude are refused.
- All of it may take timeout_seconds ({SECONDS} by default).
- Use Python for code that is not a cell; edit a cell with NotebookEdit, then run it here."""

EXAMPLES: tuple[dict[str, Any], ...] = (
    {"cell_ids": ["3f2a9c1e", "b07d11aa"]},
    {"which": "below", "timeout_seconds": 600},
    {"which": "stale"},
)

NOT_KNOWN = (
    "Which notebook this kernel runs is not known here: no front end shows it. Run the code with Python, or ask the user "
    "to name the file (`%%claude --notebook PATH`)."
)


class CellSelection(Struct, frozen=True):
    """The cells that a call would run, as they were when it was judged."""

    notebook: OpenNotebook
    cells: tuple[Cell, ...]

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The facts that must still hold when the cells run."""
        return str(self.notebook.path), tuple((cell.id, cell.sha256) for cell in self.cells)


class Runner(Struct):
    """The state shared by one kernel's calls. `own_cell()` is the asking cell, None where no front end says it.

    `before_code` is awaited with the sources of the cells before they run.
    """

    shell: InteractiveShell
    jobs: CallerJobs
    notebooks: OpenNotebooks
    log: CellLog
    cwd: Path
    in_kernel: bool
    own_cell: Callable[[], str | None]
    on_stuck: Callable[[str], None] | None = None
    before_code: Callable[[str], Awaitable[None]] | None = None
    _choices: OrderedDict[tuple[Any, ...], CellSelection] = field(default_factory=OrderedDict)

    async def prepare(self, input: NotebookRunInput) -> None:
        """Choose the cells, so that the policy and the user are asked about their code. Raises ToolError."""
        self._choices.pop(astuple(input), None)
        choice = await self._choose(input)
        self._choices[astuple(input)] = choice
        while len(self._choices) > CHOICES_KEPT:
            self._choices.popitem(last=False)

    def facts(self, input: NotebookRunInput) -> dict[str, Any]:
        """The code that would run; nothing where it was not looked for."""
        choice = self._choices.get(astuple(input))
        return {} if choice is None else {"codes": [cell.source for cell in choice.cells], "cwd": kernel_folder()}

    async def preview(self, input: NotebookRunInput) -> Preview:
        choice = self._choices.get(astuple(input)) or await self._choose(input)
        display_path = shown_path(self.cwd, choice.notebook.path)
        cells = choice.cells
        code = "\n\n".join(f"# {cell_name(cell.position, cell.execution_count, '')}\n{cell.source}" for cell in cells)
        one = len(cells) == 1
        first = cells[0]
        what = cell_name(first.position, first.execution_count, first.source) if one else counted(len(cells), "cell")
        return Preview(
            f"Run {what} of {display_path} in its kernel", cells[0].source if one else code, "code", path=display_path
        )

    async def run(self, input: NotebookRunInput, ctx: ToolContext) -> ToolResult:
        asked = self._choices.pop(astuple(input), None)
        choice = await self._choose(input, with_outputs=True)
        if asked is not None and asked.key != choice.key:
            raise ToolError(
                "The cells were changed after it was asked whether they may run, so nothing was run. Call again.",
                code=ErrorCode.EXECUTION_ERROR,
            )
        on_stuck = functools.partial(self.on_stuck, ctx.tool_use_id) if self.on_stuck is not None else None
        code = functools.partial(run_code, self.shell, jobs=self.jobs, in_kernel=self.in_kernel, on_stuck=on_stuck)
        run = CellsRun(choice.notebook, choice.cells, code, ctx.progress)
        seconds = input.timeout_seconds
        if self.before_code is not None:
            for cell in choice.cells:
                await self.before_code(cell.source)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(seconds):
                await run.run()
        except TimeoutError:
            details = {"requested_timeout": seconds, "actual_execution_time": time.perf_counter() - started}
            message = f"{run.text()}\n[Interrupted after {seconds:g} s, the time limit of this call.]"
            raise ToolError(message, code=ErrorCode.EXECUTION_TIMEOUT, details=details) from None
        except ToolError as error:  # the user wants the kernel back, or it cannot run this cell here
            raise ToolError(f"{run.text()}\n{error.message}", code=error.code, details=error.details) from None
        await run.deliver()
        await run.draw()
        # scaling pictures down takes a while
        content = await asyncio.to_thread(run.content)
        display_path = shown_path(self.cwd, choice.notebook.path)
        output = NotebookRunOutput(notebook=display_path, cells=tuple(run.states()), failed=run.failed)
        return ToolResult(content, structured=output, is_error=run.failed)

    async def _choose(self, input: NotebookRunInput, *, with_outputs: bool = False) -> CellSelection:
        await self.notebooks.settled()
        notebook = self._notebook(input)
        if not notebook.live and (why := self.notebooks.refusal(notebook.path)):
            raise ToolError(f"Nothing was run. {why}", code=ErrorCode.FILE_ACCESS_ERROR)
        display_path = shown_path(self.cwd, notebook.path)
        cells = await notebook.cells(outputs=with_outputs)
        chosen = chosen_cells(cells, input, self.own_cell(), self.log, display_path)
        prompts = await self.jobs.call(lambda: [cell.id for cell in chosen if asks_claude(self.shell, cell.source)])
        if prompts:
            others = [cell.id for cell in chosen if cell.id not in prompts]
            rest = f" The others are: {', '.join(others)}." if others else ""
            raise ToolError(
                f"Nothing was run: {', '.join(prompts)} would ask Claude, and you cannot start another of your kind "
                f"from here.{rest}",
                code=ErrorCode.INVALID_PARAMETERS,
            )
        return CellSelection(notebook, tuple(chosen))

    def _notebook(self, input: NotebookRunInput) -> OpenNotebook:
        own = self.notebooks.own()
        if input.notebook_path is None:
            if own is None:
                raise ToolError(NOT_KNOWN, code=ErrorCode.FILE_NOT_FOUND)
            return own
        path = real_path(resolve_path(self.cwd, input.notebook_path))
        if own is not None and own.path == path:
            return own
        display_path = shown_path(self.cwd, path)
        mine = f"; this kernel's is {shown_path(self.cwd, own.path)}." if own is not None else f". {NOT_KNOWN}"
        raise ToolError(
            f"{display_path} is not the notebook that this kernel runs{mine} Cells of another notebook belong into its "
            "kernel; NotebookVerify runs a copy of it in a fresh one.",
            code=ErrorCode.FILE_PATH_INVALID,
        )


def notebook_run_tool(runner: Runner) -> Tool:
    """NotebookRun for one kernel."""

    @tool(
        name="NotebookRun",
        other_names=(
            "run_cell",
            "run_cells",
            "run_notebook_cell",
        ),
        has_effects=True,
        output=NotebookRunOutput,
        description=DESCRIPTION,
        access=ToolAccess("cells", "notebook_path"),
        category="notebooks",
        best_for="running cells",
        # the outputs are bounded already, piece by piece; here is room for what stands around them
        limits=ToolLimits(seconds=None, result_chars=HEAD_CHARS + TAIL_CHARS + 50_000),
        examples=EXAMPLES,
        prepare=runner.prepare,
        facts=runner.facts,
        title=_title,
        preview=runner.preview,
    )
    async def notebook_run(input: NotebookRunInput, ctx: ToolContext) -> ToolResult:
        return await runner.run(input, ctx)

    return notebook_run


_WORDS: Mapping[Which, str] = {
    "below": "the cells below",
    "above": "the cells above",
    "all": "all cells",
    "stale": "the stale cells",
}


def _title(input: NotebookRunInput) -> str:
    if (ids := input.cell_ids) is not None:
        return "Run a cell" if len(ids) == 1 else f"Run {counted(len(ids), 'cell')}"
    return f"Run {_WORDS[input.which]}" if input.which is not None else "Run cells"
