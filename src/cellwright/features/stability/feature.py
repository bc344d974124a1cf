"""The feature of `/stability`, which no run asks anything: the test is made when the user asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cellwright.conversation.kernel_copies import KernelCode, Step
    from cellwright.features.stability.report import StabilityReport
    from cellwright.features.stability.rerun import Chooser, Confirm, Wish
    from cellwright.sessions.session import Session


class Stability:
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
