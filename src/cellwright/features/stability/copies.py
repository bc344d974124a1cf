"""The means of a host for code that runs again: copies of its kernel, and the cells that ran there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from cellwright.features.stability.steps import Step


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
