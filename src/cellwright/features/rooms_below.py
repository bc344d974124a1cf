"""The features of rooms below, which know no conversation: checkpoints, `!` commands, retention, the tool log, spans, code.

Each answers the seam's questions with what its room does.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, TitledPrompt
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.features.feature import Feature, RunInfo
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import ToolError
from cellwright.events import Event, NumbersTraced
from cellwright.sessions.catalog.retention import Retention
from cellwright.sessions.session import Session
from cellwright.telemetry.spans import RunSpans
from cellwright.telemetry.tool_log import ToolLog
from cellwright.tools.shell.user_commands import UserCommands

if TYPE_CHECKING:
    from pathlib import Path

    from cellwright.checkpoints.undo import Undo
    from cellwright.conversation.core import Host
    from cellwright.conversation.runs.run import Run
    from cellwright.features.numbers.answers import TracedAnswers
    from cellwright.tools.notebook.open_notebook import Cell


SECONDS_FOR_CELLS = 3.0
"""The time that a page may take to send its cells before a run ends without them."""


class UndoneTurns(Feature):
    """Checkpoints: turns are kept so that they can be undone, and Claude knows what was."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        undo: Callable[[Session], Undo],
        add_notices: Callable[[Session, Sequence[str]], None],
    ) -> None:
        self._checkpoints = checkpoints
        self._undo = undo
        self._add_notices = add_notices

    def begin(self, run: RunInfo) -> None:
        if run.kind.keeps:
            self._add_notices(run.session, self._checkpoints.end_cut_off(run.session))

    def agent(self, agent: AgentSetup, options: RunOptions) -> AgentSetup:
        return replace(agent, checkpoints=self._checkpoints)

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return self._checkpoints.undo_context

    async def before_run(self, session: Session) -> None:
        if self._checkpoints.is_cut_off(session):
            await self._undo(session).finish_cut_off()


class TracedNumbers(Feature):
    """Numbers and names: each of an answer is looked up in what the conversation has seen, in a thread beside the loop."""

    def __init__(self, enabled: Callable[[], bool], host: Host) -> None:
        self._enabled = enabled
        self._host = host
        self._session: weakref.ref[Session] | None = None
        self._answers: TracedAnswers | None = None

    def begin(self, run: RunInfo) -> None:
        if self._session is None or self._session() is not run.session:
            self._session, self._answers = weakref.ref(run.session), None

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider | None:
        instructions = self._answers.instructions(prompt.words) if self._answers is not None else ""
        if not instructions:
            return None
        found = ContextItems(after=(TitledPrompt(prompt.words, instructions).context,))
        return lambda _: found

    async def after_calls(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        # results are indexed while Claude goes on; an agent that works for it has a session of its own
        had_calls = any(b'"tool_' in message for message in session.story[-2:])  # at a turn's end there may be none
        if had_calls and self._enabled() and self._is_own(session):
            asyncio.get_running_loop().run_in_executor(None, self._of(session).index, session.story)
        return ()

    async def answered(self, answer: str, session: Session, options: RunOptions) -> Sequence[Event]:
        states_any = "`" in answer or "test" in answer or any(map(str.isdigit, answer))
        if not (self._enabled() and options.numbers and states_any):
            return ()
        is_typed = options.answer_type is not None
        answers = self._of(session)
        event = await asyncio.to_thread(
            answers.event,
            answer,
            session.story,
            typed=is_typed,
            folder=self._host.cwd,
            known=self._host.has_name,
        )
        if event is None:
            return ()
        if not is_typed and (cells := await self._cells(event)) is not None:
            event = await asyncio.to_thread(answers.record, event, answer, cells, self._host.cwd)
        return (event,)

    async def stale(self) -> Sequence[Mapping[str, Any]]:
        """Return the stale numbers of the session's answers, compared with the notebook as its page has it now."""
        notebooks, answers = self._host.open_notebooks, self._answers
        if answers is None or not answers.keeps_records() or notebooks is None or (own := notebooks.own()) is None:
            return ()
        return await asyncio.to_thread(answers.stale, await own.cells(), self._host.cwd)

    async def _cells(self, event: NumbersTraced) -> Sequence[Cell] | None:
        """Return the cells of the notebook that keeps the answer; None if none does, or no number came from a result."""
        notebooks = self._host.open_notebooks
        from_results = (
            each.source is not None and each.source.kind not in ("code", "prompt") for each in event.numbers
        )
        if notebooks is None or not any(from_results) or (own := notebooks.own()) is None:
            return None
        try:
            return await asyncio.wait_for(own.cells(), SECONDS_FOR_CELLS)
        except (ToolError, TimeoutError):
            return None  # its page went away: the answer is kept without

    def _is_own(self, session: Session) -> bool:
        return self._session is not None and self._session() is session

    def _of(self, session: Session) -> TracedAnswers:
        from cellwright.features.numbers.answers import (
            TracedAnswers,  # most first prompts have no number in their answer
        )

        if not self._is_own(session):
            return TracedAnswers()
        if self._answers is None:
            self._answers = TracedAnswers()
        return self._answers


class OwnCommands(Feature):
    """`!command`: what the user ran themselves comes with the next prompt."""

    in_dry_runs = False  # its context is sent once, with the next real prompt

    def __init__(self, commands: UserCommands) -> None:
        self._commands = commands

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return self._commands.provide_context

    def session_left(self, because: str) -> None:
        self._commands.forget()


class OldSessions(Feature):
    """Retention: old sessions are deleted, and the user knows before."""

    in_dry_runs = False

    def __init__(self, retention: Retention) -> None:
        self._retention = retention

    def notices(self, run: RunInfo) -> Sequence[str]:
        return self._retention.at_run(run.session)


class LoggedTools(Feature):
    """The log of calls that the settings name."""

    def __init__(self, log: ToolLog, in_force: SettingsInForce) -> None:
        self._log = log
        self._in_force = in_force

    def run_added(self, run: Run) -> None:
        run.bus.subscribe(self._log.add)

    async def before_run(self, session: Session) -> None:
        settings = self._in_force.settings
        self._log.keep_in(settings.tool_log, settings.project)


class Spans(Feature):
    """Runs as spans and metrics of OpenTelemetry."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force
        self.observer = RunSpans(self._server_address)

    def _server_address(self) -> str:
        from cellwright.model.credentials import server_address  # for those who look on alone

        return server_address(self._in_force.environ)


class CodeContext(Feature):
    """The project's code that fits a prompt, if an option or the settings want it."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider | None:
        wish, asked_for, cwd = self._in_force.settings.code_context, run.options.code_context, self._in_force.cwd
        if not (asked_for or wish == "every-prompt" or (wish == "first-prompt" and run.session.is_fresh)):
            return None

        async def provide(prompt_context: PromptContext) -> ContextItems:
            from cellwright.features.prompt_context.code_context import code_context  # few want it

            return await code_context(cwd, prompt_context, asked_for=asked_for)

        return provide
