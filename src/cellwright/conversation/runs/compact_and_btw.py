"""`/compact` and `/btw`: requests about the conversation that its user wants without a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace as replaced

from cellwright.agent.compaction import (
    Compaction,
    NextModel,
    count_answers,
    request_of_session,
    user_message,
)
from cellwright.agent.hooks.make_hooks import as_hooks
from cellwright.agent.hooks.protocol import HookRun
from cellwright.agent.hooks.run_hooks import RunHooks
from cellwright.agent.run_errors import is_of_model
from cellwright.agent.spending import Spending
from cellwright.agent.subagent import text_of, whole_answer
from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.events import ContextCompacted, Emit, Event, Notice

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup
    from cellwright.conversation.core import Core
    from cellwright.conversation.runs.run_options import RunOptions
    from cellwright.sessions.session import Session


async def compact_session(core: Core, options: RunOptions, focus: str, emit: Emit) -> ContextCompacted:
    """Sum up the conversation's session, with particular attention to `focus`. On the agent's thread.

    Raises `CellwrightError`: while a run goes on, where there is nothing to sum up, where a hook says no, what the API says.
    """
    core.queue.refuse_while_running()
    session = core.sessions.current
    if not count_answers(session):
        message = "There is nothing to summarise yet: nothing was said since the session, or its last summary, began."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    # a key helper may take its time
    agent = await asyncio.to_thread(lambda: core.agent(options, core.model.chosen(options.provider)))
    done: list[ContextCompacted] = []

    def take(event: Event) -> None:
        if isinstance(event, ContextCompacted) and event.state == "done":
            done.append(event)
        emit(event)

    spending = Spending(agent.model, session, agent.limits.budget_usd, None, agent.limits.shared_budgets)
    hooks = RunHooks(HookRun(agent, take, spending.count_hook_request, spending.left), session, as_hooks(agent.hooks))
    session.repair()
    _begin(session, agent)
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


SIDE_ANSWER_TOKENS = 8_000
"""The most that the answer to a question beside the conversation may take."""

_ASIDE = """\
<beside-the-conversation>
The user asks this beside the conversation; its work is unaffected. Answer from what was said, read and done so far, \
briefly and without calling a tool; if the answer is not in there, say what would have to be looked at. \
Neither the question nor your answer becomes part of the conversation.
</beside-the-conversation>

{question}"""


class SideAnswer(Struct, frozen=True):
    """The answer to a question beside the conversation, and what it cost; None where the price is not known."""

    text: str
    cost_usd: float | None


async def ask_beside(core: Core, options: RunOptions, question: str) -> SideAnswer:
    """Ask about the conversation as it stands, a run that goes on included; nothing of it is kept. On the agent's thread.

    Raises `CellwrightError`: where nothing was said yet, a budget is spent or no text comes back, and what the API says.
    """
    session = core.sessions.current
    running = core.queue.current is not None
    messages = _without_open_calls(session.encoded)
    if not messages:
        message = "Nothing was said in this conversation yet: send the question as a prompt."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    agent = await asyncio.to_thread(lambda: core.agent(options, core.model.chosen(options.provider)))
    if not running:
        _begin(session, agent)
    spending = Spending(agent.model, session, agent.limits.budget_usd, None, agent.limits.shared_budgets)
    asked = [*messages, user_message(_ASIDE.format(question=question))]
    request = request_of_session(agent, session, agent.model, asked, SIDE_ANSWER_TOKENS)
    try:
        max_tokens = await spending.reserve(request.max_tokens, more_bytes=len(asked[-1]))
        if not max_tokens:
            raise spending.refusal()
        request = replaced(request, max_tokens=max_tokens)
        turn = await whole_answer(agent.provider, request, spending.count_side_request)
    finally:
        spending.release()
        if not running:  # a run keeps what was spent with its next message
            session.settle()
    if not (text := text_of(turn)):
        message = f"{agent.model} gave no answer beside the conversation. Send the question as a prompt."
        raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)
    return SideAnswer(text, spending.cost_usd)


def _without_open_calls(messages: Sequence[bytes]) -> list[bytes]:
    """The messages up to where Claude's calls have their results: those that a run is at work on have none yet."""
    last = json.loads(messages[-1]) if messages else {}
    is_open = last.get("role") == "assistant" and any(block["type"] == "tool_use" for block in last["content"])
    return list(messages[:-1] if is_open else messages)


def _begin(session: Session, agent: AgentSetup) -> None:
    """Give the session what its requests begin with; one that was imported has not got it yet."""
    session.begin(
        model=agent.model,
        system=[dict(block) for block in agent.system],
        tools=agent.params_of((*agent.tools, *agent.features.tools())),
    )


def _fallbacks(agent: AgentSetup, spending: Spending, emit: Emit) -> NextModel:
    """The agent's other models, one after another, where one before cannot answer now."""
    left = [name for name in dict.fromkeys(agent.model_settings.fallback_models) if name != agent.model]

    def next_model(error: ApiError) -> str | None:
        if not left or not is_of_model(error):
            return None
        before, spending.model = spending.model, left.pop(0)
        emit(Notice(f"{before} cannot answer now ({error.message}) {spending.model} sums up instead.", "warning"))
        return spending.model

    return next_model
