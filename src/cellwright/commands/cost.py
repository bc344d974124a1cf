"""`/cost`: what the session and the suggestions in the editor have cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from cellwright.agent.budget import completion_spending
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.model.pricing import PRICES_DATE
from cellwright.sessions.session import Session

_TOKENS = (
    ("input_tokens", "input"),
    ("cache_creation_input_tokens", "input, written to the cache"),
    ("cache_read_input_tokens", "input, read from the cache"),
    ("output_tokens", "output"),
)


async def cost_page(call: CommandCall) -> CommandPage:
    """Show what was spent so far, and on what."""
    conversation = call.conversation
    session, tally = conversation.sessions.current, conversation.model.completions
    today = await asyncio.to_thread(completion_spending().usd)
    budget = conversation.in_force.settings.inline_completion_budget
    rows: list[Row] = [
        ("what", "cost"),
        ("this session", usd(session.cost_usd)),
        *_compactions(session),
        *_before(session),
        (f"of it completions ({tally.count:,} since the kernel started)", usd(tally.total.cost_usd)),
        ("completions today, all kernels", f"{usd(today)} of {usd(budget)}"),
    ]
    if not tally.count and not today:
        del rows[-2:]
    text = f"By Anthropic's list prices of {PRICES_DATE}; a platform's own prices may differ."
    return CommandPage([Section("Cost", rows, text), Section("Tokens of this session", _tokens(session.usage))])


def _before(session: Session) -> list[Row]:
    """The row of what was paid for before the fork, and is counted there."""
    if session.forked_from is None:
        return []
    return [(f"before it, in {session.forked_from} (counted there)", usd(session.cost_before_usd))]


def _compactions(session: Session) -> list[Row]:
    """The row of what summaries of the conversation took of it."""
    count, cost = session.compactions_usd
    return [(f"of it summaries of the conversation ({count:,})", usd(cost))] if count else []


def usd(amount: float | None) -> str:
    """An amount for people, exact where it is small. No dollar sign: between two of them Markdown has mathematics."""
    if amount is None:
        return "not known: a model's price is missing"
    if 0 < amount < 0.0001:
        return "less than 0.0001 USD"
    return f"{amount:.2f} USD" if amount >= 1 or amount == 0 else f"{amount:.4f} USD"


def _tokens(usage: Mapping[str, Any]) -> list[Row]:
    rows = [(name, f"{count:,}") for field, name in _TOKENS if (count := usage.get(field) or 0)]
    return [("tokens", "count"), *(rows or [("none", "0")])]
