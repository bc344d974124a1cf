"""What a budget still pays for, before a request is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellwright.agent.cost import worst_case_usd
from cellwright.agent.run_errors import price_unknown

if TYPE_CHECKING:
    from cellwright.agent.session import Session


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
