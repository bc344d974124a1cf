"""The features of a conversation: one list, in the order in which they are asked and Claude receives what they find.

Some stand for rooms below, which know no conversation: checkpoints, `!` commands, retention, the tool log, spans, code, the
output style that the settings name. Each answers the seam's questions with what its room does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.config.output_styles import DEFAULT, DEFAULT_STYLE, OutputStyle, find_styles
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.mentions import Mentions
from cellwright.conversation.runs.in_force import BudgetsInForce
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.system_prompt import USUAL_STYLE, AnswerStyle, PromptSection
from cellwright.features.agents.feature import Agents
from cellwright.features.agents.subagents import Subagents
from cellwright.features.file_blocks import FileBlocks
from cellwright.features.goal import Goal
from cellwright.features.mcp.discovery import agents_servers, plugin_servers
from cellwright.features.mcp.feature import McpServers
from cellwright.features.memory import MemoryContext
from cellwright.features.news import NotLoadedNews, ToolChanges
from cellwright.features.numbers.feature import TracedNumbers
from cellwright.features.skills import Skills
from cellwright.features.titles import Titles
from cellwright.model.credentials import server_address
from cellwright.sessions.catalog.retention import Retention
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import signing_key, state_folder
from cellwright.telemetry.spans import RunSpans
from cellwright.telemetry.tool_log import ToolLog
from cellwright.tools.shell.user_commands import UserCommands

if TYPE_CHECKING:
    from cellwright.conversation.core import Core
    from cellwright.conversation.kernel_copies import ForkedKernel, KernelParts
    from cellwright.conversation.runs.run import Run
    from cellwright.features.branches import KernelCopies, Turn, UndoneVariables
    from cellwright.features.preview.feature import TurnPreview
    from cellwright.features.stability.rerun import Stability


class OutputStyles(Feature):
    """Finds the styles that count, and the one that sessions begin with."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force

    def all(self) -> dict[str, OutputStyle]:
        """The styles that count now, by their names in small letters."""
        return find_styles(self._in_force.skill_place)

    @property
    def named(self) -> str:
        """The name that the settings have for the style."""
        return self._in_force.settings.output_style or DEFAULT

    def notices(self, run: RunInfo) -> Sequence[str]:
        problem = "" if run.session.has_begun else self.chosen()[1]
        return [problem] if problem else []

    def chosen(self) -> tuple[OutputStyle, str]:
        """The style that a session begins with now, and what the user must know of it ("" where all is well)."""
        if (name := self.named.lower()) == DEFAULT:
            return DEFAULT_STYLE, ""
        styles = self.all()
        if name in styles:
            return styles[name], ""
        known = ", ".join(style.name for style in styles.values())
        return DEFAULT_STYLE, f"Output style {self.named!r} was not found; the styles are {known}. The default is used."

    def answer_style(self) -> AnswerStyle:
        """The style that a session begins with now, as the system prompt has it."""
        return as_answer_style(self.chosen()[0])


def as_answer_style(style: OutputStyle) -> AnswerStyle:
    """The section of the system prompt that `style` is."""
    if style.name == DEFAULT:
        return USUAL_STYLE
    return AnswerStyle(PromptSection(f"Output style: {style.name}", style.text), keeps_coding=style.keeps_coding)


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
        self.observer = RunSpans(lambda: server_address(in_force.environ))


class CodeContext(Feature):
    """The project's code that fits a prompt, if an option or the settings want it."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider | None:
        wish, asked_for, cwd = self._in_force.settings.code_context, run.options.code_context, self._in_force.cwd
        if not (asked_for or wish == "every-prompt" or (wish == "first-prompt" and run.session.is_fresh)):
            return None

        async def provide(prompt_context: PromptContext) -> ContextItems:
            from cellwright.features.code_context import code_context  # few want it

            return await code_context(cwd, prompt_context, asked_for=asked_for)

        return provide


class StandardFeatures:
    """The features of one conversation, each by the name under which commands and hosts ask for it."""

    def __init__(self, core: Core) -> None:
        in_force, cwd = core.in_force, core.host.cwd
        self.tool_log = ToolLog(key=functools.cache(lambda: signing_key(state_folder() / "tool-log-key")))
        self.user_commands = UserCommands(cwd, lambda: in_force.environ)
        self.checkpoints = Checkpoints(
            roots=lambda: (cwd, *in_force.settings.additional_directories),
            enabled=lambda: in_force.settings.file_checkpointing,
            days=lambda: in_force.settings.cleanup_period_days,
        )
        self.goal = Goal(lambda: core.sessions.current, in_force)
        self.memory = MemoryContext(in_force)
        self.styles = OutputStyles(in_force)
        self.mcp = McpServers(in_force, core.project_confinement)
        self.skills = Skills(in_force, core.hooks)
        self.agents = Agents(in_force)
        self.subagents = Subagents(
            in_force,
            self.agents,
            self.memory,
            self.skills,
            core.hooks,
            self.mcp,
            lambda folder: core.tools.in_folder(folder),
            core.listed,
        )
        self.budgets = BudgetsInForce(lambda: in_force.settings, core.host.notebook)
        self.titles = Titles(core.model, in_force, core.redaction, lambda: self.budgets.day)
        self.numbers = TracedNumbers(lambda: in_force.settings.numbers, core.host)
        self.branches: KernelCopies | None = None
        self.variables: UndoneVariables | None = None
        self.preview: TurnPreview | None = None
        self._kernel = core.host.kernel
        if self._kernel is not None and self._kernel.fork is not None:
            self._add_forked(core, self._kernel, self._kernel.fork)
        self.mcp.add_source(lambda: plugin_servers(in_force))
        self.mcp.add_source(lambda: agents_servers(self.agents.found().agents.values(), cwd))
        core.complete(
            (
                LoggedTools(self.tool_log, in_force),
                Spans(in_force),
                self.titles,
                OldSessions(Retention(lambda: in_force.settings.cleanup_period_days)),
                self.budgets,
                self.goal,
                self.styles,
                OwnCommands(self.user_commands),
                ToolChanges(),
                FileBlocks(lambda: core.tools.of(RunOptions())),
                self.memory,
                self.skills,
                self.mcp,
                NotLoadedNews(in_force, core.hooks, self.skills, self.agents, self.mcp),
                self.agents,
                self.subagents,
                UndoneTurns(self.checkpoints, core),
                CodeContext(in_force),
                Mentions(cwd),
                *filter(None, (self.branches, self.variables, self.preview)),
                self.numbers,
            ),
            kept=self.checkpoints,
            style=self.styles.answer_style,
            load_skill=self.skills.load,
            start_agent=self.subagents.start,
            stop_agent=self.subagents.stop_by_claude,
        )

    @functools.cached_property
    def stability(self) -> Stability | None:
        """The tests of answers on perturbed data; None if this is no kernel."""
        from cellwright.features.stability.rerun import Stability  # few answers are tested

        return None if self._kernel is None else Stability(self._kernel.code)

    def _add_forked(self, core: Core, kernel: KernelParts, fork: Callable[[], ForkedKernel]) -> None:
        # other processes need none of them
        from cellwright.features.branches import KernelCopies, UndoneVariables
        from cellwright.features.preview.feature import TurnPreview

        branches = self.branches = KernelCopies(core.in_force, fork)

        def turn() -> Turn | None:
            """The turn that runs, if it can be undone."""
            checkpoints = self.checkpoints
            if checkpoints.turn is None:
                return None
            return checkpoints.session_of(core.sessions.current).id, checkpoints.turn.turn.number

        self.variables = UndoneVariables(kernel.variables, turn, lambda: branches.setting != "off")
        self.preview = TurnPreview(core, kernel.preview)
