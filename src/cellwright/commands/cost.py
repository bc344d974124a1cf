"""`/cost`: what the session and the suggestions in the editor have cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from cellwright.agent.spending.spending_file import completion_spending
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.features.conversation import Conversation
from cellwright.model.pricing import PRICES_DATE
from cellwright.sessions.session import Session
from cellwright.text import dollars

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
    spent = await asyncio.to_thread(_budgets, conversation)
    rows: list[Row] = [
        ("what", "cost"),
        ("this session", usd(session.cost_usd)),
        *_compactions(session),
        *_before(session),
        *spent,
        (f"of it completions ({tally.count:,} since the kernel started)", usd(tally.total.cost_usd)),
        ("completions today, all kernels", f"{usd(today)} of {usd(budget)}"),
    ]
    if not tally.count and not today:
        del rows[-2:]
    text = f"By Anthropic's list prices of {PRICES_DATE}; a platform's own prices may differ."
    if conversation.model.name(call.options.provider) == "claude-code":
        text += " Claude Code asks by its own sign-in: a subscription pays for it as a whole, whatever is shown here."
    tokens = _tokens(session.usage)
    sections = [Section("Cost", rows, text), *([Section("Tokens of this session", tokens)] if tokens else [])]
    return CommandPage(sections)


def _budgets(conversation: Conversation) -> list[Row]:
    """The rows of what more than one session counts in, each with its budget."""
    settings, budgets = conversation.in_force.settings, conversation.features.budgets
    rows: list[Row] = []
    if settings.session_budget is not None:
        rows.append(("the session may cost", usd(settings.session_budget)))
    if (notebook := budgets.notebook()) is not None:
        path, file = notebook
        rows.append((f"from {path.name}, all sessions", _of(file.usd(), settings.notebook_budget)))
    return [*rows, ("today, all kernels and terminals", _of(budgets.day.usd(), settings.daily_budget))]


def _of(spent: float, budget: float | None) -> str:
    return usd(spent) if budget is None else f"{usd(spent)} of {usd(budget)}"


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
    """An amount for people; None is one that is not known."""
    return "not known: a model's price is missing" if amount is None else dollars(amount)


def _tokens(usage: Mapping[str, Any]) -> list[Row]:
    rows = [(name, f"{count:,}") for field, name in _TOKENS if (count := usage.get(field) or 0)]
    return [("tokens", "count"), *rows] if rows else []
