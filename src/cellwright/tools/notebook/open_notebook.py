"""A notebook as its user sees it: cells read and changed by their ids, wherever the notebook is.

Open in a front end it is the live document there, unsaved changes included; else it is the file. A change of a cell
names the source it was made from: if the cell has another by then, nothing is changed (`CellConflict`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import visible_line

Output = Mapping[str, Any]
"""An output as nbformat 4 has it, texts joined."""

CellType = Literal["code", "markdown", "raw"]


class Cell(Struct, frozen=True, kw_only=True):
    """One cell as it is now. `id` names it: its own, or `cell-N` (N from 0) in a file whose cells have none."""

    id: str
    cell_type: str
    source: str
    position: int
    """From 0."""
    execution_count: int | None = None
    outputs: tuple[Output, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    attachments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The hash that `expect` is compared with."""
        return source_sha256(self.source)


class CellPosition(Struct, frozen=True):
    """The place of a cell: before or after the cell `anchor_id`, or at the start or end of the notebook."""

    where: Literal["before", "after", "start", "end"]
    anchor_id: str = ""


class Replace(Struct, frozen=True, kw_only=True):
    """Another source, type, or both for a cell; None: it stays. `expect` is the sha256 of the source it was made from.

    A code cell whose source or type changes loses outputs and execution count, unless `outputs` says which it has then.
    """

    cell_id: str
    expect: str
    source: str | None = None
    cell_type: CellType | None = None
    outputs: tuple[Output, ...] | None = None
    execution_count: int | None = None
    attachments: Mapping[str, Any] | None = None
    """None: they stay, where the type can have any."""


class Insert(Struct, frozen=True, kw_only=True):
    """A new cell. `cell_id` is wanted for it: for one that comes back; where it is taken or empty, it gets another."""

    place: CellPosition
    cell_type: CellType
    source: str
    cell_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    attachments: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    execution_count: int | None = None


class Delete(Struct, frozen=True, kw_only=True):
    """A cell goes, as long as its source has the sha256 `expect`."""

    cell_id: str
    expect: str


class Move(Struct, frozen=True, kw_only=True):
    """A cell goes to another place."""

    cell_id: str
    place: CellPosition


CellChange = Replace | Insert | Delete | Move


class ChangedCell(Struct, frozen=True, kw_only=True):
    """The outcome of a change, read back: the cell before (None: it is new) and after (None: it is gone), whole.

    `position` is where it is then, or where it was when it is gone.
    """

    change: CellChange
    id: str
    position: int
    before: Cell | None
    after: Cell | None


class Conflict(Struct, frozen=True):
    """A cell that is not what a change was made from. `now` is its source, None when it is gone."""

    cell_id: str
    expected: str
    now: str | None


class CellConflict(ToolError):
    """Nothing was changed: cells have other sources than the changes were made from. `conflicts` has what they hold."""

    def __init__(self, display_path: str, conflicts: Sequence[Conflict]) -> None:
        names = ", ".join(conflict.cell_id for conflict in conflicts)
        super().__init__(
            f"Somebody else has changed cell {names} of {display_path} "
            f"since it was read. Nothing was changed. Read it again.",
            code=ErrorCode.FILE_ACCESS_ERROR,
            details={"conflicts": [{"cell_id": each.cell_id, "now": each.now} for each in conflicts]},
        )
        self.conflicts = tuple(conflicts)


class OutputPlace(Struct, frozen=True):
    """An output of a cell, counted from 0. `kinds` are its MIME types, by which it is known again."""

    cell_id: str
    index: int
    kinds: tuple[str, ...]


class DrawnOutput(Struct, frozen=True, kw_only=True):
    """An output as a page draws it: base64, or with empty `data` the `problem`, which is empty if nothing is drawn there."""

    data: str = ""
    media_type: str = "image/png"
    note: str = ""
    problem: str = ""


class KernelRemarks(Struct, frozen=True):
    """A kernel's knowledge of its notebook, beside what the cells hold: by cell id, and of the whole."""

    of_cells: Mapping[str, str] = field(default_factory=dict)
    of_all: str = ""


class OpenNotebook(Protocol):
    """A notebook as its user sees it. Methods are called on the agent's loop; what cannot be done is a ToolError."""

    @property
    def path(self) -> Path:
        """The notebook's file, a real path."""

    @property
    def live(self) -> bool:
        """True when open in a front end: changes are seen at once, can be undone there, and are not on disk yet."""

    @property
    def where(self) -> str:
        """Its place in words: `JupyterLab`, `Jupyter Notebook` or `the file`."""

    async def cells(self, *, outputs: bool = True) -> list[Cell]:
        """All cells as they are now; without `outputs` in no more time than their sources take."""

    async def change(self, changes: Sequence[CellChange]) -> list[ChangedCell]:
        """Make all changes, one after another, as one step that can be undone, or none of them; then read them back.

        Places and ids are meant as the changes before have left them. A new cell's `ChangedCell` says its id. Raises
        CellConflict.
        """

    async def put_outputs(
        self,
        cell_id: str,
        *,
        expect: str | None,
        outputs: Sequence[Output],
        execution_count: int | None = None,
        clear: bool = False,
        running: bool = False,
    ) -> None:
        """Add `outputs` to a code cell's (streams go on where the last one ended), or put them in their place (`clear`).

        `running` shows it as `[*]`, as far as it can be shown; else it gets `execution_count`. `expect` is the sha256 of
        the source that gave them; None: whatever the cell holds now. No step of its own to undo. Raises CellConflict.
        """

    async def pictures(self, places: Sequence[OutputPlace]) -> list[DrawnOutput]:
        """Pictures of outputs as the user's page draws them, one for each place. Takes seconds at most."""


class OpenNotebooks(Protocol):
    """The notebooks that there are to be seen. From any thread."""

    def own(self) -> OpenNotebook | None:
        """The notebook that this kernel runs; None where it cannot be known."""

    def at(self, path: Path) -> OpenNotebook | None:
        """The notebook at `path`, where it is open in a front end; None: what is in the file is all there is."""

    def refusal(self, path: Path) -> str:
        """Say why the file at `path` must not be changed behind a front end's back; empty if nobody has it open."""

    def remarks(self, cells: Sequence[Cell]) -> KernelRemarks:
        """Collect what to say of `cells`, all of the kernel's own notebook. Takes a moment: for a worker thread."""

    async def settled(self) -> None:
        """Wait until what is open is known: a kernel hears of it soon after Cellwright was loaded."""

    async def displayed(self, keys: Sequence[str]) -> list[DrawnOutput]:
        """Pictures of what code displayed a moment ago, as the user's page draws it: one for each `display_key`."""


class NothingOpen:
    """The open notebooks where there is no kernel: none."""

    def own(self) -> OpenNotebook | None:
        return None

    def at(self, _path: Path) -> OpenNotebook | None:
        return None

    def refusal(self, _path: Path) -> str:
        return ""

    def remarks(self, _cells: Sequence[Cell]) -> KernelRemarks:
        return KernelRemarks()

    async def settled(self) -> None:
        return

    async def displayed(self, keys: Sequence[str]) -> list[DrawnOutput]:
        return [DrawnOutput(problem="no page shows it")] * len(keys)


def cell_name(position: int | None, execution_count: object, source: str) -> str:
    """The cell as its user sees it: `cell [3]` by the number beside it; by its first line if it has none.

    `position`: from 0, which names a cell without number and text; None for one that is not in the notebook now.

    Everything that people read names cells this way; what Claude reads has their ids.

    >>> cell_name(3, 7, "radius = 2"), cell_name(3, None, "radius = 2")
    ('cell [7]', 'cell “radius = 2”')
    """
    if execution_count:
        return f"cell [{execution_count}]"
    # of the line that names a cell that has not run
    first = visible_line(source.strip().partition("\n")[0], 40)
    if first:
        return f"cell “{first}”"
    return "a cell" if position is None else f"cell {position + 1}"


def source_sha256(source: str) -> str:
    """Hash a cell's source for where it is compared."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
