"""The core of a conversation, whatever its features: where it runs, its settings, session, tools and queue.

It makes the agents of runs. Which features there are it does not know: it asks all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from cellwright.agent.agent_setup import AgentFeatures, AgentSetup, FinalAnswer
from cellwright.agent.calls.approval import CanUseTool, Confinement
from cellwright.agent.hooks.make_hooks import as_hooks, together
from cellwright.agent.prompt import ContextItem, ContextProvider
from cellwright.agent.spending import USUAL_LIMITS, RunLimits
from cellwright.agent.thread import AgentThread, CallerJobs
from cellwright.agent.tool import Tool
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.settings.layers import SCOPES, Scope
from cellwright.config.settings.settings_files import InlineSettings
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.after_compaction import after_summary
from cellwright.conversation.feature import Feature, Observers, RunInfo, mode_blocks, place_blocks
from cellwright.conversation.model_connection import ModelConnection
from cellwright.conversation.resolve_options import (
    compaction_settings,
    model_of,
    model_settings_of,
)
from cellwright.conversation.runs.in_force import FindSandbox, PolicyInForce, SandboxLookup, look_for_sandbox
from cellwright.conversation.runs.run import RunQueue
from cellwright.conversation.runs.run_options import Choices, RunOptions, with_choices
from cellwright.conversation.session_choice import ConversationSessions
from cellwright.conversation.system_prompt import AnswerStyle, system_blocks
from cellwright.conversation.tools.built_in_tools import never_unsaved, no_live_definition
from cellwright.conversation.tools.toolset import ConversationTools, KeptChanges, ThinkingTime, ToolMaker
from cellwright.events import Event
from cellwright.model.provider import Provider
from cellwright.redaction.redaction import Redaction, secret_values
from cellwright.sessions.session import Session
from cellwright.tools.notebook.open_notebook import OpenNotebooks

if TYPE_CHECKING:
    from cellwright.config.hooks.asked_hooks import CallMcpTool
    from cellwright.conversation.kernel_copies import KernelParts
    from cellwright.doctor.check import Check
    from cellwright.tools.agent import StartAgent
    from cellwright.tools.shell.background import StopAgent
    from cellwright.tools.skill import LoadSkill


class Host(Struct, frozen=True, kw_only=True):
    """The place of a conversation: its folder, its environment, and what the process has that hosts it.

    `interface` says for Claude where the user is. `inline_settings` gives the settings that are in no file, the files
    of `setting_scopes` count besides, and `trusts_folder` and `plugin_folders` are as in `SettingsInForce`.
    `more_tools` makes the tools that this process adds to the built-in ones (the kernel's `Python`). `is_unsaved` says
    of a file whether an editor holds changes of it; `open_notebooks` are the notebooks that are open in its front ends;
    `live_definitions` says of a name what this process itself has by it, `has_name` whether it has a variable, or a table
    with a column, of the name; `checks` gives what `/doctor` looks at besides
    the usual; `find_sandbox` says what can confine commands, and is asked with the first run; `notebook` is the file
    that this process runs, if it runs one; `kernel` is what features need of a kernel, if this is one. `one_prompt`: no
    prompt follows the first, so that nobody would be told what ends after it.
    """

    cwd: Path
    interface: str
    environ: Mapping[str, str] | None = None
    inline_settings: Callable[[], tuple[InlineSettings, ...]] = tuple
    setting_scopes: Container[Scope] = SCOPES
    trusts_folder: bool = False
    plugin_folders: Sequence[Path] = ()
    more_tools: ToolMaker | None = None
    is_unsaved: Callable[[Path], bool] = never_unsaved
    open_notebooks: OpenNotebooks | None = None
    live_definitions: Callable[[str], str] = no_live_definition
    has_name: Callable[[str], bool] = lambda _name: False
    checks: Callable[[], Sequence[Check]] = tuple
    find_sandbox: FindSandbox = look_for_sandbox
    notebook: Callable[[], Path | None] = lambda: None
    kernel: KernelParts | None = None
    one_prompt: bool = False


class Core:
    """The parts that every conversation has. `complete` gives it its features, and with them its tools and session."""

    tools: ConversationTools
    sessions: ConversationSessions
    kept: KeptChanges
    style: Callable[[], AnswerStyle]

    def __init__(
        self,
        host: Host,
        provider: Provider | None,
        thread: AgentThread | None,
        jobs: CallerJobs | None,
        call_mcp_tool: CallMcpTool,
    ) -> None:
        self.host = host
        self.jobs = jobs or CallerJobs()
        self.choices = Choices(folder=host.cwd)
        """The choices of the user for the prompts to come."""
        self.in_force = SettingsInForce(
            host.cwd,
            os.environ if host.environ is None else host.environ,
            inline_settings=with_choices(host.inline_settings, self.choices),
            scopes=host.setting_scopes,
            trusts_folder=host.trusts_folder,
            plugin_folders=host.plugin_folders,
        )
        self.model = ModelConnection(self.in_force, provider)
        self.redaction = Redaction(lambda: {**secret_values(self.in_force.environment), **self.model.keys})
        self.sandbox = SandboxLookup(host.find_sandbox)
        self.thinking_time = ThinkingTime(self.sandbox)
        self.hooks = HooksInForce(self.in_force, call_mcp_tool)
        self.observers = Observers()
        self.thread = thread or AgentThread()
        self.queue = RunQueue(self.thread)
        self.features: Sequence[Feature] = ()

    def complete(
        self,
        features: Sequence[Feature],
        *,
        kept: KeptChanges,
        style: Callable[[], AnswerStyle],
        load_skill: LoadSkill,
        start_agent: StartAgent,
        stop_agent: StopAgent,
    ) -> None:
        """Take the features, in the order in which they are asked, and what of them is a tool's or the system prompt's."""
        host = self.host
        self.features, self.kept, self.style = features, kept, style
        self.tools = ConversationTools(
            self.in_force,
            self.hooks,
            self.model,
            kept,
            is_unsaved=host.is_unsaved,
            open_notebooks=host.open_notebooks,
            more=host.more_tools,
            load_skill=load_skill,
            start_agent=start_agent,
            stop_agent=stop_agent,
            live_definitions=host.live_definitions,
        )

        def session_left(session: Session, because: str) -> None:
            for feature in self.features:
                feature.session_left(because)
            self.hooks.end_session(session, because, self.thread, wait=False)

        self.sessions = ConversationSessions(
            self.in_force, self.queue, self.tools, left=session_left, changed=self.observers.session_changed
        )
        for feature in features:
            if feature.observer is not None:
                self.observers.add(feature.observer)

    def project_confinement(self) -> Confinement | None:
        """The bounds of programs that the project brings along; may wait for the sandbox to be found."""
        return PolicyInForce(self.in_force, RunOptions(), self.sandbox.abilities).confinement_for_project_code()

    def listed(self, agent: AgentSetup) -> str:
        """The lists that `agent` receives with where it works: of skills, and of agents."""
        return "\n".join(filter(None, (feature.listed(agent) for feature in self.features)))

    def agent(
        self,
        options: RunOptions,
        provider: Provider,
        can_use_tool: CanUseTool | None = None,
        *,
        run: RunInfo | None = None,
        context: Sequence[ContextProvider] = (),
    ) -> AgentSetup:
        """The agent of `run`, or of none; `context` is found again behind a summary, besides what the features find.

        Raises `CellwrightError` for what is wrong with the options.
        """
        settings, environment = self.in_force.settings, self.in_force.environment
        on_denied = options.on_denied or settings.on_denied
        common = options.over(settings)
        policy = PolicyInForce(self.in_force, options, self.sandbox.abilities)
        tools, now = self.tools.of(options), policy.now()
        agent = AgentSetup(
            provider=provider,
            model=model_of(options, settings, environment),
            model_settings=model_settings_of(options, settings, environment),
            system=system_blocks(
                [tool for tool in tools if not now.hides(tool)],
                style=self.style(),
                append=options.append_system_prompt,
                instead=options.system_prompt,
            ),
            tools=tools,
            features=ConversationFeatures(self, options, run, context),
            policy=policy,
            can_use_tool=can_use_tool if on_denied == "ask" else None,
            limits=RunLimits(
                max_turns=common.max_turns,
                budget_usd=options.budget_usd or settings.run_budget,
                ends_when_denied=on_denied == "error",
                max_parallel_tools=common.max_parallel_tools or USUAL_LIMITS.max_parallel_tools,
                tool_timeout=common.tool_timeout,
            ),
            hooks=together(self.hooks.of(self.in_force.program_environment), as_hooks(options.hooks)),
            redaction=self.redaction if settings.redact_secrets else None,
            final_answer=FinalAnswer(type=options.answer_type),
            compaction=compaction_settings(settings, environment),
        )
        for feature in self.features:
            agent = feature.agent(agent, options)
        return agent


class ConversationFeatures(AgentFeatures):
    """The conversation's features as an agent of it asks them, in a run or in none."""

    def __init__(
        self, core: Core, options: RunOptions, run: RunInfo | None, context: Sequence[ContextProvider]
    ) -> None:
        self._core = core
        self._options = options
        # what the user's instructions are comes first, and is all that is sent again if no run sums up
        asked = sorted(core.features, key=lambda feature: not feature.instructs)
        found = [each.after_summary(run) for each in asked if run is not None or each.instructs]

        def surroundings(session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
            place = place_blocks(agent, core.in_force.cwd, core.host.interface, core.in_force.settings, core.listed)
            return (*place, *mode_blocks(session, agent))

        self._find = after_summary(
            core.in_force.cwd,
            surroundings,
            core.tools.of(RunOptions()),
            (*(each for each in found if each is not None), *context),
        )

    @property
    def has_next_prompt(self) -> bool:
        return not self._core.host.one_prompt

    def tools(self) -> Sequence[Tool]:
        return [tool for feature in self._core.features for tool in feature.tools(self._options)]

    async def after_calls(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        await self._core.hooks.fire_file_changes(session, agent.policy)
        return [item for feature in self._core.features for item in await feature.after_calls(paths, session, agent)]

    async def after_summary(self, session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        return await self._find(session, agent)

    async def answered(self, answer: str, session: Session) -> Sequence[Event]:
        asked = [await feature.answered(answer, session, self._options) for feature in self._core.features]
        return [event for events in asked for event in events]
