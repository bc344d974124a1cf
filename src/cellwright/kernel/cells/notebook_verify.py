"""The tool `NotebookVerify`: run the notebook from the top in a fresh kernel, and compare it with what it shows.

A `Verification` says whether the notebook reproduces, and where it first does not.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import astuple, replace

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.thread import CallerJobs
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.features.numbers.in_notebook import NotebookNumbers, finding_line, notebook_numbers
from cellwright.kernel.cells.cell_outputs import Difference, bounded, difference
from cellwright.kernel.cells.fresh_kernel import FreshCell, FreshResult, run_fresh
from cellwright.kernel.magic.input_rewrite import asks_claude
from cellwright.kernel.namespace.hidden_state import hidden_state, hidden_state_text
from cellwright.text import counted, lazy_pattern
from cellwright.tools.files.changes import in_thread
from cellwright.tools.inputs import MIN_SECONDS
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell, OpenNotebook, OpenNotebooks
from cellwright.tools.paths import not_found, real_path, resolve_path, shown_path
from cellwright.tools.process.runner import child_environment

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.namespace.cell_log import CellLog

LISTED = 10
NUMBERS_LISTED = 30
_WORD = lazy_pattern(r"\w+")

WHY = {
    "timeout": "the cell took longer than {cell_seconds:g} s",
    "time": "the whole took longer than {seconds:g} s",
    "died": "the kernel died",
}


class NotebookVerifyOutput(ToolOutput):
    """The comparison's outcome: how many code cells ran, and the first that differs, by its `id` and `what` differs.

    `numbers` are those of Markdown cells and answers that are stale or not found: `kind`, `cell`, `line`, `text`, `because`.
    """

    notebook: str
    reproduces: bool
    ran: int
    seconds: float
    first_difference: dict[str, str] | None
    numbers: tuple[dict[str, Any], ...] = ()


class CellDifference(Struct, frozen=True):
    """The difference between a cell's outputs and the notebook's."""

    cell: Cell
    difference: Difference


class Verification(Struct, frozen=True):
    """The comparison. `cells` ran or were to run, in order; `prompts` were left out because they ask Claude.

    `withheld` are environment variables that the fresh kernel did not have and the notebook may have failed for want of.
    """

    display_path: str
    kernel: str
    cells: Sequence[Cell]
    prompts: Sequence[Cell]
    result: FreshResult
    seconds: float
    cell_seconds: float
    differences: Sequence[CellDifference] = ()
    uncompared: Sequence[Cell] = ()
    hidden: str = ""
    not_run: Sequence[Cell] = field(default=())
    withheld: Sequence[str] = ()
    numbers: NotebookNumbers | None = None

    @property
    def fresh(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        """The outputs of the fresh run by cell id, but for those too large to be compared."""
        found = {self.cells[index].id: outputs for index, outputs in self.result.outputs.items()}
        return {cell_id: outputs for cell_id, outputs in found.items() if outputs is not None}

    @property
    def reproduces(self) -> bool:
        return not self.differences and not self.not_run and self.result.stopped is None

    @property
    def _failed(self) -> list[Cell]:
        return [self.cells[index] for index in sorted(self.result.failed)]

    def text(self) -> str:
        """The answer for Claude."""
        return "\n".join(self._lines())

    def output(self) -> NotebookVerifyOutput:
        """The answer for programs."""
        first = self.differences[0] if self.differences else None
        findings = () if self.numbers is None else self.numbers.findings
        return NotebookVerifyOutput(
            notebook=self.display_path,
            reproduces=self.reproduces,
            ran=len(self.result.outputs),
            seconds=round(self.result.seconds, 3),
            first_difference=None if first is None else {"id": first.cell.id, "what": first.difference.what},
            numbers=tuple(
                {"kind": each.kind, "cell": each.cell, "line": each.line, "text": each.text, "because": each.because}
                for each in findings
            ),
        )

    def _lines(self) -> Iterator[str]:
        ran = (
            f"{counted(len(self.result.outputs), 'code cell')} of {self.display_path} "
            f"ran in a fresh kernel ({self.kernel})"
        )
        took = f"in {self.result.seconds:.1f} s"
        nothing = " (it runs; the notebook has no outputs to compare with)"
        yes = f"yes{nothing if len(self.uncompared) == len(self.cells) else ''}"
        yield f"Reproduces from clean: {yes if self.reproduces else 'no'}. {ran} {took}."
        if self.differences:
            first = self.differences[0]
            yield f"First difference: cell {_named(first.cell)}: {first.difference.what}."
            yield f"--- in the notebook\n{bounded(first.difference.was) or '(nothing)'}"
            yield f"--- from clean\n{bounded(first.difference.now) or '(nothing)'}\n---"
        if self.result.stopped is not None and not self.result.begun:
            yield f"The fresh kernel did not start in {self.result.seconds:.0f} s."
        elif self.result.stopped is not None:
            why = WHY[self.result.why].format(cell_seconds=self.cell_seconds, seconds=self.seconds)
            yield f"The run ended in cell {_named(self.cells[self.result.stopped])}: {why}."
        elif self.not_run and not any(each.cell in self._failed for each in self.differences):
            yield f"The run ended in cell {_named(self._failed[-1])}, which fails as it does in the notebook."
        if self.withheld:
            yield (
                "The fresh kernel did not have these environment variables, since they may hold secrets: "
                f"{', '.join(self.withheld)}. The failure may be for want of them: then it says nothing about the notebook."
            )
        more = [f"{_named(each.cell)}: {each.difference.what}" for each in self.differences[1:]]
        yield from _listed("Further differences", more, "; ")
        yield from _listed("Not run", list(map(_named, self.not_run)))
        yield from _listed("Not compared, since the notebook has no run of them", list(map(_named, self.uncompared)))
        yield from _listed("Left out, since they ask Claude", list(map(_named, self.prompts)))
        if self.hidden:
            yield f"What the kernel of the notebook hides:\n{self.hidden}"
        yield from self._of_numbers()

    def _of_numbers(self) -> Iterator[str]:
        """Yield the numbers of texts that are stale, or that no output holds."""
        if self.numbers is None or not self.numbers.findings:
            return
        yield f"Numbers in Markdown cells and answers ({self.numbers.summary}):"
        found = self.numbers.findings
        yield from (f"- {finding_line(each)} (id {each.cell})" for each in found[:NUMBERS_LISTED])
        if len(found) > NUMBERS_LISTED:
            yield f"… and {len(found) - NUMBERS_LISTED} more"


def verified(
    display_path: str,
    kernel: str,
    cells: Sequence[Cell],
    prompts: Sequence[Cell],
    result: FreshResult,
    *,
    seconds: float,
    cell_seconds: float,
    hidden: str = "",
    withheld: Sequence[str] = (),
) -> Verification:
    """Compare what `cells` gave in the fresh run with the outputs that they have in the notebook."""
    differences, uncompared = [], []
    for index, cell in enumerate(cells):
        if index not in result.outputs:
            continue
        if cell.execution_count is None and not cell.outputs:
            uncompared.append(cell)
            # an error of a cell that the notebook says nothing about is a difference all the same
            found = difference((), result.outputs[index] or ()) if index in result.failed else None
        elif (now := result.outputs[index]) is None:
            found = Difference("the outputs are too large to be compared", "", "")
        else:
            found = difference(cell.outputs, now)
        if found is not None:
            differences.append(CellDifference(cell, found))
    ended = max((index for index in result.outputs), default=-1)
    begun = max(ended, result.stopped if result.stopped is not None and result.begun else -1)
    return Verification(
        display_path,
        kernel,
        cells,
        prompts,
        result,
        seconds,
        cell_seconds,
        differences,
        uncompared,
        hidden,
        cells[begun + 1 :],
        _wanted(withheld, cells, result),
    )


def _wanted(withheld: Sequence[str], cells: Sequence[Cell], result: FreshResult) -> list[str]:
    """Those of the withheld variables that the code, or the error in which it ended, names."""
    if not result.failed:
        return []
    errors = [json.dumps(result.outputs[index], default=str) for index in result.failed]
    words = set(_WORD.findall("\n".join([*(cell.source for cell in cells), *errors])))
    return sorted(words.intersection(withheld))


def _named(cell: Cell) -> str:
    return f"{cell.id} (number {cell.position + 1})"


def _listed(what: str, found: Sequence[str], between: str = ", ") -> Iterator[str]:
    if found:
        more = f"{between}and {len(found) - LISTED} more" if len(found) > LISTED else ""
        yield f"{what}: {between.join(found[:LISTED])}{more}."


SECONDS = 600
CELL_SECONDS = 300
MAX_SECONDS = 7_200
DEFAULT_KERNEL = "python3"

DESCRIPTION = """\
Find out whether a notebook reproduces: a copy of it (as the user sees it now, unsaved changes included) is run from \
the top in a fresh kernel, and the outputs of each cell are compared with those in the notebook.
- The answer is "Reproduces from clean: yes" or "no", with the first difference, both sides of it, and what else differs. \
Addresses and how long things took do not count; dates, random numbers and pictures do.
- The run ends at the first cell that fails. Cells that ask Claude are left out.
- Neither the notebook nor this kernel is changed, but the code does whatever it does outside (files, network).
- Use it after cells were edited or moved, when state may be hidden, or before a notebook is handed on."""


class NotebookVerifyInput(ToolInput):
    """The input of NotebookVerify."""

    notebook_path: (
        Annotated[str, Meta(min_length=1, description="The notebook; without it the one that this kernel runs.")] | None
    ) = None
    timeout_seconds: Annotated[
        int,
        Meta(ge=MIN_SECONDS, le=MAX_SECONDS, description=f"Seconds the whole run may take, {SECONDS} by default."),
    ] = SECONDS
    cell_timeout_seconds: Annotated[
        int,
        Meta(ge=MIN_SECONDS, le=MAX_SECONDS, description=f"Seconds one cell may take, {CELL_SECONDS} by default."),
    ] = CELL_SECONDS


EXAMPLES: tuple[dict[str, Any], ...] = ({}, {"notebook_path": "analysis.ipynb", "timeout_seconds": 1800})


class _Plan(Struct, frozen=True):
    """The cells that would run, as they were when they were judged."""

    notebook: OpenNotebook
    cells: tuple[Cell, ...]
    prompts: frozenset[str]

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The facts that must still hold when it runs."""
        return str(self.notebook.path), tuple((cell.id, cell.sha256) for cell in self.running)

    @property
    def running(self) -> list[Cell]:
        return [cell for cell in self.code if cell.id not in self.prompts]

    @property
    def code(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.cell_type == "code" and cell.source.strip()]


class Verifier(Struct):
    """The state shared by one kernel's calls. `in_place_of(cell)` runs for a cell that asks Claude; None: skip it."""

    shell: InteractiveShell
    jobs: CallerJobs
    notebooks: OpenNotebooks
    log: CellLog
    cwd: Path
    environ: Mapping[str, str]
    in_place_of: Callable[[Cell], str | None] = lambda _cell: None  # a cell that asks Claude is not run
    _plans: OrderedDict[tuple[Any, ...], _Plan] = field(default_factory=OrderedDict)

    async def prepare(self, input: NotebookVerifyInput) -> None:
        """Read the cells, so that the policy and the user are asked about their code. Raises ToolError."""
        self._plans.pop(astuple(input), None)
        plan = await self._plan(input)
        self._plans[astuple(input)] = plan
        while len(self._plans) > 20:
            self._plans.popitem(last=False)

    def facts(self, input: NotebookVerifyInput) -> dict[str, Any]:
        """The code that would run; nothing where it was not looked for."""
        plan = self._plans.get(astuple(input))
        if plan is None:
            return {}
        return {"codes": [cell.source for cell in plan.running], "cwd": str(plan.notebook.path.parent)}

    async def preview(self, input: NotebookVerifyInput) -> Preview:
        plan = self._plans.get(astuple(input)) or await self._plan(input)
        display_path = shown_path(self.cwd, plan.notebook.path)
        code = "\n\n".join(f"# cell {cell.position + 1}\n{cell.source}" for cell in plan.running)
        title = f"Run a copy of {display_path} ({counted(len(plan.running), 'cell')}) in a fresh kernel"
        return Preview(title, code, "code", path=display_path)

    async def verify(self, input: NotebookVerifyInput, ctx: ToolContext) -> ToolResult:
        asked = self._plans.pop(astuple(input), None)
        plan = await self._plan(input)
        if asked is not None and asked.key != plan.key:
            raise ToolError("The notebook was changed after it was asked whether it may run. Call again.")
        hidden = await self._hidden(plan)
        kernel = await in_thread(lambda _: named_kernel(plan.notebook.path))
        sources = {cell.id: self.in_place_of(cell) if cell.id in plan.prompts else cell.source for cell in plan.code}
        runs = {cell_id: source for cell_id, source in sources.items() if source is not None}
        cells = [cell for cell in plan.code if cell.id in runs]

        def begins(index: int) -> None:
            message = f"Cell {cells[index].position + 1} ({index + 1} of {len(cells)})"
            ctx.progress(message=message, fraction=index / len(cells))

        verification = await run_and_compare(
            shown_path(self.cwd, plan.notebook.path),
            cells,
            left_out=[cell for cell in plan.code if cell.id not in runs],
            sources=runs,
            kernel=kernel,
            cwd=plan.notebook.path.parent,
            environ=self.environ,
            cell_seconds=input.cell_timeout_seconds,
            seconds=input.timeout_seconds,
            begins=begins,
            hidden=hidden,
            confinement=ctx.confinement,
        )
        folder = plan.notebook.path.parent
        numbers = await in_thread(lambda _: notebook_numbers(plan.cells, folder=folder, fresh=verification.fresh))
        verification = replace(verification, numbers=numbers)
        return ToolResult(verification.text(), structured=verification.output())

    async def _plan(self, input: NotebookVerifyInput) -> _Plan:
        await self.notebooks.settled()
        notebook = self._notebook(input)
        cells = await notebook.cells()
        code = [cell for cell in cells if cell.cell_type == "code"]
        prompts = await self.jobs.call(
            lambda: frozenset(cell.id for cell in code if asks_claude(self.shell, cell.source))
        )
        plan = _Plan(notebook, tuple(cells), prompts)
        if not plan.running:
            raise ToolError(f"{notebook.path.name} has no code to run.", code=ErrorCode.INVALID_PARAMETERS)
        return plan

    def _notebook(self, input: NotebookVerifyInput) -> OpenNotebook:
        own = self.notebooks.own()
        if input.notebook_path is None:
            if own is None:
                message = "Which notebook this kernel runs is not known here. Give notebook_path."
                raise ToolError(message, code=ErrorCode.FILE_NOT_FOUND)
            return own
        path = resolve_path(self.cwd, input.notebook_path)
        real = real_path(path)
        if (opened := self.notebooks.at(real)) is not None:
            return opened
        display_path = shown_path(self.cwd, path)
        if not real.exists():
            raise not_found(path, display_path)
        if real.suffix.lower() != ".ipynb":
            raise ToolError(f"{display_path} is not a notebook (.ipynb).", code=ErrorCode.FILE_PATH_INVALID)
        return FileNotebook(real)

    async def _hidden(self, plan: _Plan) -> str:
        own = self.notebooks.own()
        if own is None or own.path != plan.notebook.path:
            return ""
        names = list(self.shell.user_ns)
        return await in_thread(lambda _: hidden_state_text(hidden_state(plan.cells, self.log, names)))


async def run_and_compare(
    display_path: str,
    cells: Sequence[Cell],
    *,
    left_out: Sequence[Cell],
    kernel: str,
    cwd: Path,
    environ: Mapping[str, str],
    cell_seconds: float,
    seconds: float,
    begins: Callable[[int], object],
    sources: Mapping[str, str] | None = None,
    hidden: str = "",
    confinement: Confinement | None = None,
) -> Verification:
    """Run `cells` in a fresh `kernel` in the folder `cwd`, with other `sources` by id if given; compare their outputs.

    Raises ToolError if there is no such kernel.
    """
    source_of = {cell.id: cell.source for cell in cells} if sources is None else sources
    result = await run_fresh(
        [FreshCell(source_of[cell.id], "raises-exception" in (cell.metadata.get("tags") or ())) for cell in cells],
        kernel=kernel,
        cwd=cwd,
        environ=environ,
        cell_seconds=cell_seconds,
        seconds=seconds,
        begins=begins,
        confinement=confinement,
    )
    # pictures are decoded
    return await in_thread(
        lambda _: verified(
            display_path,
            kernel,
            cells,
            left_out,
            result,
            seconds=seconds,
            cell_seconds=cell_seconds,
            hidden=hidden,
            withheld=sorted(environ.keys() - child_environment(environ).keys()),
        )
    )


def notebook_verify_tool(verifier: Verifier) -> Tool:
    """NotebookVerify for one kernel."""

    @tool(
        name="NotebookVerify",
        rarely_used=True,
        has_effects=True,
        output=NotebookVerifyOutput,
        description=DESCRIPTION,
        access=ToolAccess("fresh_kernel", "notebook_path"),
        category="notebooks",
        best_for="a fresh run of all",
        limits=ToolLimits(seconds=None, result_chars=20_000),
        examples=EXAMPLES,
        prepare=verifier.prepare,
        facts=verifier.facts,
        title=lambda input: f"Run {input.notebook_path or 'this notebook'} in a fresh kernel",
        preview=verifier.preview,
    )
    async def notebook_verify(input: NotebookVerifyInput, ctx: ToolContext) -> ToolResult:
        return await verifier.verify(input, ctx)

    return notebook_verify


def named_kernel(path: Path) -> str:
    """Return the name of the kernel that the notebook's file wants."""
    try:
        content = json.loads(path.read_bytes())
        name = content["metadata"]["kernelspec"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return DEFAULT_KERNEL
    return name if isinstance(name, str) and name else DEFAULT_KERNEL
