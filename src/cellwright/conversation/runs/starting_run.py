"""A run that was asked for: it waits for its turn, asks what has to be asked first, and has its agent work."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.calls.permission_gate import LEAVING
from cellwright.agent.context.compaction import CompactionSettings, TellAgain
from cellwright.agent.hooks.make_hooks import as_hooks, together
from cellwright.agent.prompt import ContextBlock, ContextProvider, FullPrompt, PromptContext, ProvidedContext
from cellwright.agent.spending.run_spending import NO_SHARED_BUDGETS
from cellwright.agent.thread import CallerJobs
from cellwright.agent.turn_record import NO_CHECKPOINTS
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.config.agents.agent_definition import AgentDefinition
from cellwright.config.agents.find_agents import crowded_agents
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.kept_search import seen_once
from cellwright.config.memory.find_memory_files import crowded_rules
from cellwright.config.output_styles.output_style import crowded_styles
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_in_force import SettingsInForce, TrustQuestion
from cellwright.config.skills.find_skills import crowded_skills
from cellwright.conversation.model_connection import ModelConnection
from cellwright.conversation.prompts.after_compaction import told_again
from cellwright.conversation.prompts.agents import Agents
from cellwright.conversation.prompts.file_blocks import FileBlocks
from cellwright.conversation.prompts.goal import Goal
from cellwright.conversation.prompts.mcp import McpServers, late_tools
from cellwright.conversation.prompts.memory import MemoryContext
from cellwright.conversation.prompts.not_loaded import NotLoadedNews
from cellwright.conversation.prompts.output_styles import OutputStyles
from cellwright.conversation.prompts.prompt import (
    gather_context,
    mentioned_files,
    mode_blocks,
    place_blocks,
    read_ahead,
    with_skill,
    with_surroundings,
)
from cellwright.conversation.prompts.skills import SkillCall, Skills
from cellwright.conversation.prompts.system_prompt import system_blocks
from cellwright.conversation.prompts.tool_news import tool_news
from cellwright.conversation.resolve_options import (
    ask_all,
    compaction_settings,
    effort_of,
    fallbacks_of,
    model_of,
    plan_model_of,
    thinking_budget_of,
    thinking_of,
    unasked_text,
    unconfined_text,
)
from cellwright.conversation.runs.budgets_in_force import BudgetsInForce
from cellwright.conversation.runs.policy_in_force import CallsAtWork, PolicyInForce
from cellwright.conversation.runs.run import Run
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.run_queue import RunQueue
from cellwright.conversation.runs.run_request import RunRequest, TrustCheck
from cellwright.conversation.runs.sandbox_lookup import SandboxLookup
from cellwright.conversation.runs.subagents import Subagents, led_by
from cellwright.conversation.session_choice import ConversationSessions
from cellwright.conversation.tools.thinking_time import ThinkingTime
from cellwright.conversation.tools.toolset import ConversationTools, tools_may_be_deferred
from cellwright.errors import ApiError, CellwrightError, ErrorCode, fault, log_fault
from cellwright.events import EventLog, Notice, RunEnd
from cellwright.model.provider import Provider
from cellwright.permissions.modes import parse_mode
from cellwright.permissions.rules.rule import grant_problem, parse_rule, restriction_problem
from cellwright.redaction.redaction import Redaction
from cellwright.sessions.catalog.retention import Retention
from cellwright.sessions.session import Session
from cellwright.telemetry.tool_log import ToolLog
from cellwright.tools.process.child_processes import child_processes
from cellwright.tools.shell.user_commands import UserCommands

if TYPE_CHECKING:
    from cellwright.checkpoints.undo import Undo

logger = logging.getLogger(__name__)


class RunParts(Struct, frozen=True, kw_only=True):
    """The parts that the runs of a conversation have in common. `interface` is how Claude is told where the user is."""

    interface: str
    jobs: CallerJobs
    in_force: SettingsInForce
    hooks: HooksInForce
    queue: RunQueue
    sessions: ConversationSessions
    tools: ConversationTools
    model: ModelConnection
    checkpoints: Checkpoints
    retention: Retention
    redaction: Redaction
    tool_log: ToolLog
    sandbox: SandboxLookup
    thinking_time: ThinkingTime
    user_commands: UserCommands
    memory: MemoryContext
    file_blocks: FileBlocks
    styles: OutputStyles
    skills: Skills
    mcp: McpServers
    agents: Agents
    subagents: Subagents
    budgets: BudgetsInForce
    goal: Goal
    not_loaded: NotLoadedNews

    def taking_back(self, session: Session) -> Undo:
        """The turns of `session`, to be taken back. Raises OSError when what was kept of them cannot be read."""
        from cellwright.checkpoints.undo import Undo  # few runs take something back

        return Undo(
            journal=self.checkpoints.journal(session),
            session=session,
            file_state=self.tools.file_state,
            notebooks=self.tools.open_notebooks,
            cwd=self.in_force.cwd,
        )

    def tell_again(self, context: Sequence[ContextProvider]) -> TellAgain:
        """Find what Claude is told again behind a summary of the conversation; `context` is asked besides."""

        def surroundings(session: Session, agent: AgentSetup) -> Sequence[ContextBlock]:
            settings, listed = self.in_force.settings, self.subagents.listed
            place = place_blocks(agent, self.in_force.cwd, self.interface, settings, listed)
            return (*place, *mode_blocks(session, agent))

        tools = self.tools.of(RunOptions())
        return told_again(self.in_force.cwd, surroundings, tools, (self.memory.for_prompt, *context))

    def agent(
        self,
        options: RunOptions,
        provider: Provider,
        can_use_tool: CanUseTool | None,
        context: Sequence[ContextProvider] = (),
    ) -> AgentSetup:
        """The agent of a run; `context` finds what Claude is told again behind a summary, besides the usual."""
        settings, environment = self.in_force.settings, self.in_force.environment
        limits: dict[str, Any] = {
            "max_turns": options.max_turns or settings.max_turns,
            "budget_usd": options.budget_usd or settings.run_budget,
            "max_tokens": options.max_tokens or settings.max_tokens,
            "max_parallel_tools": options.max_parallel_tools or settings.max_parallel_tools,
            "tool_timeout": options.tool_timeout or settings.tool_timeout,
        }
        given = {name: value for name, value in limits.items() if value is not None}
        on_denied = options.on_denied or settings.on_denied
        policy = PolicyInForce(self.in_force, options, self.sandbox.abilities)
        tools, now = self.tools.of(options), policy.now()
        return AgentSetup(
            provider=provider,
            model=model_of(options, settings, environment),
            plan_model=plan_model_of(options, settings, environment),
            effort=effort_of(options, settings),
            cache_ttl=settings.prompt_cache_ttl,
            thinking=thinking_of(settings, environment),
            thinking_budget=thinking_budget_of(settings, environment),
            fallback_models=fallbacks_of(options, settings, environment),
            system=system_blocks(
                [tool for tool in tools if not now.hides(tool)],
                style=self.styles.chosen()[0],
                append=options.append_system_prompt,
                instead=options.system_prompt,
            ),
            tools=tools,
            late_tools=late_tools(self.mcp, may_defer=tools_may_be_deferred(environment))
            if options.has_servers
            else tuple,
            policy=policy,
            can_use_tool=can_use_tool if on_denied == "ask" else None,
            ends_when_denied=on_denied == "error",
            setup=options.setup,
            checkpoints=self.checkpoints,
            hooks=together(self.hooks.of(self.in_force.program_environment), as_hooks(options.hooks), self.goal.hooks),
            redaction=self.redaction if settings.redact_secrets else None,
            answer_type=options.answer_type,
            file_context=self.subagents.for_step,
            shared_budgets=self.budgets.of_run(),
            file_proposals=self.file_blocks.proposals(self.tools.of(RunOptions())) if options.proposes_files else None,
            compaction=compaction_settings(settings, environment),
            clear_tool_results=settings.clear_tool_results,
            tell_again=self.tell_again(context),
            **given,
        )


class ReadyRun(Struct, frozen=True):
    """A run that can go: who works, on what, in which session, and whether MCP servers are to be waited for before."""

    agent: AgentSetup
    prompt: FullPrompt
    session: Session
    has_servers: bool


class PendingQuestions(Struct, frozen=True):
    """The questions that the user has to be asked before a run in `session`."""

    trust_checks: Sequence[TrustCheck]
    ask_user: CanUseTool
    session: Session


class StartingRun(Struct, frozen=True):
    """The arguments of `Conversation.start`, and the run they become. `behind` is the run that went on then."""

    parts: RunParts
    run: Run
    request: RunRequest
    behind: Run | None

    def prepare_here(self) -> ReadyRun | PendingQuestions | None:
        """The run, made ready on this thread, so that what is wrong is raised where it was asked for.

        None where its turn has not come, or this is the agent's thread, which would be held up.
        """
        return self._prepare() if self.parts.queue.can_prepare_here(self.run) else None

    async def work(self, made: ReadyRun | PendingQuestions | None) -> RunEnd:
        """The run from its turn to its end, on the agent's thread. Whatever happens, everybody is told of an end, once."""
        try:
            return await self._work(made)
        except asyncio.CancelledError as error:
            self.failed(error)
            raise
        except LEAVING as error:
            if (end := self.failed(error)) is None:
                raise
            return end

    def failed(self, error: BaseException) -> RunEnd | None:
        """Tell everybody of the end of a run that came to none of its own; gives its end.

        None where the error is of its own kind: that is for who waits for the run and knows what to do about it.
        """
        run = self.run
        if isinstance(error, CellwrightError):
            if type(error) not in (CellwrightError, ApiError):
                return None
        elif isinstance(error, Exception):
            log_fault(logger, "the run %s failed", run.id, error=error)
        if run.last_event is not None:
            return run.last_event
        stop_reason = "error"
        if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
            stop_reason, error = "interrupted", CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True)
        end = RunEnd(stop_reason, "", {}, run.cost_usd, run.seconds * 1000, 0, 0, 0, error=fault(error).to_json())
        with contextlib.suppress(Exception):  # a view that fails; the others were told
            EventLog(run.bus.publish, 0).emit(end)  # numbers are the session's
        return run.last_event

    async def _work(self, made: ReadyRun | PendingQuestions | None) -> RunEnd:
        parts = self.parts
        parts.model.use_in_this_task(self.request.options.provider)
        made = made or await self._await_turn()
        with parts.jobs.owned_by(self.run):
            ready = made if isinstance(made, ReadyRun) else await self._ask_and_prepare(made)
            if ready.has_servers:
                await parts.mcp.get_ready()
                ready = await self._with_late_tools(ready)
            calls = CallsAtWork(parts.in_force)
            self.run.bus.subscribe(calls.on_event)

            def mode_chosen() -> None:
                if self.request.options.mode is None:
                    ready.session.mode = None  # what the user says now goes before what the session came to

            # a run cannot loosen the settings that it runs under, but its user can
            just_read = isinstance(made, ReadyRun)  # else the user was asked meanwhile
            parts.in_force.run_begins(calls.are_idle, mode_chosen, just_read=just_read)
            try:
                if parts.checkpoints.is_cut_off(ready.session):
                    await parts.taking_back(ready.session).finish_cut_off()
                await parts.hooks.fire_config_changes(ready.session, ready.agent.policy)
                return await ready.agent.run(
                    ready.prompt, ready.session, self.run.bus.publish, steering=self.run.steering
                )
            finally:
                parts.in_force.look()
                parts.in_force.run_ends(goes_on=child_processes().running or parts.subagents.running)

    async def _with_late_tools(self, ready: ReadyRun) -> ReadyRun:
        """The run with the tools of servers that were late when its session began, if nothing can load them there."""
        session = self.parts.sessions.with_late_tools(
            ready.agent, ready.session, given=self.request.session is not None
        )
        return ready if session is ready.session else await asyncio.to_thread(self._ready)

    async def _await_turn(self) -> ReadyRun | PendingQuestions:
        """The run made ready, when those before it have ended."""
        log = EventLog(self.run.bus.publish, 0)  # numbers are the session's, and that has another run
        if (first := self.behind) is not None and first is not self.run:
            log.emit(Notice(f"Claude is still working on “{first.title}” ({first.id}). This waits for its turn."))
        try:
            await self.parts.queue.turn_of(self.run)
            return await asyncio.to_thread(self._prepare)  # a key helper may take its time
        except asyncio.CancelledError:
            log.emit(Notice("Interrupted while it waited for its turn. Nothing was sent.", "warning"))
            raise

    def _prepare(self) -> ReadyRun | PendingQuestions:
        request, sessions, in_force = self.request, self.parts.sessions, self.parts.in_force
        with self.parts.queue.making_ready(), seen_once():
            options = request.options
            self.parts.agents.of_run = options.agents
            self.parts.mcp.use_for_run(options.mcp_servers, only=not options.builtin_tools)
            if request.new_session:
                sessions.start_new()
            if request.resume is not None:
                sessions.resume(request.resume)
            session = request.session or sessions.current
            if request.provider is None:  # a dry run changes nothing
                sessions.add_notices(session, self.parts.checkpoints.end_cut_off(session))
            in_force.refresh(session_has_begun=session.has_begun)
            trust_checks = [
                *request.trust_checks,
                in_force,
                *((self.parts.mcp,) if request.provider is None else ()),  # a dry run starts nothing
                *(request.replay.trust_checks if request.replay is not None else ()),
            ]
            questions = [question for each in trust_checks if (question := each.question()) is not None]
            if questions and (ask_user := self.run.surface.ask_user) is not None:
                return PendingQuestions(trust_checks, ask_user, session)
            for question in questions:
                self._report_unasked(question, session)
            return self._ready()

    async def _ask_and_prepare(self, pending: PendingQuestions) -> ReadyRun:
        """The run made ready, when the user has been asked what has to be asked before."""
        session = pending.session

        def unasked(question: TrustQuestion) -> None:
            self._report_unasked(question, session)

        any_yes = await ask_all(pending.trust_checks, pending.ask_user, session, self.run.bus.publish, unasked)
        if any_yes and not session.has_begun:
            self.parts.tools.forget()  # made when less was known to be allowed
        return await asyncio.to_thread(self._ready)  # a key helper may take its time

    def _report_unasked(self, question: TrustQuestion, session: Session) -> None:
        """Tell of the question where nobody can be asked: the run goes on without, if it can."""
        if question.required:
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, unasked_text(question))
        self.parts.sessions.add_notices(session, [unasked_text(question)])

    def _lead(self) -> tuple[AgentDefinition | None, list[str]]:
        """The agent that works itself: the one that is asked for, else the session's, else the one that the settings name.

        Also what the user is told of it. Raises CellwrightError INVALID_PARAMETERS where there is not the one asked for.
        """
        parts, asked = self.parts, self.request.options.agent
        if asked is not None:
            return parts.agents.lead(asked), []
        session = self.request.session or parts.sessions.current
        name = parts.in_force.settings.agent if session.is_fresh else session.agent
        if name is None:
            return None, []
        try:
            return parts.agents.lead(name), []
        except CellwrightError:  # its file is gone: that is no reason to refuse every prompt
            return None, [f"Agent {name} was not found; Claude answers itself. /agents lists the available agents."]

    def _led_by(self, lead: AgentDefinition | None, options: RunOptions) -> RunOptions:
        """The options with what the agent that works itself says, where there is one."""
        if lead is None:
            return options
        session = self.request.session or self.parts.sessions.current
        return led_by(lead, options, parse_mode(session.mode or self.parts.in_force.settings.default_mode)[0])

    def _ready(self) -> ReadyRun:
        parts, request, options = self.parts, self.request, self.request.options
        cwd, settings = parts.in_force.cwd, parts.in_force.settings
        turn = request.replay.turn() if request.replay is not None else None
        skill_call = parts.skills.called_by(request.prompt) if turn is None else None
        if skill_call is not None:
            options = skill_call.options(options)
        elif turn is None:
            parts.skills.check_trusted(request.prompt)
        lead, gone = self._lead() if turn is None else (None, [])
        options = self._led_by(lead, options)
        parts.mcp.use_for_lead(lead)
        provider = request.provider or turn or parts.model.chosen(options.provider)
        has_servers = request.provider is None and options.has_servers
        listed = (parts.mcp.listing,) if has_servers else ()
        # told with this prompt or an earlier one, and gone with what a summary replaces
        notes = (parts.subagents.told_notes(lead),) if lead is not None else ()
        again = (tool_news, parts.file_blocks.for_prompt, *listed, *notes, *request.context)
        agent = parts.agent(options, provider, self.run.surface.can_use_tool, again)
        if turn is None:
            agent = parts.subagents.as_lead(agent, lead)
            agent = replace(
                agent,
                hooks=together(as_hooks(agent.hooks), parts.skills.hooks_of_run(skill_call)),
            )
            agent = replace(agent, request_sent=functools.partial(self._request_sent, agent))
        if request.provider is not None:
            # a dry run changes nothing and costs nothing; that its own budget is too small is worth knowing
            agent = replace(agent, checkpoints=NO_CHECKPOINTS, shared_budgets=NO_SHARED_BUDGETS)
        if turn is not None:
            from cellwright.conversation.replayed_edits import replay_place  # few runs are played

            place = replay_place(cwd, parts.tools.file_state, parts.tools.open_notebooks, parts.checkpoints)
            agent = replace(
                turn.played_by(agent, place),
                file_proposals=None,
                compaction=CompactionSettings(automatic=False),
                late_tools=tuple,
            )
            self.run.steering.close("This run plays a recording: what Claude says in it is known already.")
        parts.tools.add_dirs = options.add_dirs
        own_tools = bool(options.tools) or not options.builtin_tools or lead is not None
        own_system = options.system_prompt is not None or bool(options.append_system_prompt)
        session = parts.sessions.with_tools(agent.offered_tools, request.session, own=own_tools)
        if own_system:
            session = parts.sessions.with_system(agent.system, session, whole=options.system_prompt is not None)
        if options.mode is not None:
            session.mode = None  # what the user says now goes before what the session came to
        lead_begins = lead is not None and (session.is_fresh or session.agent != lead.name)
        if request.provider is None and turn is None:
            session.agent = None if lead is None else lead.name
        parts.sessions.add_notices(session, gone)
        self._emit_notices(session)
        full = with_surroundings(request.prompt, session, agent, cwd, parts.interface, settings, parts.subagents.listed)
        # a prompt that came as blocks mentions nothing: a program has put it together
        words = request.prompt if isinstance(request.prompt, str) else ""
        prompt_context = PromptContext(
            words=words, agent=agent, session=session, tools={tool.name: tool for tool in parts.tools.of(RunOptions())}
        )
        if turn is not None:  # what is played again is told what can be compared, and nothing else that is new
            compared = (parts.memory.read_ahead(), mentioned_files(cwd), *request.context)
            full = turn.checked(gather_context(full, compared, prompt_context))
        else:
            # a dry run is told nothing that the next prompt has to be told
            own = () if request.provider is not None else (parts.user_commands.provide_context,)
            providers = (
                *own,
                tool_news,
                parts.file_blocks.for_prompt,
                parts.memory.read_ahead(),
                read_ahead(parts.skills.listing, prompt_context),
                *((parts.mcp.for_prompt,) if has_servers else ()),
                parts.not_loaded.read_ahead(has_servers=has_servers),
                read_ahead(parts.agents.for_prompt, prompt_context),
                parts.subagents.for_prompt,
                *((parts.subagents.for_lead(lead),) if lead is not None and lead_begins else ()),
                parts.checkpoints.undo_context,
                *_code_contexts(cwd, options, settings, session),
                mentioned_files(cwd),
                *request.context,
            )
            full = gather_context(full, providers, prompt_context)
            full = self._with_called(full, skill_call, agent, session)
        parts.tool_log.keep_in(settings.tool_log, settings.project)
        return ReadyRun(agent, full, session, has_servers=has_servers and turn is None)

    def _request_sent(self, agent: AgentSetup) -> None:
        self.run.sent()
        # two threads at work hinder each other: what the answer's calls need is looked for while the model thinks
        parts, session = self.parts, self.parts.sessions.current
        parts.thinking_time.begin(agent, lambda: parts.sessions.add_notices(session, self._unconfined()))

    def _with_called(
        self, full: FullPrompt, skill_call: SkillCall | None, agent: AgentSetup, session: Session
    ) -> FullPrompt:
        """`full` with what the skill, or the prompt of an MCP server, tells that it calls."""
        parts, prompt = self.parts, self.request.prompt
        if skill_call is not None:
            tools = {tool.name: tool for tool in agent.tools}
            context = PromptContext(words="", agent=agent, session=session, tools=tools)
            block = functools.partial(parts.skills.block, skill_call, context)
            return with_skill(full, block, skill_call.expansion)
        if isinstance(prompt, str) and parts.mcp.is_call(prompt):
            return with_skill(full, functools.partial(parts.mcp.block, prompt), parts.mcp.expansion(prompt))
        return full

    def _emit_notices(self, session: Session) -> None:
        parts, options = self.parts, self.request.options
        if self.request.provider is None:  # a dry run shows nothing of what it is told
            parts.sessions.add_notices(session, [*parts.in_force.settings.notices, *parts.retention.at_run(session)])
        grants = [problem for rule in options.allow if (problem := grant_problem(parse_rule(rule)))]
        restrictions = [problem for rule in options.deny if (problem := restriction_problem(parse_rule(rule)))]
        style_problem = "" if session.has_begun else parts.styles.chosen()[1]
        if not session.has_begun:
            place = parts.in_force.skill_place
            parts.sessions.add_notices(
                session,
                [
                    *crowded_rules(parts.in_force.memory_place),
                    *crowded_skills(place),
                    *crowded_agents(place),
                    *crowded_styles(place),
                ],
            )
        parts.sessions.add_notices(
            session,
            [
                *grants,
                *restrictions,
                *parts.tools.notices,
                *self._unconfined(),
                *([style_problem] if style_problem else []),
            ],
        )
        if self.request.provider is None:
            parts.sessions.add_notices(session, parts.mcp.notices())

    def _unconfined(self) -> list[str]:
        """Tell that nothing confines commands here, where it is so: with the first request that is made when it is known."""
        found = self.parts.sandbox.found_by_now()
        if self.request.provider is not None or found is None or found.abilities is not None:
            return []
        return [unconfined_text(found.missing)]


def _code_contexts(
    cwd: Path, options: RunOptions, settings: Settings, session: Session
) -> tuple[Callable[[PromptContext], Awaitable[ProvidedContext]], ...]:
    """Find the project's code for the prompt, if an option or the settings want it."""
    wanted = settings.code_context == "every-prompt" or (settings.code_context == "first-prompt" and session.is_fresh)
    if not (options.code_context or wanted):
        return ()

    async def provide(prompt_context: PromptContext) -> ProvidedContext:
        from cellwright.conversation.prompts.code_context import code_context  # few want it

        return await code_context(cwd, prompt_context, asked_for=options.code_context)

    return (provide,)
