"""State that a notebook hides: cells that are not what was run, and names that no cell gives any more.

Worked out from the log of what was run and the cells as they are now, by reading their sources. Nothing is run, and
no value is looked at. Said is only what is sure: a cell that runs code in a way that cannot be read is not accused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from cellwright.kernel.namespace.cell_names import CellNames, cell_names
from cellwright.text import visible_line
from cellwright.tools.notebook.open_notebook import Cell, KernelRemarks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.namespace.cell_log import CellLog, RanCell

LISTED = 8
"""The number of cells or names of one kind that are named in a text."""

BEFORE_ALL = -(10**9)
"""An order that is below that of every run."""

_PROMPT = ("%%claude", "%claude")

Kind = Literal["never_run", "changed", "outdated", "out_of_order", "failed", "orphaned"]


class HiddenStateMark(Struct, frozen=True):
    """One thing that a cell hides. `text` says it to people and to Claude."""

    kind: Kind
    text: str


class Orphan(Struct, frozen=True):
    """A name of the namespace that no cell of the notebook gives any more. `text` says where it is from."""

    name: str
    text: str


class HiddenState(Struct, frozen=True):
    """`marks` are by cell id, in the notebook's order; cells that hide nothing are not among them."""

    marks: Mapping[str, tuple[HiddenStateMark, ...]] = field(default_factory=dict)
    orphans: tuple[Orphan, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)

    def of(self, cell_id: str) -> str:
        """The marks of a cell as one line; empty when it hides nothing."""
        return "; ".join(mark.text for mark in self.marks.get(cell_id, ()))

    def with_mark(self, *kinds: Kind) -> list[str]:
        """The ids of the cells with such a mark, in the notebook's order."""
        return [cell_id for cell_id, marks in self.marks.items() if any(mark.kind in kinds for mark in marks)]


class _CodeCell(Struct, frozen=True):
    """A code cell with what its source says, its last run, and those of its runs that the log still has, oldest first."""

    cell: Cell
    names: CellNames
    run: RanCell | None
    runs: Sequence[RanCell]

    @property
    def is_as_run(self) -> bool:
        return self.run is not None and self.run.sha256 == self.cell.sha256

    def before(self, order: int) -> RanCell | None:
        """The latest run before something that happened."""
        return next((run for run in reversed(self.runs) if run.order < order), None)

    def after(self, order: int) -> list[RanCell]:
        if self.run is None or self.run.order <= order:
            return []  # of most cells, and of a long notebook all above are asked for each
        return [run for run in self.runs if run.order > order]


class _Above:
    """The cells above one, by the names that they give and change: of a long notebook not all are asked for each."""

    def __init__(self) -> None:
        self._givers: dict[str, _CodeCell] = {}
        self._changers: dict[str, list[tuple[int, int, _CodeCell]]] = {}
        self._count = 0

    def add(self, each: _CodeCell) -> None:
        """Take in the next cell."""
        self._givers |= dict.fromkeys(each.names.bound, each)
        self._count += 1
        latest: dict[str, int] = {}
        for run in each.runs if each.run is not None else ():
            latest |= dict.fromkeys(_changed_by(run), run.order)
        for name, order in latest.items():
            changers = self._changers.setdefault(name, [])
            # who asks wants the nearest cell that ran after something: one that is nearer and ran later hides the others
            while changers and changers[-1][0] <= order:
                changers.pop()
            changers.append((order, self._count, each))

    def giver(self, name: str) -> _CodeCell | None:
        """The cell that gives a name in a run from the top: the nearest one above that binds it."""
        return self._givers.get(name)

    def changer(self, names: frozenset[str], order: int) -> _CodeCell | None:
        """The nearest cell that changed one of `names` in a run after `order`."""
        found = (
            next((changer for changer in reversed(self._changers.get(name, ())) if changer[0] > order), None)
            for name in names
        )
        nearest = max(filter(None, found), key=lambda changer: changer[1], default=None)
        return None if nearest is None else nearest[2]


def _changed_by(run: RanCell) -> set[str]:
    return {*run.new, *run.rebound, *run.deleted, *cell_names(run.source or "").changed}


def hidden_state(cells: Sequence[Cell], log: CellLog, names: Iterable[str]) -> HiddenState:
    """Find what `cells`, all of a notebook as they are now, hide. `names` are those of the user's namespace."""
    known = _known(cells, log)
    orphans = tuple(_orphans(known, log, frozenset(names)))
    marks = {}
    above = _Above()
    gone = frozenset(orphan.name for orphan in orphans)
    for each in known:
        found = [*_marks(each, above)]
        if used := sorted(each.names.used & gone):
            listed = ", ".join(f"`{visible_line(name)}`" for name in used[:LISTED])
            found.append(HiddenStateMark("orphaned", f"uses {listed}, which no cell defines any more"))
        if found:
            marks[each.cell.id] = tuple(found)
        above.add(each)
    return HiddenState(marks, orphans, {cell.id: cell.position + 1 for cell in cells})


def stale_cells(cells: Sequence[Cell], log: CellLog) -> list[str]:
    """The cells to run so that what was run is what stands there: changed, outdated, and what reads a name of theirs.

    Only cells that ran before are among them; in the notebook's order.
    """
    known = _known(cells, log)
    stale: dict[str, None] = {}
    above = _Above()
    for each in known:
        if each.run is not None:
            givers = (above.giver(name) for name in _read(each.names))
            reruns = any(giver is not None and giver.cell.id in stale for giver in givers)
            if reruns or any(mark.kind in ("changed", "outdated") for mark in _marks(each, above)):
                stale[each.cell.id] = None
        above.add(each)
    return list(stale)


def hidden_state_text(state: HiddenState) -> str:
    """Describe what is hidden, in a few lines for Claude; empty when nothing is."""
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


def kernel_remarks(shell: InteractiveShell, log: CellLog, cells: Sequence[Cell]) -> KernelRemarks:
    """Collect what the kernel of a notebook says of its cells."""
    # a copy, because other threads may bind names meanwhile
    state = hidden_state(cells, log, shell.user_ns.copy())
    names = [f"{each.name} ({each.text})" for each in state.orphans]
    of_all = next(_listed("In the kernel, but from no cell", names, ", "), "")
    return KernelRemarks({cell_id: state.of(cell_id) for cell_id in state.marks}, of_all)


def _listed(what: str, found: Sequence[str], between: str) -> Iterator[str]:
    if found:
        more = f"{between}and {len(found) - LISTED} more" if len(found) > LISTED else ""
        yield f"{what}: {between.join(found[:LISTED])}{more}."


def _known(cells: Sequence[Cell], log: CellLog) -> list[_CodeCell]:
    """The code cells that are no prompts and not empty; prompts do not run again what they did."""
    by_id: dict[str, list[RanCell]] = {}
    # before the log began, and where no front end names cells, a run is known by its source
    by_source: dict[str, list[RanCell]] = {}
    for run in log.runs(since=BEFORE_ALL):
        runs, key = (by_source, run.sha256) if run.cell_id is None else (by_id, run.cell_id)
        runs.setdefault(key, []).append(run)
    found = []
    for cell in cells:
        source = cell.source.strip()
        if cell.cell_type != "code" or not source or source.startswith(_PROMPT):
            continue
        named = by_id.get(cell.id, [])
        last = log.last_run(cell.id)
        runs_of = named if named or last is not None else by_source.get(cell.sha256, [])
        found.append(_CodeCell(cell, cell_names(cell.source), last or next(reversed(runs_of), None), runs_of))
    return found


def _marks(each: _CodeCell, above: _Above) -> Iterator[HiddenStateMark]:
    run = each.run
    if run is None:
        yield HiddenStateMark("never_run", "not run in this kernel")
        return
    if run.success is None and run.started:
        return  # it is running now
    if not each.is_as_run:
        yield HiddenStateMark("changed", "stale: the source changed after it ran")
    elif outdated := _outdated(each, above):
        name, giver = outdated
        yield HiddenStateMark(
            "outdated", f"stale: cell {giver} has defined `{visible_line(name)}` differently since it ran"
        )
    elif later := _later(each, above):
        name, other = later
        yield HiddenStateMark(
            "out_of_order", f"out of order: cell {other} above it ran after it and changed `{visible_line(name)}`"
        )
    if run.success is False:
        yield HiddenStateMark("failed", "its last run failed")


def _outdated(each: _CodeCell, above: _Above) -> tuple[str, str] | None:
    """A name that the cell has read and that the cell it is from gives differently now; and that cell's id."""
    assert each.run is not None
    order = each.run.order
    for name in sorted(_read(each.names)):
        giver = above.giver(name)
        if giver is None or not giver.is_as_run:
            continue
        before, after = giver.before(order), giver.after(order)
        # the same source may give the same again: only another one surely does not
        if after and (before is None or before.sha256 != after[-1].sha256):
            return name, giver.cell.id
    return None


def _later(each: _CodeCell, above: _Above) -> tuple[str, str] | None:
    """A name that the cell uses and that a cell above it has changed after it ran; and that cell's id."""
    assert each.run is not None
    if (other := above.changer(each.names.used, each.run.order)) is None:
        return None
    for run in reversed(other.after(each.run.order)):
        if touched := _changed_by(run) & each.names.used:
            return min(touched), other.cell.id
    return None


def _read(names: CellNames) -> frozenset[str]:
    """Return the names a cell takes from others. Those that it binds itself may be read after that."""
    return names.used - names.bound


def _orphans(known: Sequence[_CodeCell], log: CellLog, names: frozenset[str]) -> Iterator[Orphan]:
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
