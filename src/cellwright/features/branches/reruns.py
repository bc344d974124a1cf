"""Code that ran before, again in copies of the kernel: what a host gives for it, and the feature of `/stability`.

The test itself (`features/stability`) is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from cellwright.conversation.features.feature import Feature

if TYPE_CHECKING:
    from cellwright.features.stability.report import StabilityReport
    from cellwright.features.stability.rerun import Chooser, Confirm, Wish
    from cellwright.features.stability.steps import Step
    from cellwright.sessions.session import Session


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


class Stability(Feature):
    """The stability of the answers of one conversation. `kernel` gives what copies the kernel. On the agent's loop."""

    def __init__(self, kernel: Callable[[], KernelCode]) -> None:
        self._kernel = kernel
        self._chooser: Chooser | None = None

    async def test(
        self,
        session: Session,
        wish: Wish,
        *,
        approve: Callable[[str, Sequence[Step]], Awaitable[bool]],
        confirm: Confirm,
        progress: Callable[[str], None],
    ) -> StabilityReport | None:
        """Test the numbers of an answer; as `rerun_on_perturbed_data`."""
        from cellwright.features.stability.rerun import Chooser, rerun_on_perturbed_data  # few answers are tested

        if self._chooser is None:
            self._chooser = Chooser()
        return await rerun_on_perturbed_data(
            self._kernel(), session, wish, self._chooser, approve=approve, confirm=confirm, progress=progress
        )
