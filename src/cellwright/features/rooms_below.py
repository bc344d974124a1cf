"""The features of rooms below, which know no conversation: checkpoints, `!` commands, retention, the tool log, spans, code.

Each answers the seam's questions with what its room does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.model.credentials import server_address
from cellwright.sessions.catalog.retention import Retention
from cellwright.sessions.session import Session
from cellwright.telemetry.spans import RunSpans
from cellwright.telemetry.tool_log import ToolLog
from cellwright.tools.shell.user_commands import UserCommands

if TYPE_CHECKING:
    from cellwright.conversation.core import Core
    from cellwright.conversation.runs.run import Run


class UndoneTurns(Feature):
    """Checkpoints: turns are kept so that they can be undone, and Claude knows what was."""

    def __init__(self, checkpoints: Checkpoints, core: Core) -> None:
        self._checkpoints = checkpoints
        self._core = core

    def begin(self, run: RunInfo) -> None:
        if run.kind.keeps:
            self._core.sessions.add_notices(run.session, self._checkpoints.end_cut_off(run.session))

    def agent(self, agent: AgentSetup, options: RunOptions) -> AgentSetup:
        return replace(agent, checkpoints=self._checkpoints)

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return self._checkpoints.undo_context

    async def before_run(self, session: Session) -> None:
        if not self._checkpoints.is_cut_off(session):
            return
        from cellwright.checkpoints.undo import Undo  # few undos are cut off

        tools = self._core.tools
        undo = Undo(
            journal=self._checkpoints.journal(session),
            session=session,
            file_state=tools.file_state,
            notebooks=tools.open_notebooks,
            cwd=self._core.in_force.cwd,
        )
        await undo.finish_cut_off()


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
