"""What a run has spent, and what its budget still pays for before a request is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.agent.run_errors import price_unknown
from cellwright.model.pricing import add_usage, worst_case_usd

if TYPE_CHECKING:
    from cellwright.sessions.session import Session


SMALLEST_ANSWER = 256
"""Tokens: what a budget must still pay for, else the run stops before the request."""


class Spending:
    """What one run on `model` has spent, its tools' own requests and lost answers included.

    `cost_usd` is None where a price is not known.
    """

    def __init__(self, model: str, session: Session, budget_usd: float | None) -> None:
        self.usage: dict[str, Any] = {}
        self.cost_usd: float | None = 0.0
        self._model = model
        self._session = session
        self._budget_usd = budget_usd

    def count(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that becomes a message of the session."""
        self.usage = add_usage(self.usage, usage)
        both = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = self.cost_usd + cost_usd if both else None  # type: ignore[operator]

    def count_aside(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that does not; the session remembers it with its next line."""
        self.count(usage, cost_usd)
        self._session.spend(usage, cost_usd)

    def left(self) -> float | None:
        """US dollars; None without a budget."""
        return None if self._budget_usd is None else max(self._budget_usd - (self.cost_usd or 0.0), 0.0)

    def affordable_tokens(self, most: int) -> int:
        """`most`, or as much less as the budget still pays for in the worst case; 0 where that is no answer."""
        if self._budget_usd is None:
            return most
        tokens = affordable_tokens(self._model, self._session, budget_usd=self._budget_usd, spent_usd=self.cost_usd)
        return min(tokens, most) if tokens >= SMALLEST_ANSWER else 0


def affordable_tokens(model: str, session: Session, *, budget_usd: float, spent_usd: float | None) -> int:
    """How many tokens of output the next request may have, in the worst case; below 0 when its input is too dear already.

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
