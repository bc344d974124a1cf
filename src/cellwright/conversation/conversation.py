"""A conversation: one session, the tools it has, and one run at a time.

Every face stands on it: the cell, the panel, `cellwright.ask` and the terminal make a `RunRequest` and a `RunSurface`
and call `start`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.confinement import Confinement
from cellwright.agent.hooks.hook_result import HookResult
from cellwright.agent.thread import AgentThread, CallerJobs, is_agent_code
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.settings.layers import SCOPES, Scope
from cellwright.config.settings.settings_files import InlineSettings
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.model_connection import ModelConnection
from cellwright.conversation.observers import Observers
from cellwright.conversation.prompts.agents import Agents
from cellwright.conversation.prompts.file_blocks import FileBlocks
from cellwright.conversation.prompts.goal import Goal
from cellwright.conversation.prompts.mcp import McpServers, agents_servers, plugin_servers
from cellwright.conversation.prompts.memory import MemoryContext
from cellwright.conversation.prompts.not_loaded import NotLoadedNews
from cellwright.conversation.prompts.output_styles import OutputStyles
from cellwright.conversation.prompts.prompt import checked
from cellwright.conversation.prompts.skills import Skills
from cellwright.conversation.runs.budgets_in_force import BudgetsInForce
from cellwright.conversation.runs.compact_and_btw import SideAnswer, ask_beside, compact_session
from cellwright.conversation.runs.policy_in_force import PolicyInForce
from cellwright.conversation.runs.run import Run
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.run_queue import RunQueue
from cellwright.conversation.runs.run_request import RunRequest, RunSurface
from cellwright.conversation.runs.sandbox_lookup import FindSandbox, SandboxLookup, look_for_sandbox
from cellwright.conversation.runs.starting_run import RunParts, StartingRun
from cellwright.conversation.runs.subagents import Subagents
from cellwright.conversation.runs.user_choices import Choices, with_choices
from cellwright.conversation.session_choice import ConversationSessions
from cellwright.conversation.tools.built_in_tools import never_unsaved, no_live_definition
from cellwright.conversation.tools.thinking_time import ThinkingTime
from cellwright.conversation.tools.toolset import ConversationTools, ToolMaker
from cellwright.doctor.check import Check
from cellwright.errors import CellwrightError, ErrorCode, fault
from cellwright.events import ContextCompacted, Emit
from cellwright.model.provider import Provider
from cellwright.redaction.redaction import Redaction, secret_values
from cellwright.sessions.catalog.retention import Retention
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import signing_key, state_folder
from cellwright.telemetry.spans import RunSpans
from cellwright.telemetry.tool_log import ToolLog
from cellwright.tools.files.writing.recovery import recover_changes
from cellwright.tools.notebook.open_notebook import OpenNotebooks
from cellwright.tools.shell.user_commands import UserCommands

if TYPE_CHECKING:
    from cellwright.conversation.runs.served_calls import ServedCalls

END_TIMEOUT_SECONDS = 2.0
"""The time runs may take to come to their end when the conversation is closed."""


class Conversation:
    """One session and the means to go on with it. Runs are started from any thread and work on the agent's thread.

    `interface` is how Claude is told where the user is. `inline_settings` gives the settings that are in no file, the
    files of `setting_scopes` count besides, and `trusts_folder` is as in `SettingsInForce`.
    `more_tools` makes the tools that this process adds to the built-in ones (the kernel's `Python`); `jobs` is where
    such tools put work for the thread that waits. `is_unsaved` says of a file whether an editor holds changes of it;
    `open_notebooks` are the notebooks that are open in its front ends; `live_definitions` says of a name what this process
    itself has by it; `checks` are what `/doctor` looks at besides the
    usual; `find_sandbox` says what can confine commands, and is asked with the first run; `notebook` is the file that this
    process runs, where it runs one.
    """

    def __init__(
        self,
        *,
        cwd: Path,
        interface: str,
        environ: Mapping[str, str] | None = None,
        inline_settings: Callable[[], tuple[InlineSettings, ...]] = tuple,
        setting_scopes: Container[Scope] = SCOPES,
        trusts_folder: bool = False,
        more_tools: ToolMaker | None = None,
        provider: Provider | None = None,
        thread: AgentThread | None = None,
        jobs: CallerJobs | None = None,
        is_unsaved: Callable[[Path], bool] = never_unsaved,
        open_notebooks: OpenNotebooks | None = None,
        live_definitions: Callable[[str], str] = no_live_definition,
        checks: Sequence[Check] = (),
        find_sandbox: FindSandbox = look_for_sandbox,
        notebook: Callable[[], Path | None] = lambda: None,
    ) -> None:
        self.cwd = cwd
        self.thread = thread or AgentThread()
        self.jobs = jobs or CallerJobs()
        self.checks = checks
        self.choices = Choices(folder=cwd)
        """The choices of the user for the prompts to come."""
        self.in_force = SettingsInForce(
            cwd,
            os.environ if environ is None else environ,
            inline_settings=with_choices(inline_settings, self.choices),
            scopes=setting_scopes,
            trusts_folder=trusts_folder,
        )
        self.model = ModelConnection(self.in_force, provider)
        self.redaction = Redaction(lambda: {**secret_values(self.in_force.environment), **self.model.keys})
        self.tool_log = ToolLog(key=functools.cache(lambda: signing_key(state_folder() / "tool-log-key")))
        self.checkpoints = Checkpoints(
            roots=lambda: (cwd, *self.in_force.settings.additional_directories),
            enabled=lambda: self.in_force.settings.file_checkpointing,
            days=lambda: self.in_force.settings.cleanup_period_days,
        )
        self.sandbox = SandboxLookup(find_sandbox)
        self.thinking_time = ThinkingTime(self.sandbox)
        self.user_commands = UserCommands(cwd, lambda: self.in_force.environ)
        self.memory = MemoryContext(self.in_force)
        self.styles = OutputStyles(self.in_force)
        self.mcp = McpServers(self.in_force, self._project_confinement)
        self.mcp.add_source(lambda: plugin_servers(self.in_force))
        self._hooks = HooksInForce(self.in_force, self.mcp.call_for_text)
        self.skills = Skills(self.in_force, self._hooks)
        self.agents = Agents(self.in_force)
        self.mcp.add_source(lambda: agents_servers(self.agents.found().agents.values(), cwd))
        self.subagents = Subagents(
            self.in_force,
            self.agents,
            self.memory,
            self.skills,
            self._hooks,
            self.mcp,
            lambda folder: self.tools.in_folder(folder),
        )
        self.budgets = BudgetsInForce(lambda: self.in_force.settings, notebook)
        self.tools = ConversationTools(
            self.in_force,
            self._hooks,
            self.model,
            self.checkpoints,
            is_unsaved=is_unsaved,
            open_notebooks=open_notebooks,
            more=more_tools,
            load_skill=self.skills.load,
            start_agent=self.subagents.start,
            stop_agent=self.subagents.stop_by_claude,
            live_definitions=live_definitions,
        )
        self.observers = Observers()
        self.observers.add(RunSpans())
        self.runs = RunQueue(self.thread)
        self.sessions = ConversationSessions(
            self.in_force, self.runs, self.tools, left=self._session_left, changed=self.observers.session_changed
        )
        self.goal = Goal(lambda: self.sessions.current, self.in_force)
        self._parts = RunParts(
            interface=interface,
            jobs=self.jobs,
            in_force=self.in_force,
            hooks=self._hooks,
            queue=self.runs,
            sessions=self.sessions,
            tools=self.tools,
            model=self.model,
            checkpoints=self.checkpoints,
            retention=Retention(lambda: self.in_force.settings.cleanup_period_days),
            redaction=self.redaction,
            tool_log=self.tool_log,
            sandbox=self.sandbox,
            thinking_time=self.thinking_time,
            user_commands=self.user_commands,
            memory=self.memory,
            file_blocks=FileBlocks(),
            styles=self.styles,
            skills=self.skills,
            mcp=self.mcp,
            agents=self.agents,
            subagents=self.subagents,
            budgets=self.budgets,
            goal=self.goal,
            not_loaded=NotLoadedNews(self.in_force, self._hooks, self.skills, self.agents, self.mcp),
        )
        self._lock = threading.Lock()
        recover_changes()  # whoever looks at files beside us finds none half changed, before any prompt

    def start(self, request: RunRequest, surface: RunSurface) -> Run:
        """Start a run on the agent's thread. While another one goes on it waits for its turn.

        Raises `CellwrightError` when the caller is code that the agent itself runs, when the prompt is empty, and for what
        is wrong with the run where its turn has come already.
        """
        self.thread.refuse_forked()
        request = replace(request, prompt=checked(request.prompt))
        if is_agent_code():
            message = (
                "Code that Claude runs cannot ask Claude: the run would wait for itself. Ask from a cell of your own."
            )
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)
        observers = self.observers if request.provider is None else Observers()  # nobody looks on at a dry run
        # the agent's thread is not held up by what a run needs that begins on another; its own wait for their turn anyway
        with contextlib.nullcontext() if self.thread.is_current() else self._lock:
            run = self.runs.add(request, surface)
            run.bus.subscribe(self.tool_log.add)
            surface.belongs_to(run)
            run.bus.subscribe(surface.emit)
            observers.run_added(run)
            starting = StartingRun(self._parts, run, request, behind=self.runs.current)
            try:
                task = self.thread.submit(starting.work(starting.prepare_here()))
            except BaseException as error:
                self.thread.call(functools.partial(starting.failed, error))
                self.runs.drop(run, error)
                observers.run_ended(run)
                if isinstance(error, Exception) and not isinstance(error, CellwrightError):
                    raise fault(error) from error
                raise
            run.begin(task)
            task.future.add_done_callback(functools.partial(self.runs.ended, run))
            task.future.add_done_callback(lambda _: observers.run_ended(run))
            return run

    async def compact(self, options: RunOptions, focus: str, emit: Emit) -> ContextCompacted:
        """Sum up the session, with particular attention to `focus`. On the agent's thread; raises as `compact_session`."""
        return await compact_session(self._parts, options, focus, emit)

    async def ask_beside(self, options: RunOptions, question: str) -> SideAnswer:
        """Ask about the conversation without adding to it. On the agent's thread; raises as `ask_beside`."""
        return await ask_beside(self._parts, options, question)

    async def add_folder(self, folder: Path) -> HookResult:
        """Have Claude work in `folder` as well, from its next call on; gives what DirectoryAdded hooks say."""
        with self.in_force.users_change():
            self.choices.folders = tuple(dict.fromkeys((*self.choices.folders, folder)))
        session = self.sessions.current
        self.in_force.refresh(session_has_begun=session.has_begun)
        return await self._hooks.fire_folder_added(session, folder)

    def agent(self, options: RunOptions) -> AgentSetup:
        """The agent of runs with these options that belong to no session of this conversation; nobody is asked.

        Raises `CellwrightError` for what is wrong with the options or the credentials.
        """
        return self._parts.agent(options, self.model.chosen(options.provider), None)

    def served_calls(self, options: RunOptions, notify: Callable[[str], None]) -> ServedCalls:
        """The tools that `options` name, for another program to call. Raises as `ServedCalls`."""
        from cellwright.conversation.runs.served_calls import ServedCalls  # few conversations serve others

        return ServedCalls(self._parts, options, notify)

    def set_up(self, trigger: str) -> HookResult:
        """Run the Setup and SessionStart hooks without a prompt; gives what they say. Raises as `HooksInForce.set_up`."""
        return self.thread.submit(self._hooks.set_up(self.sessions.current, trigger)).future.result()

    def _project_confinement(self) -> Confinement | None:
        policy = PolicyInForce(self.in_force, RunOptions(), self.sandbox.abilities)
        return policy.confinement_for_project_code()

    def close(self) -> None:
        """End the runs, close the session, stop the thread."""
        self.runs.end_all(END_TIMEOUT_SECONDS)
        if self.subagents.running and not self.thread.is_current():
            concurrent.futures.wait([self.thread.submit(self.subagents.stop_all()).future], END_TIMEOUT_SECONDS)
        if self.mcp.connections and not self.thread.is_current():
            concurrent.futures.wait([self.thread.submit(self.mcp.close()).future], END_TIMEOUT_SECONDS)
        if (session := self.sessions.started) is not None:
            self._hooks.end_session(session, "other", self.thread, wait=True)
        if self.model.has_programs and not self.thread.is_current():
            concurrent.futures.wait([self.thread.submit(self.model.end_programs()).future], END_TIMEOUT_SECONDS)
        self.thread.stop()
        self.sessions.close()

    def _session_left(self, session: Session, because: str) -> None:
        self.user_commands.forget()
        self.goal.clear()
        if because == "clear":
            self.mcp.ask_again()
        self._hooks.end_session(session, because, self.thread, wait=False)
