"""The spending of a run against its budget, and against those that hold for more than one run.

Each is asked before a request is sent: what the request can cost at worst is set aside until it is over, so that
requests at the same time, those of other processes included, do not pass a budget together.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.agent.run_errors import budget_spent, price_unknown
from cellwright.agent.spending.spending_file import Reservation, SpendingFile, Spent
from cellwright.errors import CellwrightError
from cellwright.events import HookSpending, TextDelta, ThinkingDelta, ToolInputDelta
from cellwright.model.pricing import add_usage, cost_usd, worst_case_usd
from cellwright.model.provider import BlockEnd, MessageStart
from cellwright.sessions.session_lines import MIN_CHARS_PER_TOKEN

if TYPE_CHECKING:
    from cellwright.sessions.session import Session


SMALLEST_ANSWER = 256
"""Tokens: what a budget must still pay for, else the run stops before the request."""

POLL_SECONDS = 0.3
"""The time between two looks whether another process has come to the end of its request."""

CHARS_BETWEEN_NOTES = 2_000
"""The part of an answer that may stream before it is noted again what it has cost."""


class PartialUsage:
    """Follows an answer from its `MessageStart`. The API says only at its end how much output was written."""

    def __init__(self) -> None:
        self._start: MessageStart | None = None
        self._chars = 0

    def begin(self, start: MessageStart) -> None:
        self._start, self._chars = start, 0

    def add(self, event: BlockEnd | TextDelta | ThinkingDelta | ToolInputDelta) -> None:
        if not isinstance(event, BlockEnd):  # which repeats what its deltas said
            self._chars += len(event.partial_json if isinstance(event, ToolInputDelta) else event.text)

    def end(self) -> None:
        """It arrived: its own usage says what it cost."""
        self._start = None

    @property
    def is_open(self) -> bool:
        """True when an answer has begun that has not ended."""
        return self._start is not None

    def so_far(self) -> tuple[dict[str, Any], float | None] | None:
        """Usage (its output estimated) and cost of the open answer as far as it came; None when none is open."""
        start = self._start
        if start is None:
            return None
        written = max(start.usage.get("output_tokens") or 0, math.ceil(self._chars / MIN_CHARS_PER_TOKEN))
        usage = {**start.usage, "output_tokens": written}
        return usage, cost_usd(start.model, usage)

    def lost(self) -> tuple[dict[str, Any], float | None] | None:
        """The same of an answer that broke off, told once."""
        lost, self._start = self.so_far(), None
        return lost


class Budget(Struct, frozen=True):
    """An amount in US dollars that `whose` spending ("day", "" for the run's own) must not pass; `set_by` says where."""

    usd: float
    whose: str = ""
    set_by: str = ""


class CountedFile(Struct, frozen=True):
    """A file in which a run counts what it spends, and the budget of all who count there."""

    file: SpendingFile
    budget: Budget | None = None


class SharedBudgets(Struct, frozen=True):
    """The budgets beyond the run: of its session, and of those that the `files` are for."""

    session: Budget | None = None
    files: tuple[CountedFile, ...] = ()


NO_SHARED_BUDGETS = SharedBudgets()


@dataclass(frozen=True, kw_only=True, eq=False)
class RunLimits:
    """The bounds of a run, and of its calls.

    `max_turns` bounds its requests, `budget_usd` its cost in US dollars, `shared_budgets` that of more than one run.
    `ends_when_denied`: if nobody can be asked, a call that needs it ends the run; else Claude is told of the denial and
    continues. `max_parallel_tools` calls that read run at the same time; `tool_timeout` (seconds) bounds every call,
    besides the tool's own limit.
    """

    max_turns: int | None = None
    budget_usd: float | None = None
    shared_budgets: SharedBudgets = NO_SHARED_BUDGETS
    ends_when_denied: bool = False
    max_parallel_tools: int = 10
    tool_timeout: float | None = None


USUAL_LIMITS = RunLimits()


class _Room(Struct, frozen=True):
    """The output tokens that the next request may have. `others` have set aside what would give it more."""

    tokens: int
    others: bool = False
    budget: Budget | None = None
    spent_usd: float = 0.0


class Spending:
    """The spending of one run on `model`, its tools' own requests, its agents' and lost answers included.

    `cost_usd` is None where a price is not known. `model` is the one that the next request goes to. `within` is the
    spending of the run that an agent works for: its budgets count for all of them together, so that requests at the same
    time may have to wait for each other.
    """

    def __init__(
        self,
        model: str,
        session: Session,
        budget_usd: float | None,
        within: Spending | None = None,
        shared: SharedBudgets = NO_SHARED_BUDGETS,
    ) -> None:
        self.usage: dict[str, Any] = {}
        self.cost_usd: float | None = 0.0
        self.requests = 0
        self.sent = 0
        """Requests that went out, those that were tried again among them."""
        self.side_requests = 0
        self.hook_models: dict[str, HookSpending] = {}
        self.budget_usd = budget_usd
        self.model = model
        self._session = session
        self._within = within
        self._shared = shared
        self._reserved: dict[Spending, float] = {}
        self._released = asyncio.Event()
        self._in_files: list[Reservation] = []
        self._answer = PartialUsage()
        self._chars_to_note = 0
        self._short: _Room | None = None
        self._least, self._more_tokens = SMALLEST_ANSWER, 0

    @property
    def whole(self) -> Spending:
        """The spending that this is part of, or itself: that of the run which the user began."""
        return self if self._within is None else self._within.whole

    def count(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that becomes a message of the session."""
        self.usage = add_usage(self.usage, usage)
        both = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = self.cost_usd + cost_usd if both else None  # type: ignore[operator]
        if self._within is not None:
            self._within.count_side_request(usage, cost_usd)
        elif cost_usd:
            for counted in self._shared.files:
                counted.file.add(cost_usd)

    def count_side_request(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer to a tool or a hook."""
        self.side_requests += 1
        self.count_lost(usage, cost_usd)

    def count_hook_request(self, model: str, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer of `model` to a hook, and what its answers come to."""
        self.count_side_request(usage, cost_usd)
        before = self.hook_models.get(model, HookSpending())
        known = before.cost_usd is not None and cost_usd is not None
        both = before.cost_usd + cost_usd if known else None  # type: ignore[operator]
        self.hook_models[model] = HookSpending(add_usage(before.usage, usage), both)

    def count_lost(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that becomes no message; the session remembers it with its next line."""
        self.count(usage, cost_usd)
        self._session.spend(usage, cost_usd)

    def left(self) -> float | None:
        """US dollars; None without a budget."""
        whole = self.whole
        left = [] if whole.budget_usd is None else [whole.budget_usd - (whole.cost_usd or 0.0)]
        if (budget := whole._shared.session) is not None:
            left.append(budget.usd - (whole._session_usd() or 0.0))
        left += [
            each.budget.usd - each.file.spent().at_worst for each in whole._shared.files if each.budget is not None
        ]
        return max(min(left), 0.0) if left else None

    def affordable_tokens(self, most: int) -> int:
        """`most`, or as much less as the budgets still pay for in the worst case; 0 where that is no answer."""
        whole = self.whole
        rooms = [self._room_in_memory(most)]
        own = {reservation.file: reservation.id for reservation in self._in_files}
        for counted in whole._shared.files:
            if counted.budget is not None:
                spent = counted.file.spent(without=own.get(counted.file, ""))
                rooms.append(self._room(counted.budget, spent.usd, spent.open_usd, most))
        return min(room.tokens for room in rooms)

    async def reserve(
        self,
        most: int,
        on_wait: Callable[[], object] = lambda: None,
        *,
        least: int = SMALLEST_ANSWER,
        more_bytes: int = 0,
    ) -> int:
        """Set aside what a request may cost at worst, until `release`; gives the tokens that it may have, as above.

        Waits while what others have set aside leaves it less than there would be without them. `on_wait` is called once
        when these are other processes. An answer of fewer than `least` tokens is none; the request has `more_bytes` than
        the session.
        """
        self._least, self._more_tokens = least, more_bytes // 3
        whole = self.whole
        waited = False
        while True:
            room = self._room_in_memory(most)
            if room.tokens and not room.others:
                room = self._reserve_in_files(room)
                if room.others:
                    if not waited:
                        on_wait()
                    waited = True
                    await asyncio.sleep(POLL_SECONDS)  # nothing tells of what another process does
                    continue
            elif room.others:
                await whole._released.wait()
                continue
            break
        if not room.tokens:
            self._short = room
            self._release_files()
        elif whole._bounded:
            whole._reserved[self] = worst_case_usd(self.model, self._input_tokens(), room.tokens) or 0.0
        return room.tokens

    def release(self) -> None:
        """The request is over, and what it cost is counted."""
        whole = self.whole
        self._answer.end()
        self._release_files()
        if whole._reserved.pop(self, None) is not None:
            whole._released.set()
            whole._released = asyncio.Event()

    def streams(self, event: MessageStart | BlockEnd | TextDelta | ThinkingDelta | ToolInputDelta) -> None:
        """Follow the answer, so that what it has cost is known to others even if this process is killed."""
        if not self._in_files:
            return
        if isinstance(event, MessageStart):
            self._answer.begin(event)
            self._note()
            return
        self._answer.add(event)
        if not isinstance(event, BlockEnd):
            self._chars_to_note -= len(event.partial_json if isinstance(event, ToolInputDelta) else event.text)
        if self._chars_to_note < 0:
            self._note()

    def refusal(self) -> CellwrightError:
        """The error of a run whose next request its budgets do not pay for."""
        next_request = worst_case_usd(self.model, self._input_tokens(), self._least)
        room = self._short or self._room_in_memory(self._least)
        budget = room.budget or Budget(self.whole.budget_usd or 0.0)
        return budget_spent(budget.usd, room.spent_usd, next_request or 0.0, whose=budget.whose, set_by=budget.set_by)

    @property
    def _bounded(self) -> bool:
        shared = self._shared
        return self.budget_usd is not None or shared.session is not None or any(each.budget for each in shared.files)

    def _session_usd(self) -> float | None:
        """The cost of the session, and of those that it goes on from: a fork is no way around a budget."""
        own, before = self._session.cost_usd, self._session.cost_before_usd
        return None if own is None or before is None else own + before

    def _room_in_memory(self, most: int) -> _Room:
        """The room that the run's budget and the session's leave."""
        whole = self.whole
        reserved = sum(usd for who, usd in whole._reserved.items() if who is not self)
        rooms = [_Room(most)]
        if whole.budget_usd is not None:
            rooms.append(self._room(Budget(whole.budget_usd), whole.cost_usd, reserved, most))
        if (budget := whole._shared.session) is not None:
            rooms.append(self._room(budget, whole._session_usd(), reserved, most))
        return min(rooms, key=lambda room: room.tokens)

    def _reserve_in_files(self, room: _Room) -> _Room:
        """Set the request aside in the files that have a budget, in all of them or in none; gives the room it has then."""
        for counted in self.whole._shared.files:
            if (budget := counted.budget) is None:
                continue
            room_here = room

            def amounts(spent: Spent, budget: Budget = budget, most: int = room.tokens) -> tuple[float, float] | None:
                nonlocal room_here
                room_here = self._room(budget, spent.usd, spent.open_usd, most)
                if not room_here.tokens or room_here.others:
                    return None
                tokens = self._input_tokens()
                worst = worst_case_usd(self.model, tokens, room_here.tokens) or 0.0
                return worst, worst_case_usd(self.model, tokens, 0) or 0.0

            reservation = counted.file.reserve(amounts)
            room = room_here
            if reservation is None:
                self._release_files()
                return room
            self._in_files.append(reservation)
        return room

    def _room(self, budget: Budget, spent_usd: float | None, reserved_usd: float, most: int) -> _Room:
        def tokens_for(usd: float) -> int:
            tokens = affordable_tokens(self.model, self._input_tokens(), budget_usd=usd, spent_usd=spent_usd)
            return min(tokens, most) if tokens >= self._least else 0

        now = tokens_for(budget.usd - reserved_usd)
        return _Room(now, now < most and reserved_usd > 0 and now < tokens_for(budget.usd), budget, spent_usd or 0.0)

    def _input_tokens(self) -> int:
        return _input_tokens(self._session) + self._more_tokens

    def _note(self) -> None:
        self._chars_to_note = CHARS_BETWEEN_NOTES
        if (so_far := self._answer.so_far()) is not None and so_far[1] is not None:
            for reservation in self._in_files:
                reservation.costs_at_least(so_far[1])

    def _release_files(self) -> None:
        while self._in_files:
            self._in_files.pop().release()


def affordable_tokens(model: str, input_tokens: int, *, budget_usd: float, spent_usd: float | None) -> int:
    """Compute the output tokens left for the next request at worst; below 0 when its input is too dear already.

    Raises `CellwrightError` CONFIG_INVALID where the price is not known.
    """
    fixed, with_a_token = worst_case_usd(model, input_tokens, 0), worst_case_usd(model, input_tokens, 1)
    if fixed is None or with_a_token is None or spent_usd is None:
        raise price_unknown(model)
    # not the price of a token alone: a long prompt can make the output dearer too
    return int((budget_usd - spent_usd - fixed) / (with_a_token - fixed))


def _input_tokens(session: Session) -> int:
    """At most: three bytes a token is more than any text costs; the prefix was counted by the API already."""
    tokens = session.context_tokens + (session.uncounted_bytes + len(session.system)) // 3
    return tokens if session.context_tokens else tokens + len(session.tools) // 3
