"""Done in a conversation without a run: `/compact`, `/btw`, and calls of tools by another program than Claude.

Such calls are under everything that holds Claude's: rules, hooks, limits, redaction.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace as replaced

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.compaction import Compaction, NextModel, count_answers, request_of_session, user_message
from cellwright.agent.hooks.make_hooks import as_hooks
from cellwright.agent.hooks.protocol import HookRun
from cellwright.agent.hooks.run_hooks import RunHooks
from cellwright.agent.loop import AgentRun
from cellwright.agent.prompt import Steering
from cellwright.agent.run_errors import is_of_model
from cellwright.agent.spending import Spending
from cellwright.agent.subagent import text_of, whole_answer
from cellwright.agent.tool import Content, Tool, ToolAccess, ToolContext, is_chosen
from cellwright.config.settings.settings import tool_is_allowed
from cellwright.conversation.model_connection import ModelConnection
from cellwright.conversation.resolve_options import unasked_text
from cellwright.conversation.runs.in_force import CallsAtWork
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import ApiError, CellwrightError, ErrorCode, ToolError
from cellwright.events import ContextCompacted, Emit, Event, Notice, ToolEnd
from cellwright.model.provider import ProviderEvent, Request
from cellwright.sessions.session import Session
from cellwright.telemetry.tool_log import ToolLog

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup
    from cellwright.conversation.core import Core


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
    messages = list(session.encoded)
    last = json.loads(messages[-1]) if messages else {}
    if last.get("role") == "assistant" and any(block["type"] == "tool_use" for block in last["content"]):
        del messages[-1]  # calls that a run is at work on have no results yet
    if not messages:
        message = "Nothing was said in this conversation yet: send the question as a prompt."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    agent = await asyncio.to_thread(lambda: core.agent(options, core.model.chosen(options.provider)))
    if not running:
        _begin(session, agent)
    spending = Spending(agent.model, session, agent.limits.budget_usd, None, agent.limits.shared_budgets)
    asked = [*messages, user_message(_ASIDE.format(question=question))]
    request = request_of_session(agent, session, agent.model, asked, 8_000)  # the most tokens that its answer may take
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


def ignore_event(_event: Event) -> None:
    """Nobody looks on."""


async def _called_elsewhere(_input: dict[str, Any], _context: ToolContext) -> Content:
    raise NotImplementedError


class ProviderWhenNeeded:
    """A way to the model that is looked for with the first request: a hook may make one, the calls themselves do not."""

    def __init__(self, model: ModelConnection) -> None:
        self._model = model

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        provider = await asyncio.to_thread(lambda: self._model.provider)
        async for event in provider.stream(request):
            yield event


class ServedCalls:
    """The tools that `options` name, for programs that call them themselves; no model takes part, nothing is written down.

    `notify` is told what a user of Claude would be told beside the results. All calls are on one loop. Raises
    CellwrightError where the folder or the settings let nothing run; tools that the settings do not allow are not there.
    """

    def __init__(
        self,
        core: Core,
        tool_log: ToolLog,
        end_cut_off: Callable[[Session], Sequence[str]],
        options: RunOptions,
        notify: Callable[[str], None],
    ) -> None:
        there = core.tools.of(RunOptions())
        chosen = {choice: [each.name for each in there if is_chosen(each, choice)] for choice in options.tool_names}
        if missing := [choice for choice, names in chosen.items() if not names]:
            notify(f"The settings allow no {', '.join(missing)}.")
        self._core = core
        self._tool_log = tool_log
        names = dict.fromkeys(name for names in chosen.values() for name in names)
        self._options = msgspec.structs.replace(options, tool_names=tuple(names))
        self._notify = notify
        self._provider = ProviderWhenNeeded(core.model)
        self._session = Session.create(core.in_force.cwd, None)
        self._ids = itertools.count(1)
        self._one_at_a_time = asyncio.Lock()
        core.sandbox.begin()
        core.tools.add_dirs = options.add_dirs
        if (question := core.in_force.question()) is not None:
            if question.required:
                raise CellwrightError(ErrorCode.PERMISSION_DENIED, unasked_text(question))
            notify(unasked_text(question))
        for text in end_cut_off(self._session):
            notify(text)
        settings = core.in_force.settings
        tool_log.keep_in(settings.tool_log, settings.project)
        self._agent(None)  # what is wrong with the options is said now
        # as in a run: what the calls change of the settings loosens nothing, what the user changes between them counts
        self._at_work = CallsAtWork(core.in_force)
        core.in_force.run_begins(self._at_work.are_idle)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools, less those that a rule denies as a whole."""
        return self._agent(None).offered_tools

    @property
    def granted(self) -> tuple[str, ...]:
        """The rules that were allowed for the session of these calls."""
        return self._session.granted

    def denial(self, name: str, tool_input: Mapping[str, Any]) -> str:
        """Say why the rules deny a call of that tool; empty where they do not, and for input that is none."""
        agent = self._agent(None)
        tool = next((each for each in agent.offered_tools if each.name == name), None)
        if tool is None:
            return f"Tool {name} was not found."
        try:
            decision = agent.policy.decide(tool, check_input(tool, tool_input))
        except ToolError:
            return ""
        return decision.reason if decision.behavior == "deny" else ""

    def denies(self, name: str, access: ToolAccess) -> bool:
        """Return whether a rule denies a tool as a whole that is not among these, and is called elsewhere."""
        tool = Tool(name=name, description="", input_schema={}, call=_called_elsewhere, access=access)
        return not self._agent(None).visible_tools([tool])

    def allows(self, name: str) -> bool:
        """Return whether the administrator lets there be a tool of that name."""
        return tool_is_allowed(name, self._core.in_force.settings)

    async def call(
        self,
        name: str,
        tool_input: Mapping[str, Any],
        ask_user: CanUseTool | None,
        tool: Tool | None = None,
        emit: Emit = ignore_event,
    ) -> ToolEnd:
        """Call the tool of that name, or the given one in its place; its end also says what is wrong with the call.

        `ask_user` puts what has to be asked; None: it is denied. `emit` is called with the call's events.
        """
        ends: list[ToolEnd] = []

        def on_event(event: Event) -> None:
            self._at_work.on_event(event)
            self._tool_log.add(event)
            emit(event)
            if isinstance(event, ToolEnd):
                ends.append(event)
            elif isinstance(event, Notice):
                self._notify(event.message)

        agent = self._agent(ask_user)
        if tool is not None:
            agent = replace(agent, tools=(tool,))
        run = AgentRun(agent, self._session, on_event, Steering())
        run.calls.changes.one_at_a_time = self._one_at_a_time
        tool_use = {"type": "tool_use", "id": f"call_{next(self._ids)}", "name": name, "input": dict(tool_input)}
        await run.calls.run_beside([tool_use])
        return ends[-1]

    def close(self) -> None:
        """No call follows."""
        self._core.in_force.run_ends()

    def _agent(self, ask_user: CanUseTool | None) -> AgentSetup:
        return self._core.agent(self._options, self._provider, ask_user)
