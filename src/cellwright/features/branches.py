"""Two features: branches for a turn, and variables that Claude's code changed brought back with the turn's files and cells.

One snapshot a turn is taken when Claude first needs it, and each agent has one branch of it. A snapshot shows the kernel as
it was when it was taken. Code that Claude runs in the kernel itself makes it old: the next branch begins from a new one.
The user's own cells do not: what Claude explores stays as it was, and says of when it is.

A copy of the kernel from before the turn's first code has its variables. It lives until the next turn begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from cellwright.agent.calls.tool_names import access_of
from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext, text_context
from cellwright.config.settings.option_table import BRANCHES
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.kernel_copies import (
    NO_BRANCH_LEFT,
    STAY,
    BranchInUse,
    ForkedKernel,
    KernelVariables,
    ListedBranch,
    OneBranch,
    Snapshot,
    UsedBranch,
    VariablesPlan,
)
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, RunEnd, SubagentEvent, ToolStart
from cellwright.sessions.session import Session
from cellwright.text import visible_line

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Confinement
    from cellwright.conversation.runs.run import Run
    from cellwright.sessions.session import Session

FIRST_USE = (
    "Claude tries things in a confined copy of your kernel: no writes, no network; it can read all variables. "
    "/branches shows the copies."
)

CHANGES_THE_KERNEL = frozenset({"python", "cells"})
"""Kinds of access whose calls change the kernel itself."""

Turn = tuple[str, int]
"""A session's id and the number of a turn in it, as checkpoints count."""

NO_COPY = "Variables stay as they are: the copy of the kernel from before a turn's code is kept until the next prompt."


class KernelCopies(Feature):
    """The branches of one conversation. `fork` makes what forks the kernel; it is called with the first branch.

    All of it on the agent's loop.
    """

    def __init__(self, in_force: SettingsInForce, fork: Callable[[], ForkedKernel]) -> None:
        self._in_force = in_force
        self._fork = fork
        self._kernel: ForkedKernel | None = None
        self._asked_for: str | None = None
        self._is_current = False
        """The snapshot is of this turn, and Claude has changed nothing in the kernel since."""
        self._snapshotting = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}
        self._used: dict[str, OneBranch] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._told = False
        self._at_work = 0
        self._is_turn = False
        """The run is no dry run."""
        self._of_claude = ""
        """The session of the last run, by which Claude's own branch goes."""
        self._tasks: dict[str, str] = {}
        """The descriptions of the calls that started agents, by their ids."""
        self._agents: dict[str, str] = {}
        """The agents' descriptions, by the sessions by which their branches go."""

    @property
    def setting(self) -> str:
        """`on`, `ask` or `off`: the strictest of what the settings and the prompt's options say."""
        said = (self._in_force.settings.branches, self._asked_for or "on")
        return max(said, key=BRANCHES.index)

    @property
    def is_open(self) -> bool:
        return self._kernel is not None

    def begin(self, run: RunInfo) -> None:
        self._is_turn = run.kind.keeps
        if self._is_turn:
            self._asked_for = run.options.branches
            self._of_claude = run.session.id

    async def before_run(self, session: Session) -> None:
        if self._kernel is not None and self._is_turn:
            await asyncio.gather(*self._ending)
            await self._kernel.turn_ended()

    def run_added(self, run: Run) -> None:
        run.bus.subscribe(self._on_event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, SubagentEvent):
            self._agents[event.agent_id] = self._tasks.get(event.tool_use_id) or event.agent_type
            event = event.event
        elif isinstance(event, RunEnd) and self._kernel is not None:
            self._is_current = False
            self._used.clear()
            self._turns.clear()
            ending = asyncio.get_running_loop().create_task(self._kernel.turn_ended(self._of_claude))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        if isinstance(event, ToolStart):
            self._tasks |= {
                call.id: visible_line(str(call.tool_use["input"].get("description", "")))
                for call in event.calls
                if call.name == "Agent"
            }
            if any(access_of(call.name).kind in CHANGES_THE_KERNEL for call in event.calls):
                self._is_current = False

    @contextlib.asynccontextmanager
    async def use(self, owner: str, confinement: Confinement | None) -> AsyncIterator[UsedBranch]:
        """Give the branch of `owner` to one call at a time. Raises what the kernel raises if it cannot be forked."""
        async with self._turns.setdefault(owner, asyncio.Lock()):
            kernel = await self._current_kernel()
            self._at_work += 1
            try:
                branch = await kernel.branch(owner, confinement)
                is_new = self._used.get(owner) is not branch
                self._used[owner] = branch
                yield UsedBranch(branch, _words(branch.taken, is_new=is_new))
            finally:
                self._at_work -= 1

    @contextlib.asynccontextmanager
    async def own(self, owner: str) -> AsyncIterator[UsedBranch | None]:
        """Give the branch that `owner` has now to one question; None if it has none."""
        async with self._turns.setdefault(owner, asyncio.Lock()):
            branch = self._used.get(owner)
            if branch is None or not branch.alive:
                yield None
                return
            self._at_work += 1
            try:
                yield UsedBranch(branch, _words(branch.taken, is_new=False))
            finally:
                self._at_work -= 1

    async def _current_kernel(self, *, anew: bool = False) -> ForkedKernel:
        async with self._snapshotting:
            if self._kernel is None:
                self._kernel = self._fork()
            if anew:
                self._is_current = False
                if self._at_work:
                    raise BranchInUse
            # who is at work in a branch keeps it: it ends with the snapshot
            if not self._is_current and not self._at_work:
                await self._kernel.snapshot(or_by_value=not anew)
                self._is_current = True
            return self._kernel

    @contextlib.asynccontextmanager
    async def between_turns(self) -> AsyncIterator[ForkedKernel]:
        """Give the kernel with a snapshot of now, for a command of the user's; Claude's next branch begins with a new one.

        Whoever makes branches there ends them. Raises BranchInUse, and what the kernel raises if it cannot be forked.
        """
        kernel = await self._current_kernel(anew=True)
        self._at_work += 1
        try:
            yield kernel
        finally:
            self._at_work -= 1
            self._is_current = False

    def first_use(self) -> str:
        """The line that the user sees with the first confined branch; "" from then on."""
        line, self._told = ("" if self._told else FIRST_USE), True
        return line

    def listing(self) -> Sequence[ListedBranch]:
        """The branches that are there."""
        return () if self._kernel is None else self._kernel.listing()

    def templates(self) -> Sequence[ListedBranch]:
        """The processes that wait for branches to which variables are given, with names in the place of owners."""
        return () if self._kernel is None else self._kernel.templates()

    def whose(self, owner: str) -> str:
        """Say to whom a branch belongs: "Claude", or what an agent was started for."""
        return "Claude" if owner == self._of_claude else self._agents.get(owner, "")

    async def stop(self, name: str) -> bool:
        """End the branch of the owner `name`, or the process of that name; False if there is none."""
        if self._kernel is None or all(each.owner != name for each in (*self.listing(), *self.templates())):
            return False
        await self._kernel.end(name)
        return True

    async def take(self, name: str, new_name: str) -> str:
        """Give the kernel a variable of the branch that rests since Claude's last turn; return how large it is.

        Raises CellwrightError EXECUTION_ERROR.
        """
        await asyncio.gather(*self._ending)
        if self._kernel is None:
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, NO_BRANCH_LEFT)
        return await self._kernel.take(self._of_claude, name, new_name)

    async def close(self) -> None:
        if self._kernel is not None:
            await self._kernel.close()
            self._kernel = None


def _words(taken: Snapshot, *, is_new: bool) -> str:
    """Say of when the variables are.

    >>> class Taken:
    ...     at, cell, by_value = 0.0, "before cell [7]", ""
    >>> _words(Taken(), is_new=True).endswith(", before cell [7]")
    True
    """
    if taken.by_value:
        return (
            f"{taken.by_value} So this is a process with the kernel's imports, which gets the variables that the code "
            "names by value, as they are when it first names them"
        )
    place = f", {taken.cell}" if taken.cell else ""
    when = time.strftime("%H:%M", time.localtime(taken.at))
    return f"{'New branch: y' if is_new else 'Y'}our variables as of {when}{place}"


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
