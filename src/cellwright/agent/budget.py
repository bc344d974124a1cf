"""The spending of a run against its budget, of a day on one purpose, and of an answer that breaks off.

A budget is asked before a request is sent. A day's spending is that of all processes of the user: one file for each
day, a line for each amount. The cost of an answer that never arrives is estimated from what has streamed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellwright.agent.run_errors import budget_spent, price_unknown
from cellwright.errors import CellwrightError
from cellwright.events import TextDelta, ThinkingDelta, ToolInputDelta
from cellwright.model.pricing import add_usage, cost_usd, worst_case_usd
from cellwright.model.provider import BlockEnd, MessageStart
from cellwright.sessions.cut_answer import MIN_CHARS_PER_TOKEN
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder

if TYPE_CHECKING:
    from cellwright.sessions.session import Session

SMALLEST_ANSWER = 256
"""Tokens: what a budget must still pay for, else the run stops before the request."""


class Spending:
    """The spending of one run on `model`, its tools' own requests, its agents' and lost answers included.

    `cost_usd` is None where a price is not known. `model` is the one that the next request goes to. `within` is the
    spending of the run that an agent works for: its budget counts for all of them together, so that requests at the same
    time may have to wait for each other.
    """

    def __init__(self, model: str, session: Session, budget_usd: float | None, within: Spending | None = None) -> None:
        self.usage: dict[str, Any] = {}
        self.cost_usd: float | None = 0.0
        self.side_requests = 0
        self.budget_usd = budget_usd
        self.model = model
        self._session = session
        self._within = within
        self._reserved: dict[Spending, float] = {}
        self._released = asyncio.Event()

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

    def count_side_request(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer to a tool or a hook."""
        self.side_requests += 1
        self.count_lost(usage, cost_usd)

    def count_lost(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that becomes no message; the session remembers it with its next line."""
        self.count(usage, cost_usd)
        self._session.spend(usage, cost_usd)

    def left(self) -> float | None:
        """US dollars; None without a budget."""
        whole = self.whole
        return None if whole.budget_usd is None else max(whole.budget_usd - (whole.cost_usd or 0.0), 0.0)

    def affordable_tokens(self, most: int) -> int:
        """`most`, or as much less as the budget still pays for in the worst case; 0 where that is no answer."""
        whole = self.whole
        if whole.budget_usd is None:
            return most
        budget_usd = whole.budget_usd - sum(usd for who, usd in whole._reserved.items() if who is not self)
        tokens = affordable_tokens(self.model, self._session, budget_usd=budget_usd, spent_usd=whole.cost_usd)
        return min(tokens, most) if tokens >= SMALLEST_ANSWER else 0

    async def reserve(self, most: int) -> int:
        """Set aside what a request may cost at worst, until `release`; gives the tokens that it may have, as above.

        Waits while what others have set aside leaves it less than there would be without them.
        """
        whole = self.whole
        if whole.budget_usd is None:
            return most
        while (tokens := self.affordable_tokens(most)) < most and whole._reserved.keys() - {self}:
            await whole._released.wait()
        if tokens:
            whole._reserved[self] = worst_case_usd(self.model, _input_tokens(self._session), tokens) or 0.0
        return tokens

    def release(self) -> None:
        """The request is over, and what it cost is counted."""
        whole = self.whole
        if whole._reserved.pop(self, None) is not None:
            whole._released.set()
            whole._released = asyncio.Event()

    def refusal(self) -> CellwrightError:
        """The error of a run whose next request its budget does not pay for."""
        next_request = worst_case_usd(self.model, _input_tokens(self._session), SMALLEST_ANSWER)
        return budget_spent(self.whole.budget_usd or 0.0, self.whole.cost_usd or 0.0, next_request or 0.0)


def affordable_tokens(model: str, session: Session, *, budget_usd: float, spent_usd: float | None) -> int:
    """Compute the output tokens left for the next request at worst; below 0 when its input is too dear already.

    Raises `CellwrightError` CONFIG_INVALID where the price is not known.
    """
    input_tokens = _input_tokens(session)
    fixed, with_a_token = worst_case_usd(model, input_tokens, 0), worst_case_usd(model, input_tokens, 1)
    if fixed is None or with_a_token is None or spent_usd is None:
        raise price_unknown(model)
    # not the price of a token alone: a long prompt can make the output dearer too
    return int((budget_usd - spent_usd - fixed) / (with_a_token - fixed))


def _input_tokens(session: Session) -> int:
    """At most: three bytes a token is more than any text costs; the prefix was counted by the API already."""
    tokens = session.context_tokens + (session.uncounted_bytes + len(session.system)) // 3
    return tokens if session.context_tokens else tokens + len(session.tools) // 3


class DaySpending:
    """Amounts in US dollars, in files of `folder` that are named after the user's day. Where it cannot be written, what
    this process spent is known all the same.
    """

    def __init__(self, folder: Path, today: Callable[[], str] = lambda: time.strftime("%Y-%m-%d")) -> None:
        self._folder = folder
        self._today = today
        self._own: dict[str, float] = {}

    def add(self, usd: float) -> None:
        """Count an amount. Blocks on the disk."""
        day = self._today()
        self._own = {day: self._own.get(day, 0.0) + usd}
        with contextlib.suppress(OSError):  # it is known to this process
            make_private_folder(self._folder)
            for file in self._folder.iterdir():
                if file.name != day:
                    file.unlink(missing_ok=True)
            # appended in one write, so that processes do not mix their lines
            descriptor = os.open(self._folder / day, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with contextlib.closing(os.fdopen(descriptor, "wb", buffering=0)) as today:
                today.write(f"{usd:.9f}\n".encode())

    def usd(self) -> float:
        """Add up what was spent today. Blocks on the disk."""
        day = self._today()
        try:
            lines = (self._folder / day).read_text("ascii", "replace").splitlines()
        except OSError:
            lines = []
        return max(sum(map(_amount, lines)), self._own.get(day, 0.0))


def completion_spending() -> DaySpending:
    """Return the user's daily spending on inline completion."""
    return DaySpending(state_folder() / "completion-spending")


def _amount(line: str) -> float:
    try:
        usd = float(line)
    except ValueError:  # a line that was cut off as the disk was full
        return 0.0
    return usd if 0 <= usd < 1e6 else 0.0


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

    def lost(self) -> tuple[dict[str, Any], float | None] | None:
        """Usage (its output estimated) and cost of an answer that broke off, told once; None when none was open."""
        start, self._start = self._start, None
        if start is None:
            return None
        written = max(start.usage.get("output_tokens") or 0, math.ceil(self._chars / MIN_CHARS_PER_TOKEN))
        usage = {**start.usage, "output_tokens": written}
        return usage, cost_usd(start.model, usage)
