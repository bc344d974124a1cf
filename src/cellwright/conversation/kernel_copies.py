"""Copies of a kernel as features ask for them: branches, the variables of before a turn, code that runs again, previews.

Protocols and records. A host that runs in a kernel implements them (`kernel/branches`); features use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Confinement
    from cellwright.agent.tool import Tool

NO_BRANCH_LEFT = (
    "There is no branch to take a variable from: that of Claude's last turn is kept until your next prompt, if the turn had "
    "one and memory is not short. /branches run CALL runs the code of a call in your kernel."
)

STAY = "Variables stay as they are."


class Snapshot(Protocol):
    """A copy of the kernel that waits: when it was taken (seconds since the epoch), and where among the user's cells.

    `by_value` is why there is none, a sentence: branches are given the variables that their code names.
    """

    @property
    def at(self) -> float: ...
    @property
    def cell(self) -> str: ...
    @property
    def by_value(self) -> str: ...


class OneBranch(Protocol):
    """A branch: a process with the variables of its snapshot, in which code runs."""

    @property
    def taken(self) -> Snapshot: ...
    @property
    def alive(self) -> bool: ...
    async def ask(
        self, function: str, arguments: object, descriptors: Sequence[int] = (), *, timeout: float
    ) -> Any: ...


class ListedBranch(Protocol):
    """A branch in a list: whose it is, since when (seconds since the epoch), its own bytes, whether code runs in it."""

    @property
    def owner(self) -> str: ...
    @property
    def since(self) -> float: ...
    @property
    def memory(self) -> int: ...
    @property
    def running(self) -> bool: ...


class ForkedKernel(Protocol):
    """A kernel that can be forked (`kernel/branches`)."""

    async def snapshot(self, *, or_by_value: bool = False) -> Snapshot: ...
    async def branch(self, owner: str, confinement: Confinement | None) -> OneBranch: ...
    def listing(self) -> Sequence[ListedBranch]: ...
    def templates(self) -> Sequence[ListedBranch]: ...
    async def end(self, name: str) -> None: ...
    async def turn_ended(self, resting: str = "") -> None: ...
    async def take(self, owner: str, name: str, new_name: str) -> str: ...
    async def close(self) -> None: ...


class BranchInUse(Exception):
    """Somebody is at work in a branch, which a new snapshot would end."""


class UsedBranch(Struct, frozen=True):
    """A branch that a call has for itself. `words` say of when its variables are, and whether it is new."""

    branch: OneBranch
    words: str


class VariableChange(Struct, frozen=True):
    """A variable that an undo changes. `text` says how; `refused` why it stays ("": it does not).

    `conflict`: it stays only because the user's own cells changed it since.
    """

    name: str
    text: str
    refused: str = ""
    conflict: bool = False


class VariablesPlan(Struct, frozen=True):
    """The variables that an undo changes; `note` says why it leaves them alone, as a sentence."""

    changes: tuple[VariableChange, ...] = ()
    note: str = ""

    @property
    def coming_back(self) -> list[VariableChange]:
        return [change for change in self.changes if not change.refused]

    @property
    def left(self) -> list[VariableChange]:
        return [change for change in self.changes if change.refused]

    @property
    def conflicts(self) -> bool:
        return any(change.conflict for change in self.changes)


class KernelVariables(Protocol):
    """The variables of a kernel that can be forked (`kernel/branches/undo.py`)."""

    @property
    def why_not(self) -> str: ...
    async def before_code(self, source: str) -> None: ...
    async def begin(self) -> None: ...
    async def plan(self, *, force: bool) -> VariablesPlan: ...
    async def apply(self, plan: VariablesPlan) -> list[str]: ...
    async def close(self) -> None: ...


class Step(Struct, frozen=True):
    """Code that ran as one piece: a call of Claude's, or a cell, whose `id` it has; `name` is for a reader."""

    id: str
    name: str
    code: str


class CannotRerun(Exception):
    """The kernel cannot be copied; the reason is a sentence for the user."""


class Ran(Struct, frozen=True):
    """The end of one piece of code: its output as Claude would get it. `problem`: why it did not come to its end, or ""."""

    text: str
    problem: str = ""


class Copies(Protocol):
    """Copies of the kernel as it is at one moment; `words` say of what kind, in the plural.

    `asks`: why the user must agree before any code runs in them; "" if nothing is at risk.
    """

    @property
    def words(self) -> str: ...
    @property
    def asks(self) -> str: ...
    async def run(self, codes: Sequence[str], seconds: float) -> Sequence[Ran]:
        """Run the pieces of code one after another in a new copy, which ends with them; those not run are not listed."""
        ...


class KernelCode(Protocol):
    """The kernel: how it is copied to run `codes`, and the cells that ran in it, each as it ran last, oldest first.

    `copies` raises CannotRerun.
    """

    def copies(self, codes: Sequence[str]) -> AbstractAsyncContextManager[Copies]: ...
    def cells(self) -> Sequence[Step]: ...


class CopiedFiles(Protocol):
    """The copy of the project's files that a preview works on (`features/preview/staged.py`)."""

    @property
    def root(self) -> Path: ...
    def staged(self, path: str | Path) -> Path | None: ...
    def in_project(self, text: str) -> str: ...
    def name_of(self, path: Path) -> str: ...
    def refusal(self, path: Path) -> str: ...


class Variable(Protocol):
    """A variable that the preview's code has changed (`kernel/branches/taken_values.py`)."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def why_not(self) -> str: ...


class CellOutputsKept(Protocol):
    """The outputs that the preview's own runs of cells gave, by notebook and cell: of these sources, made passive."""

    def get(self, key: tuple[str, str]) -> tuple[str, tuple[Mapping[str, Any], ...]] | None: ...


class PreviewKernel(Protocol):
    """The copy of the kernel that a preview works in (`kernel/execute/preview_kernel.py`)."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def looking(self) -> Tool: ...
    @property
    def outputs(self) -> CellOutputsKept: ...
    @property
    def codes(self) -> Sequence[str]: ...
    @property
    def problem(self) -> str: ...
    def refusal(self) -> str: ...
    def still(self) -> AbstractAsyncContextManager[None]: ...
    async def begin(self, tree: CopiedFiles) -> str: ...
    async def variables(self) -> Sequence[Variable]: ...
    async def take(self, names: Sequence[str]) -> Mapping[str, str]: ...
    async def close(self) -> None: ...


class KernelParts(Struct, frozen=True):
    """The parts of a kernel that features of its conversation need. `fork` is None if its system cannot fork it.

    `fork`, `variables` and `preview` make what they name, the same `fork` for all; `code` runs code again.
    """

    code: Callable[[], KernelCode]
    fork: Callable[[], ForkedKernel] | None
    variables: Callable[[], KernelVariables]
    preview: Callable[[], PreviewKernel]
