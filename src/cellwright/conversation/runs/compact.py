"""`/compact`: the conversation summed up because its user wants it, without a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from cellwright.agent.context.compaction import Compaction, NextModel, count_answers
from cellwright.agent.hooks.protocol import HookRun, as_hooks
from cellwright.agent.hooks.run_hooks import RunHooks
from cellwright.agent.run_errors import is_of_model
from cellwright.agent.spending.run_spending import Spending
from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.events import ContextCompacted, Emit, Event, Notice

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup
    from cellwright.conversation.runs.run_options import RunOptions
    from cellwright.conversation.runs.starting_run import RunParts


async def compact_session(parts: RunParts, options: RunOptions, focus: str, emit: Emit) -> ContextCompacted:
    """Sum up the conversation's session, with particular attention to `focus`. On the agent's thread.

    Raises `CellwrightError`: while a run goes on, where there is nothing to sum up, where a hook says no, what the API says.
    """
    parts.queue.refuse_while_running()
    session = parts.sessions.current
    if not count_answers(session):
        message = "There is nothing to summarise yet: nothing was said since the session, or its last summary, began."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    # a key helper may take its time
    agent = await asyncio.to_thread(lambda: parts.agent(options, parts.model.chosen(options.provider), None))
    done: list[ContextCompacted] = []

    def take(event: Event) -> None:
        if isinstance(event, ContextCompacted) and event.state == "done":
            done.append(event)
        emit(event)

    spending = Spending(agent.model, session, agent.budget_usd, None, agent.shared_budgets)
    hooks = RunHooks(HookRun(agent, take, spending.count_side_request, spending.left), session, as_hooks(agent.hooks))
    session.repair()
    session.begin(  # one that was imported has not
        model=agent.model,
        system=[dict(block) for block in agent.system],
        tools=agent.params_of((*agent.tools, *agent.late_tools())),
    )
    # a session without tools, or with others, is told of no agents and skills that it could not call
    agent = replace(agent, tools=[tool for tool in agent.tools if tool.name in session.tool_names])
    try:
        await Compaction(agent, session, take, hooks, spending, _fallbacks(agent, spending, emit)).compact(
            "manual", agent.model, mid_turn=False, focus=focus
        )
    finally:
        session.settle()
        session.flush()
    return done[-1]


def _fallbacks(agent: AgentSetup, spending: Spending, emit: Emit) -> NextModel:
    """The agent's other models, one after another, where one before cannot answer now."""
    left = [name for name in dict.fromkeys(agent.fallback_models) if name != agent.model]

    def next_model(error: ApiError) -> str | None:
        if not left or not is_of_model(error):
            return None
        before, spending.model = spending.model, left.pop(0)
        emit(Notice(f"{before} cannot answer now ({error.message}) {spending.model} sums up instead.", "warning"))
        return spending.model

    return next_model
