"""What a notebook does not say of its kernel: cells that are not what was run, and names that no cell gives any more.

Worked out from the log of what was run and the cells as they are now, by reading their sources. Nothing is run, and no
value is looked at. Said is only what is sure: a cell that runs code in a way that cannot be read is not accused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cellwright.kernel.cell_names import CellNames, cell_names
from cellwright.tools.open_notebook import Cell, Remarks
from cellwright.visible_text import visible_line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.cell_log import CellLog, RanCell

LISTED = 8
"""How many cells or names of one kind are named in a text."""

BEFORE_ALL = -(10**9)
"""An order that is below that of every run."""

_PROMPT = ("%%claude", "%claude")

Kind = Literal["never_run", "changed", "outdated", "out_of_order", "failed"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that a cell hides. `text` says it to people and to Claude."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """A name of the namespace that no cell of the notebook gives any more. `text` says where it is from."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class HiddenState:
    """`marks` are by cell id, in the notebook's order; cells that hide nothing are not among them."""

    marks: Mapping[str, tuple[Mark, ...]] = field(default_factory=dict)
    orphans: tuple[Orphan, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)

    def of(self, cell_id: str) -> str:
        """The marks of a cell as one line; empty when it hides nothing."""
        return "; ".join(mark.text for mark in self.marks.get(cell_id, ()))

    def with_mark(self, *kinds: Kind) -> list[str]:
        """The ids of the cells with such a mark, in the notebook's order."""
        return [cell_id for cell_id, marks in self.marks.items() if any(mark.kind in kinds for mark in marks)]


@dataclass(frozen=True, slots=True)
class _Known:
    """A code cell with what its source says, and its last run."""

    cell: Cell
    names: CellNames
    run: RanCell | None

    @property
    def is_as_run(self) -> bool:
        return self.run is not None and self.run.sha256 == self.cell.sha256


def hidden_state(cells: Sequence[Cell], log: CellLog, names: Iterable[str]) -> HiddenState:
    """What `cells`, all of a notebook as they are now, hide. `names` are those of the user's namespace."""
    known = _known(cells, log)
    marks = {}
    for index, each in enumerate(known):
        if found := tuple(_marks(each, known[:index])):
            marks[each.cell.id] = found
    orphans = tuple(_orphans(known, log, frozenset(names)))
    return HiddenState(marks, orphans, {cell.id: cell.position + 1 for cell in cells})


def stale_cells(cells: Sequence[Cell], log: CellLog) -> list[str]:
    """The cells to run so that what was run is what stands there: changed, outdated, and what reads a name of theirs.

    Only cells that ran before are among them; in the notebook's order.
    """
    known = _known(cells, log)
    stale: list[str] = []
    for index, each in enumerate(known):
        if each.run is None:
            continue
        above = known[:index]
        reruns = any(
            giver is not None and giver.cell.id in stale
            for giver in (_giver(name, above) for name in _read(each.names))
        )
        if reruns or any(mark.kind in ("changed", "outdated") for mark in _marks(each, above)):
            stale.append(each.cell.id)
    return stale


def hidden_state_text(state: HiddenState) -> str:
    """What is hidden, in a few lines for Claude; empty when nothing is."""
    lines: list[str] = []
    for kinds, what in (
        (("changed", "outdated"), "Stale"),
        (("out_of_order",), "Out of order"),
        (("failed",), "Failed"),
    ):
        found = [
            f"cell {cell_id} (number {state.numbers[cell_id]}): {mark.text}"
            for cell_id, marks in state.marks.items()
            for mark in marks
            if mark.kind in kinds
        ]
        lines += _listed(what, found, "; ")
    never = [f"{cell_id} (number {state.numbers[cell_id]})" for cell_id in state.with_mark("never_run")]
    lines += _listed("Not run in this kernel", never, ", ")
    lines += _listed("In the kernel, but from no cell", [f"{each.name} ({each.text})" for each in state.orphans], ", ")
    return "\n".join(lines)


def kernel_remarks(shell: InteractiveShell, log: CellLog, cells: Sequence[Cell]) -> Remarks:
    """What the kernel of a notebook says of its cells."""
    # a copy, because other threads may bind names meanwhile
    state = hidden_state(cells, log, shell.user_ns.copy())
    names = [f"{each.name} ({each.text})" for each in state.orphans]
    of_all = next(_listed("In the kernel, but from no cell", names, ", "), "")
    return Remarks({cell_id: state.of(cell_id) for cell_id in state.marks}, of_all)


def _listed(what: str, found: Sequence[str], between: str) -> Iterator[str]:
    if found:
        more = f"{between}and {len(found) - LISTED} more" if len(found) > LISTED else ""
        yield f"{what}: {between.join(found[:LISTED])}{more}."


def _known(cells: Sequence[Cell], log: CellLog) -> list[_Known]:
    """The code cells that are no prompts and not empty; prompts do not run again what they did."""
    # before the log began, and where no front end names cells, a run is known by its source
    nameless = {run.sha256: run for run in log.runs(since=BEFORE_ALL) if run.cell_id is None}
    found = []
    for cell in cells:
        source = cell.source.strip()
        if cell.cell_type != "code" or not source or source.startswith(_PROMPT):
            continue
        run = log.last_run(cell.id) or nameless.get(cell.sha256)
        found.append(_Known(cell, cell_names(cell.source), run))
    return found


def _marks(each: _Known, above: Sequence[_Known]) -> Iterator[Mark]:
    run = each.run
    if run is None:
        yield Mark("never_run", "not run in this kernel")
        return
    if run.success is None and run.started:
        return  # it is running now
    if not each.is_as_run:
        yield Mark("changed", "stale: the source changed after it ran")
    elif outdated := _outdated(each, above):
        name, giver = outdated
        yield Mark("outdated", f"stale: it read `{visible_line(name)}`, which cell {giver} has set anew since")
    if later := [other for other in above if other.run is not None and other.run.order > run.order]:
        latest = max(later, key=lambda other: other.run.order if other.run is not None else 0)
        yield Mark("out_of_order", f"out of order: cell {latest.cell.id} above it ran after it")
    if run.success is False:
        yield Mark("failed", "its last run failed")


def _outdated(each: _Known, above: Sequence[_Known]) -> tuple[str, str] | None:
    """A name that the cell has read and that the cell it is from has set since; and that cell's id."""
    assert each.run is not None
    for name in sorted(_read(each.names)):
        giver = _giver(name, above)
        if giver is not None and giver.run is not None and giver.is_as_run and giver.run.order > each.run.order:
            return name, giver.cell.id
    return None


def _read(names: CellNames) -> frozenset[str]:
    """What a cell takes from others. What it binds itself may be read after that."""
    return names.used - names.bound


def _giver(name: str, above: Sequence[_Known]) -> _Known | None:
    """The cell that gives a name in a run from the top: the nearest one above that binds it."""
    return next((other for other in reversed(above) if name in other.names.bound), None)


def _orphans(known: Sequence[_Known], log: CellLog, names: frozenset[str]) -> Iterator[Orphan]:
    given = frozenset().union(*(each.names.bound for each in known))
    by_id = {each.cell.id: each for each in known}
    bindings = log.bindings()
    sources = {run.order: run.source or "" for run in log.runs()}
    for name in sorted(names & bindings.keys() - given):
        binding = bindings[name]
        if binding.cell_id is None:
            if binding.by == "claude":
                yield Orphan(name, "made by Claude's Python")
            continue
        source = by_id.get(binding.cell_id)
        if source is None:
            yield Orphan(name, f"its cell {binding.cell_id} is gone")
        elif not source.is_as_run or name in cell_names(sources.get(binding.order, "")).bound:
            yield Orphan(name, f"cell {binding.cell_id} no longer defines it")
