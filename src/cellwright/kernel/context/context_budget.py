"""News of the notebook as text for a prompt: the newest and most useful first, as much as the budget holds.

Everything that does not fit is counted, so that Claude knows that there is more and how to look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cellwright.text import code_fence, counted
from cellwright.tools.notebook.open_notebook import Cell

if TYPE_CHECKING:
    from cellwright.kernel.namespace.cell_log import RanCell

SOURCE_CHARS = 1_200
"""Of one cell's source; two thirds from its beginning, the rest from its end."""

HEAD_CHARS = 300
"""The most characters a cell takes besides its source."""

LINE_CHARS = 300
NAMES_CHARS = 600

ERROR_SHARE, HIDDEN_SHARE, VARIABLES_SHARE = 0.2, 0.12, 0.35
"""The parts of the budget that these may take at most; cells get the rest."""


class ContextFacts(Struct, frozen=True):
    """The facts to tell. `first`: nothing was told of this kernel before, so all of it is news.

    `runs` and `variables` (name, line) are the newest first. `cell_id` is the prompt's cell and `position` where it stands,
    from 1, of `total`; 0 where not known. `hidden` and `whole` are texts that are told as they are.
    """

    first: bool = False
    runs: tuple[RanCell, ...] = ()
    failure: RanCell | None = None
    variables: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    deleted: tuple[str, ...] = ()
    cell_id: str = ""
    position: int = 0
    total: int = 0
    hidden: str = ""
    whole: str = ""

    @property
    def anything(self) -> bool:
        """True when there is anything to tell."""
        return bool(
            self.runs or self.variables or self.names or self.deleted or self.cell_id or self.hidden or self.whole
        )

    def with_notebook(self, *, cell_id: str, cells: Sequence[Cell], hidden: str, whole: str) -> ContextFacts:
        """These facts with what the notebook as it stands adds to them."""
        position = next((cell.position + 1 for cell in cells if cell.id == cell_id), 0) if cell_id else 0
        return replace(self, cell_id=cell_id, position=position, total=len(cells), hidden=hidden, whole=whole)


@dataclass(slots=True, eq=False, repr=False)
class Budget:
    """So many characters; what is taken is gone."""

    chars: int
    whole: int = field(init=False)

    def __post_init__(self) -> None:
        self.whole = self.chars

    def take(self, text: str, share: float = 1.0) -> str:
        """`text`, or its beginning where it is more than is left or than `share` of the whole budget."""
        room = max(min(self.chars, round(self.whole * share)), 0)
        kept = text if len(text) <= room else _cut(text, room)
        self.chars -= len(kept)
        return kept

    def holds(self, text: str) -> bool:
        """Return whether all of `text` fits; then it is taken."""
        if len(text) > self.chars:
            return False
        self.chars -= len(text)
        return True


def context_text(facts: ContextFacts, budget: Budget) -> str:
    """The text; never longer than the budget, but for the sentence about what was left out."""
    parts = [budget.take(_position_text(facts))]
    if facts.failure is not None:
        parts.append(budget.take(f"The cell {_named(facts.failure)} failed:\n{facts.failure.error}", ERROR_SHARE))
    if facts.hidden:
        parts.append(budget.take(f"State of the notebook:\n{facts.hidden}", HIDDEN_SHARE))
    variables, more_variables = _variables(facts, budget)
    parts.append(variables)
    cells, more_cells = _cells(facts, budget)
    parts.append(cells)
    if facts.whole:
        parts.append(budget.take(facts.whole))
    left = [
        counted(number, what) for number, what in ((more_cells, "older cell"), (more_variables, "variable")) if number
    ]
    if left:
        parts.append(f"[Left out: {' and '.join(left)}; NotebookRead and Variables or Python show them.]")
    return "\n\n".join(part for part in parts if part)


def _position_text(facts: ContextFacts) -> str:
    if not facts.cell_id:
        return ""
    where = f", number {facts.position} of {facts.total}" if facts.position else ""
    return f"This prompt is in the cell {facts.cell_id}{where}."


def _variables(facts: ContextFacts, budget: Budget) -> tuple[str, int]:
    """The variables as text, and how many were left out."""
    room = Budget(round(budget.whole * VARIABLES_SHARE))
    lines = []
    left = 0
    for name, line in facts.variables:
        text = f"{name}: {_cut(line, LINE_CHARS)}\n"
        if left or not line or not room.holds(text):
            left += 1
        else:
            lines.append(text)
    for what, names in facts.names:
        listed = _cut(f"{what}: {', '.join(names)}", NAMES_CHARS)
        if room.holds(listed):
            lines.append(f"{listed}\n")
    if facts.deleted:
        lines.append(_cut(f"deleted: {', '.join(facts.deleted)}", NAMES_CHARS))
    if not lines:
        return "", left
    title = "Variables:" if facts.first else "Variables that are new or changed:"
    return budget.take(f"{title}\n{''.join(lines)}".rstrip("\n")), left


def _cells(facts: ContextFacts, budget: Budget) -> tuple[str, int]:
    """The cells as text, the newest first, and how many were left out."""
    latest = list(_latest(facts.runs))
    title = (
        "Cells that were run, the newest first:" if facts.first else "Cells the user has run since, the newest first:"
    )
    texts: list[str] = []
    for index, (run, times) in enumerate(latest):
        # of the newest cell at least a part is told
        text = _cell(run, times, SOURCE_CHARS if index else min(SOURCE_CHARS, budget.chars - HEAD_CHARS))
        if not budget.holds(f"{text}\n"):
            return "\n".join([title, *texts] if texts else []), len(latest) - index
        texts.append(text)
    return "\n".join([title, *texts] if texts else []), 0


def _latest(runs: Iterable[RanCell]) -> Iterator[tuple[RanCell, int]]:
    """The newest run of each cell and how often it was run; runs that have no id stand for themselves."""
    newest: dict[object, tuple[RanCell, int]] = {}
    for run in runs:
        key = run.cell_id or run.order
        kept, times = newest.get(key, (run, 0))
        newest[key] = (kept, times + 1)
    yield from newest.values()


def _cell(run: RanCell, times: int, source_chars: int) -> str:
    how = {True: "", False: ", failed", None: ""}[run.success]
    often = f", run {times} times" if times > 1 else ""
    took = f", {run.ended - run.started:.0f} s" if run.started and run.ended - run.started >= 1 else ""
    source = run.source if run.source is not None else "(its source is no longer kept)"
    shown = middle_cut(source.strip(), source_chars)
    fence = code_fence(shown)
    return f"{_named(run)}{how}{often}{took}\n{fence}\n{shown}\n{fence}"


def _named(run: RanCell) -> str:
    count = f"In[{run.execution_count}]" if run.execution_count else "In[ ]"
    return f"{count} ({run.cell_id})" if run.cell_id else count


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 1, 0)]}…"[: max(room, 0)]


def middle_cut(text: str, room: int) -> str:
    """`text` without its middle when it is longer than `room`."""
    if len(text) <= room:
        return text
    head, tail = max(room, 0) * 2 // 3, max(room, 0) // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[len(text) - tail :]}"
