"""The way of a run: it waits for its turn, asks what has to be asked first, is resolved, and has its agent work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from cellwright.agent.agent_setup import AgentFeatures, AgentSetup, OtherTools
from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.calls.permission_gate import LEAVING
from cellwright.agent.loop import run_agent
from cellwright.agent.prompt import FullPrompt, PromptContext
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.config.user_files import seen_once
from cellwright.conversation.core import Core
from cellwright.conversation.feature import RunInfo, gather_context, with_call, with_surroundings
from cellwright.conversation.resolve_options import ask_all, unasked_text, unconfined_text
from cellwright.conversation.runs.in_force import CallsAtWork
from cellwright.conversation.runs.kinds import RunKind, RunRequest, TrustCheck
from cellwright.conversation.runs.run import Run
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import ApiError, CellwrightError, ErrorCode, fault, log_fault
from cellwright.events import EventLog, Notice, RunEnd
from cellwright.permissions.rules.rule import grant_problem, parse_rule, restriction_problem
from cellwright.sessions.session import Session
from cellwright.tools.process.child_processes import child_processes

if TYPE_CHECKING:
    from cellwright.agent.recording.replay import EditTarget

logger = logging.getLogger(__name__)


class ResolvedRun(Struct, frozen=True):
    """A run that can go: its kind, who works, on what, in which session."""

    kind: RunKind
    agent: AgentSetup
    prompt: FullPrompt
    session: Session


class PendingQuestions(Struct, frozen=True):
    """The questions that the user has to be asked before a run in `session`."""

    trust_checks: Sequence[TrustCheck]
    ask_user: CanUseTool
    session: Session


class _Heard(OtherTools):
    """The features of a run's agent, which also notice that a request has left."""

    def __init__(self, others: AgentFeatures, task: RunTask) -> None:
        super().__init__(others, others.tools)
        self._task = task
        self.agent: AgentSetup | None = None

    def on_request_sent(self) -> None:
        if self.agent is not None:
            self._task.on_request_sent(self.agent)


class RunTask(Struct, frozen=True):
    """The arguments of `Conversation.start`, and the run they become. `behind` is the run that went on then."""

    core: Core
    run: Run
    request: RunRequest
    behind: Run | None

    def prepare_here(self) -> ResolvedRun | PendingQuestions | None:
        """The run, made ready on this thread, so that what is wrong is raised where it was asked for.

        None where its turn has not come, or this is the agent's thread, which would be held up.
        """
        return self._prepare() if self.core.queue.can_prepare_here(self.run) else None

    async def work(self, made: ResolvedRun | PendingQuestions | None) -> RunEnd:
        """The run from its turn to its end, on the agent's thread. Whatever happens, everybody is told of an end, once."""
        try:
            # while it was made ready: the thread that starts this task cancels it a moment later
            if self.run.is_stopped:
                raise asyncio.CancelledError
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

    async def _work(self, made: ResolvedRun | PendingQuestions | None) -> RunEnd:
        core = self.core
        core.model.use_in_this_task(self.request.options.provider)
        made = made or await self._await_turn()
        with core.jobs.owned_by(self.run):
            resolved = made if isinstance(made, ResolvedRun) else await self._ask_and_resolve(made)
            info = self._info(resolved.kind)
            ready = [await each.get_ready(info) for each in core.features if resolved.kind.takes(each)]
            if any(ready):
                # the run with the tools that were late when its session began, if nothing can load them there
                given = self.request.session is not None
                session = core.sessions.with_late_tools(resolved.agent, resolved.session, given=given)
                if session is not resolved.session:
                    resolved = await asyncio.to_thread(self._resolve, resolved.kind)
            agent, session = resolved.agent, resolved.session
            calls = CallsAtWork(core.in_force)
            self.run.bus.subscribe(calls.on_event)

            def mode_chosen() -> None:
                if self.request.options.mode is None:
                    session.mode = None  # what the user says now goes before what the session came to

            # a run cannot loosen the settings that it runs under, but its user can
            just_read = isinstance(made, ResolvedRun)  # else the user was asked meanwhile
            core.in_force.run_begins(calls.are_idle, mode_chosen, just_read=just_read)
            try:
                for feature in core.features:
                    await feature.before_run(session)
                await core.hooks.fire_config_changes(session, agent.policy)
                return await run_agent(
                    agent, resolved.prompt, session, self.run.bus.publish, steering=self.run.steering
                )
            finally:
                core.in_force.look()
                works_on = child_processes().running or any(feature.works_on for feature in core.features)
                core.in_force.run_ends(goes_on=works_on)

    async def _await_turn(self) -> ResolvedRun | PendingQuestions:
        """The run resolved, when those before it have ended."""
        log = EventLog(self.run.bus.publish, 0)  # numbers are the session's, and that has another run
        if (first := self.behind) is not None and first is not self.run:
            waits = f"Claude is still working on “{first.title}” ({first.id}). This waits for its turn."
            log.emit(Notice(waits, waits=True))
        try:
            await self.core.queue.turn_of(self.run)
            return await asyncio.to_thread(self._prepare)  # a key helper may take its time
        except asyncio.CancelledError:
            log.emit(Notice("Interrupted while it waited for its turn. Nothing was sent.", "warning"))
            raise

    def _info(self, kind: RunKind, session: Session | None = None) -> RunInfo:
        session = session or self.request.session or self.core.sessions.current
        return RunInfo(prompt=self.request.prompt, options=self.request.options, kind=kind, session=session)

    def _prepare(self) -> ResolvedRun | PendingQuestions:
        request, sessions, in_force, features = self.request, self.core.sessions, self.core.in_force, self.core.features
        with self.core.queue.making_ready(), seen_once():
            if request.options.preview and not any(feature.previews for feature in features):
                message = "A preview needs the kernel of a notebook on Linux. Nothing was sent."
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
            if request.new_session:
                sessions.start_new()
            if request.resume is not None:
                sessions.resume(request.resume)
            info = self._info(request.kind)
            for feature in features:
                feature.begin(info)
            in_force.refresh(session_has_begun=info.session.has_begun)
            trust_checks = [
                *request.trust_checks,
                in_force,
                *(check for feature in features if request.kind.takes(feature) for check in feature.trust_checks),
                *request.kind.trust_checks,
            ]
            questions = [question for each in trust_checks if (question := each.question()) is not None]
            if questions and (ask_user := self.run.surface.ask_user) is not None:
                return PendingQuestions(trust_checks, ask_user, info.session)
            for question in questions:
                self._report_unasked(question, info.session)
            return self._resolve(request.kind.decided())

    async def _ask_and_resolve(self, pending: PendingQuestions) -> ResolvedRun:
        """The run resolved, when the user has been asked what has to be asked before."""
        session = pending.session

        def unasked(question: TrustQuestion) -> None:
            self._report_unasked(question, session)

        any_yes = await ask_all(pending.trust_checks, pending.ask_user, session, self.run.bus.publish, unasked)
        if any_yes and not session.has_begun:
            self.core.tools.forget()  # made when less was known to be allowed
        # a key helper may take its time
        return await asyncio.to_thread(lambda: self._resolve(self.request.kind.decided()))

    def _report_unasked(self, question: TrustQuestion, session: Session) -> None:
        """Report the question if nobody can be asked: the run continues without, if it can."""
        if question.required:
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, unasked_text(question))
        self.core.sessions.add_notices(session, [unasked_text(question)])

    def _resolve(self, kind: RunKind) -> ResolvedRun:
        core, request = self.core, self.request
        taking = [feature for feature in core.features if kind.takes(feature)]

        # the options, and the agent that they and the features make
        info, options = self._info(kind), request.options
        for feature in taking:
            options = feature.options(info, options)
        provider = kind.provider(lambda: core.model.chosen(options.provider))
        agent = core.agent(options, provider, self.run.surface.can_use_tool, run=info, context=request.context)
        tools = agent.tools
        for feature in reversed(taking):
            agent = feature.for_run(info, agent)
        own_tools = bool(options.tools) or not options.builtin_tools or agent.tools is not tools
        if kind.reads_calls:
            agent = replace(agent, features=(heard := _Heard(agent.features, self)))
            heard.agent = agent
        agent = kind.agent(agent, self._place, self.run.steering)

        # the session, or a fork of it if its tools or its system prompt are others
        core.tools.add_dirs = options.add_dirs
        session = core.sessions.with_tools(agent.offered_tools, request.session, own=own_tools)
        if options.system_prompt is not None or options.append_system_prompt:
            session = core.sessions.with_system(agent.system, session, whole=options.system_prompt is not None)
        if options.mode is not None:
            session.mode = None  # what the user says now goes before what the session came to
        info = self._info(kind, session)
        self._add_notices(info, options)

        # the prompt, with all that is sent besides
        settings, cwd = core.in_force.settings, core.in_force.cwd
        full = with_surroundings(request.prompt, session, agent, cwd, core.host.interface, settings, core.listed)
        prompt_context = PromptContext(
            # a prompt that came as blocks mentions nothing: a program has put it together
            words=request.prompt if isinstance(request.prompt, str) else "",
            agent=agent,
            session=session,
            tools={tool.name: tool for tool in core.tools.of(RunOptions())},
        )
        found = [feature.context(info, prompt_context) for feature in taking]
        providers = [*(each for each in found if each is not None), *request.context]
        full = structs.replace(kind.prompt(gather_context(full, providers, prompt_context)), setup=options.setup)
        calls = (feature.call(info, prompt_context) for feature in core.features if kind.reads_calls)
        if (call := next((each for each in calls if each is not None), None)) is not None:
            full = with_call(full, call)
        return ResolvedRun(kind, agent, full, session)

    def _place(self) -> EditTarget:
        """The place where the edits of a recording are made again."""
        from cellwright.conversation.replayed_edits import replay_place  # few runs are played

        core = self.core
        return replay_place(core.in_force.cwd, core.tools.file_state, core.tools.open_notebooks, core.kept)

    def on_request_sent(self, agent: AgentSetup) -> None:
        """A request of the run's agent has left."""
        self.run.sent()
        # two threads at work hinder each other: what the answer's calls need is looked for while the model thinks
        core, session, kind = self.core, self.core.sessions.current, self.request.kind
        core.thinking_time.begin(agent, lambda: core.sessions.add_notices(session, self._unconfined(kind)))

    def _add_notices(self, info: RunInfo, options: RunOptions) -> None:
        """Have the user see what they must know with this run; a dry run shows nothing of what is shown once."""
        core, session, kind = self.core, info.session, info.kind
        found: list[str] = [*core.in_force.settings.notices] if kind.keeps else []
        if not session.has_begun:
            found += core.in_force.crowded_folders()
        found += [problem for rule in options.allow if (problem := grant_problem(parse_rule(rule)))]
        found += [problem for rule in options.deny if (problem := restriction_problem(parse_rule(rule)))]
        found += [*core.tools.notices, *self._unconfined(kind)]
        for feature in core.features:
            if kind.keeps or feature.in_dry_runs:
                found += feature.notices(info)
        core.sessions.add_notices(session, found)

    def _unconfined(self, kind: RunKind) -> list[str]:
        """Word that nothing confines commands here, if so: with the first request that is made when it is known."""
        found = self.core.sandbox.found_by_now()
        if not kind.keeps or found is None or found.abilities is not None:
            return []
        return [unconfined_text(found.missing)]
