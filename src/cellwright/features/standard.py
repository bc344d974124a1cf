"""The features of a conversation: one list, in the order in which they are asked and Claude receives what they find."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from cellwright.conversation.prompts.mentions import Mentions
from cellwright.conversation.runs.budgets_in_force import BudgetsInForce
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.agents.feature import Agents
from cellwright.features.agents.subagents import Subagents
from cellwright.features.goal import Goal
from cellwright.features.mcp.discovery import agents_servers, plugin_servers
from cellwright.features.mcp.feature import McpServers
from cellwright.features.memory import MemoryContext
from cellwright.features.numbers.feature import TracedNumbers
from cellwright.features.output_styles import OutputStyles
from cellwright.features.prompt_context.file_blocks import FileBlocks
from cellwright.features.prompt_context.not_loaded import NotLoadedNews
from cellwright.features.prompt_context.tool_news import ToolChanges
from cellwright.features.rooms_below import (
    CodeContext,
    LoggedTools,
    OldSessions,
    OwnCommands,
    Spans,
    UndoneTurns,
)
from cellwright.features.skills import Skills
from cellwright.features.titles import Titles
from cellwright.sessions.catalog.retention import Retention
from cellwright.sessions.state_dir import signing_key, state_folder
from cellwright.telemetry.tool_log import ToolLog
from cellwright.tools.shell.user_commands import UserCommands

if TYPE_CHECKING:
    from cellwright.conversation.core import Core


class StandardFeatures:
    """The features of one conversation, each by the name under which commands and hosts ask for it."""

    def __init__(self, core: Core) -> None:
        in_force, cwd = core.in_force, core.host.cwd
        self.tool_log = ToolLog(key=functools.cache(lambda: signing_key(state_folder() / "tool-log-key")))
        self.user_commands = UserCommands(cwd, lambda: in_force.environ)
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
        self.of_host = core.host.features(in_force)
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
                UndoneTurns(core.checkpoints, core.undo, lambda *given: core.sessions.add_notices(*given)),
                CodeContext(in_force),
                Mentions(cwd),
                *self.of_host,
                self.numbers,
            ),
            style=lambda: self.styles.chosen()[0],
            load_skill=self.skills.load,
            start_agent=self.subagents.start,
            stop_agent=self.subagents.stop_by_claude,
        )
