"""What a run of the whole notebook in a fresh kernel says of it: does it reproduce, and where first not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cellwright.kernel.cells.compare_outputs import Difference, bounded, difference
from cellwright.kernel.cells.fresh_kernel import FreshResult
from cellwright.tools.notebook.open_notebook import Cell
from cellwright.tools.schema import counted

LISTED = 10

WHY = {
    "timeout": "the cell took longer than {cell_seconds:g} s",
    "time": "the whole took longer than {seconds:g} s",
    "died": "the kernel died",
}


@dataclass(frozen=True, slots=True)
class CellDifference:
    """Where a cell's outputs are not the notebook's."""

    cell: Cell
    difference: Difference


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison. `cells` ran or were to run, in order; `prompts` were left out because they ask Claude.

    `error` is the text of the error that ended the run, of the cell `ended_at`.
    """

    shown: str
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

    @property
    def reproduces(self) -> bool:
        return not self.differences and not self.not_run and self.result.stopped is None

    @property
    def _failed(self) -> list[Cell]:
        return [self.cells[index] for index in sorted(self.result.failed)]

    def text(self) -> str:
        """The answer for Claude."""
        return "\n".join(self._lines())

    def display(self) -> dict[str, Any]:
        """The answer for the views."""
        first = self.differences[0] if self.differences else None
        return {
            "notebook": self.shown,
            "reproduces": self.reproduces,
            "ran": len(self.result.outputs),
            "first_difference": None if first is None else {"id": first.cell.id, "what": first.difference.what},
        }

    def _lines(self) -> Iterator[str]:
        ran = f"{counted(len(self.result.outputs), 'code cell')} of {self.shown} ran in a fresh kernel ({self.kernel})"
        took = f"in {self.result.seconds:.1f} s"
        nothing = " (it runs; the notebook has no outputs to compare with)"
        yes = f"yes{nothing if len(self.uncompared) == len(self.cells) else ''}"
        yield f"Reproduces from clean: {yes if self.reproduces else 'no'}. {ran} {took}."
        if self.differences:
            yield from _first(self.differences[0])
        if self.result.stopped is not None and not self.result.begun:
            yield f"The fresh kernel did not start in {self.result.seconds:.0f} s."
        elif self.result.stopped is not None:
            why = WHY[self.result.why].format(cell_seconds=self.cell_seconds, seconds=self.seconds)
            yield f"The run ended in cell {_named(self.cells[self.result.stopped])}: {why}."
        elif self.not_run and not any(each.cell in self._failed for each in self.differences):
            yield f"The run ended in cell {_named(self._failed[-1])}, which fails as it does in the notebook."
        more = [f"{_named(each.cell)}: {each.difference.what}" for each in self.differences[1:]]
        yield from _listed("Further differences", more, "; ")
        yield from _listed("Not run", list(map(_named, self.not_run)))
        yield from _listed("Not compared, since the notebook has no run of them", list(map(_named, self.uncompared)))
        yield from _listed("Left out, since they ask Claude", list(map(_named, self.prompts)))
        if self.hidden:
            yield f"What the kernel of the notebook hides:\n{self.hidden}"


def verified(
    shown: str,
    kernel: str,
    cells: Sequence[Cell],
    prompts: Sequence[Cell],
    result: FreshResult,
    *,
    seconds: float,
    cell_seconds: float,
    hidden: str = "",
) -> Verification:
    """Compare what `cells` gave in the fresh run with the outputs that they have in the notebook."""
    differences, uncompared = [], []
    for index, cell in enumerate(cells):
        if index not in result.outputs:
            continue
        if cell.execution_count is None and not cell.outputs:
            uncompared.append(cell)
            found = _new_error(result, index)
        else:
            found = _compared(cell, result.outputs[index])
        if found is not None:
            differences.append(CellDifference(cell, found))
    ended = max((index for index in result.outputs), default=-1)
    begun = max(ended, result.stopped if result.stopped is not None and result.begun else -1)
    return Verification(
        shown,
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
    )


def _compared(cell: Cell, now: Sequence[Mapping[str, Any]] | None) -> Difference | None:
    if now is None:
        return Difference("the outputs are too large to be compared", "", "")
    return difference(cell.outputs, now)


def _new_error(result: FreshResult, index: int) -> Difference | None:
    """An error of a cell that the notebook says nothing about is a difference all the same."""
    return difference((), result.outputs[index] or ()) if index in result.failed else None


def _first(first: CellDifference) -> Iterator[str]:
    yield f"First difference: cell {_named(first.cell)}: {first.difference.what}."
    yield f"--- in the notebook\n{bounded(first.difference.was) or '(nothing)'}"
    yield f"--- from clean\n{bounded(first.difference.now) or '(nothing)'}\n---"


def _named(cell: Cell) -> str:
    return f"{cell.id} (number {cell.position + 1})"


def _listed(what: str, found: Sequence[str], between: str = ", ") -> Iterator[str]:
    if found:
        more = f"{between}and {len(found) - LISTED} more" if len(found) > LISTED else ""
        yield f"{what}: {between.join(found[:LISTED])}{more}."
