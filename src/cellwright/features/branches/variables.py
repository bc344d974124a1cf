"""The feature: variables that Claude's code changed in a turn are brought back with the turn's files and cells.

A copy of the kernel from before the turn's first code has them. It lives until the next turn begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext, text_context
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.kernel_copies import STAY, KernelVariables, VariablesPlan
from cellwright.sessions.session import Session

Turn = tuple[str, int]
"""A session's id and the number of a turn in it, as checkpoints count."""

NO_COPY = "Variables stay as they are: the copy of the kernel from before a turn's code is kept until the next prompt."


class UndoneVariables(Feature):
    """The variables of the last turn that ran code in the kernel. All of it on the agent's loop.

    `turn` is the one that runs; None if turns cannot be undone. `is_on` is asked before a copy is made.
    """

    in_dry_runs = False

    def __init__(
        self, make: Callable[[], KernelVariables], turn: Callable[[], Turn | None], is_on: Callable[[], bool]
    ) -> None:
        self._make = make
        self._turn_now = turn
        self._is_on = is_on
        self._kernel: KernelVariables | None = None
        self._turn: Turn | None = None
        self._told: list[str] = []

    @property
    def turn(self) -> Turn | None:
        """The turn whose code may have changed variables, if these can be brought back."""
        return None if self._kernel is None or self._kernel.why_not else self._turn

    @property
    def why_not(self) -> str:
        """The reason why no copy was made in the last turn, as a sentence; "" if there was none."""
        return "" if self._kernel is None or not self._kernel.why_not else f"{STAY} {self._kernel.why_not}"

    @property
    def is_open(self) -> bool:
        return self._kernel is not None

    async def before_run(self, session: Session) -> None:
        self._turn = None
        if self._kernel is not None:
            await self._kernel.begin()

    async def before_code(self, source: str) -> None:
        """Code of Claude's is about to run in the kernel: the first of a turn waits until a copy is made."""
        turn = self._turn_now()
        if turn is None or not self._is_on():
            return
        if self._kernel is None:
            self._kernel = self._make()
        if turn != self._turn:
            await self._kernel.begin()
            self._turn = turn
        await self._kernel.before_code(source)

    async def plan(self, turns: Sequence[Turn], *, force: bool) -> VariablesPlan | None:
        """Plan the undo of `turns`; None if none of them is the one that is known."""
        if self._kernel is None or self._turn is None or self._turn not in turns:
            return None
        return await self._kernel.plan(force=force)

    async def apply(self, plan: VariablesPlan) -> list[str]:
        """Bring the variables back; gives what could not be done."""
        assert self._kernel is not None, "a plan without a kernel"
        failed = await self._kernel.apply(plan)
        if not failed:
            self._told = [change.text for change in plan.coming_back]
            self._turn = None
        return failed

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider | None:
        if not self._told:
            return None

        async def provide(_: PromptContext) -> ContextItems:
            told, self._told = self._told, []
            lines = "\n".join(told)
            text = f"<undo>\nThe user has undone your changes of variables in the kernel:\n{lines}\n</undo>"
            return ContextItems(before=(text_context("The undone variables", "context", text),))

        return provide

    async def close(self) -> None:
        if self._kernel is not None:
            await self._kernel.close()
            self._kernel = None
