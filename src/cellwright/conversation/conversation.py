"""A conversation: one session, the tools it has, and one run at a time. What every face stands on.

The cell, `cellwright.ask` and the terminal build the same thing here: settings are read, the policy and the tools made, the
provider connected, and the run started on the agent's thread.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cellwright.agent.agent import Agent
from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.calls.redaction import Redaction
from cellwright.agent.hooks.protocol import as_hooks, together
from cellwright.agent.prompt import Prompt, system_blocks
from cellwright.agent.steering import SteeringText
from cellwright.agent.thread import AgentTask, AgentThread, CallerJobs, is_agent_code
from cellwright.agent.tool import Tool
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.checkpoints.notebooks import RecordedNotebooks
from cellwright.config.api_key_helper import with_helpers_key
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.model_connection import ModelConnection
from cellwright.conversation.observers import Observers
from cellwright.conversation.prompt import checked
from cellwright.conversation.resolve_options import (
    Asking,
    Playing,
    effort_of,
    model_of,
    policy_of,
)
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.run_queue import ConversationRun, RunQueue
from cellwright.conversation.runs.starting_run import StartingRun, belongs_nowhere, nothing_at_turn
from cellwright.conversation.session_choice import ConversationSessions
from cellwright.conversation.toolset import ConversationTools, ToolMaker, Workplace, never_unsaved
from cellwright.doctor.check import Check
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Emit, RunEnd, SteerHow
from cellwright.model.pricing import Tally
from cellwright.model.provider import Provider
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.catalog.retention import Retention
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import signing_key, state_folder
from cellwright.telemetry.spans import RunSpans
from cellwright.telemetry.tool_log import ToolLog
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebooks
from cellwright.tools.process.environment import secret_values

ROUNDS_UNTIL_CLOSED = 3
"""One makes the task that closes an iterator, one begins it; one to spare."""

END_TIMEOUT_SECONDS = 2.0
"""How long runs may take to come to their end when the conversation is closed."""


class Conversation:
    """One session and the means to go on with it. Runs are started from any thread and work on the agent's thread.

    `face` is how Claude is told where the user is. `more_tools` makes the tools that this process adds to the built-in
    ones (the kernel's `Python`); `jobs` is where such tools put work for the thread that waits. Before a run each of
    `asking` may have a question about trust. `is_unsaved` says of a file whether an editor holds changes of it;
    `open_notebooks` are the notebooks that are open in its front ends.
    """

    def __init__(
        self,
        *,
        cwd: Path,
        face: str,
        environ: Mapping[str, str] | None = None,
        more_tools: ToolMaker | None = None,
        provider: Provider | None = None,
        thread: AgentThread | None = None,
        is_unsaved: Callable[[Path], bool] = never_unsaved,
        open_notebooks: OpenNotebooks | None = None,
    ) -> None:
        self.cwd = cwd
        self.face = face
        self.environ = os.environ if environ is None else environ
        self.thread = thread or AgentThread()
        self.jobs = CallerJobs()
        self.redaction = Redaction(lambda: secret_values(self.environment))
        self.open_notebooks: OpenNotebooks = open_notebooks or NothingOpen()
        self.in_force = SettingsInForce(cwd, self.environ)
        self.asking: list[Asking] = [self.in_force]
        self.hooks = HooksInForce(self.in_force)
        self.tool_log = ToolLog(key=functools.cache(lambda: signing_key(state_folder() / "tool-log-key")))
        self.checkpoints = Checkpoints(
            roots=lambda: (self.cwd, *self.settings.additional_directories),
            enabled=lambda: self.settings.file_checkpointing,
            days=lambda: self.settings.cleanup_period_days,
        )
        self.retention = Retention(lambda: self.settings.cleanup_period_days)
        self._is_unsaved = is_unsaved
        self._tools = ConversationTools(self._workplace, lambda: FileState(is_unsaved, self.checkpoints), more_tools)
        self._connection = ModelConnection(provider)
        self.observers = Observers()
        self.observers.add(RunSpans())
        self.completions = Tally()
        self.checks: list[Check] = []
        self.sessions = ConversationSessions(cwd, self._left, self.observers.session_changed)
        self._told: set[str] = set()
        self.runs = RunQueue(self.thread, self.jobs)
        self._lock = threading.Lock()

    @property
    def settings(self) -> Settings:
        """The settings as they stand."""
        return self.in_force.settings

    @property
    def environment(self) -> Mapping[str, str]:
        """The process's environment, with what the settings' `env` puts over it."""
        return {**self.environ, **self.settings.env} if self.settings.env else self.environ

    @property
    def session(self) -> Session:
        """The session that the next run goes on with; a new one, kept on disk, when there is none yet."""
        return self.sessions.current

    def use_session(self, session: Session, *, because: str = "resume") -> None:
        """Go on with `session`; the one before is closed. What was read is forgotten: files must be read again.

        `because` is what SessionEnd hooks are told.
        """
        with self.runs.held_off():  # a cell could begin just now, in the session that is closed here
            self.sessions.use(session, because)
            self._tools.forget()

    def new_session(self) -> None:
        """Go on with a session of its own; the one before stays on disk."""
        self.use_session(self.sessions.new(), because="clear")
        self.in_force.ask_again()

    def resume(self, session_id: str) -> None:
        """Go on with the session of this id (or the start of one) that was held in this folder.

        Raises `CellwrightError` SESSION_NOT_FOUND, SESSION_CORRUPTED.
        """
        self.refuse_while_running()
        if (session := self.sessions.find(session_id)) is not None:
            self.use_session(session)

    def resume_newest(self) -> bool:
        """Go on with the newest session of this folder; False, and a new one, when there is none.

        Of one that is damaged with what can be read of it, in a fork; the session's notices say so.
        """
        self.refuse_while_running()
        newest, notices = self.sessions.newest()
        if newest is None:
            self.new_session()
        elif newest is not self.sessions.begun:
            self.use_session(newest)
        self.session.notices += notices
        return newest is not None

    def _left(self, session: Session, because: str) -> None:
        self.hooks.end_session(session, because, self.thread, wait=False)

    @property
    def file_state(self) -> FileState:
        """What Claude knows of files."""
        return self._tools.file_state

    def tools(self, options: RunOptions) -> tuple[Tool, ...]:
        """The tools of a run: the built-in ones, this process's, and the ones that came with the options."""
        return self._tools.of(options)

    def _workplace(self, file_state: FileState) -> Workplace:
        return Workplace(
            cwd=self.cwd,
            settings=self.settings,
            environ=ChainMap(self.hooks.exported, self.environment),  # type: ignore[arg-type]  # it is only read
            provider=lambda: self.provider,
            is_unsaved=self._is_unsaved,
            open_notebooks=RecordedNotebooks(self.open_notebooks, lambda: self.checkpoints.turn),
            file_state=file_state,
        )

    def policy(self, options: RunOptions) -> PermissionPolicy:
        """The policy of a run: the settings', and the rules and the mode of the options.

        Raises `CellwrightError` for a mode that is refused here, and for a malformed rule.
        """
        return policy_of(options, self.settings, self.cwd, self.environ)

    def agent(self, options: RunOptions, provider: Provider, can_use_tool: CanUseTool | None) -> Agent:
        """The agent of a run."""
        defaults = {
            name: value
            for name in ("max_turns", "budget_usd", "max_tokens", "max_parallel_tools", "tool_timeout")
            if (value := getattr(options, name)) is not None
        }
        return Agent(
            provider=provider,
            model=model_of(options, self.settings, self.environment),
            effort=effort_of(options, self.settings),
            system=system_blocks(),
            tools=self.tools(options),
            policy=self.policy(options),
            can_use_tool=can_use_tool,
            checkpoints=self.checkpoints,
            hooks=together(self.hooks.of(self.environment), as_hooks(options.hooks)),
            redaction=self.redaction if self.settings.redact_secrets else None,
            answer_type=options.answer_type,
            **defaults,
        )

    def start(
        self,
        prompt: Prompt,
        options: RunOptions,
        *,
        emit: Emit,
        can_use_tool: CanUseTool | None = None,
        ask_user: CanUseTool | None = None,
        session: Session | None = None,
        provider: Provider | None = None,
        playing: Playing | None = None,
        place: str = "Python",
        background: bool = False,
        at_turn: Callable[[], object] = nothing_at_turn,
        belongs_to: Callable[[ConversationRun], object] = belongs_nowhere,
    ) -> AgentTask[RunEnd]:
        """Start a run on the agent's thread; `emit`, `can_use_tool` and `ask_user` are called there.

        While another run goes on it waits for its turn; `at_turn` is called when that has come, before the session is
        looked at. `place` says in words where it was asked for; `background`: no thread waits for its end. `belongs_to`
        is told the run before its first event; what it subscribes is told of events before `emit` and those who look on.

        `ask_user` reaches a person, never a program: what a folder brings along is trusted only so; None where nobody can
        be asked. `session` and `provider` stand in for the conversation's own for this run; `playing` says whether it is
        played from a recording. Raises `CellwrightError` when the caller is code that the agent itself runs, or
        when the prompt is empty.
        """
        prompt = checked(prompt)
        if is_agent_code():
            message = (
                "Code that Claude runs cannot ask Claude: the run would wait for itself. Ask from a cell of your own."
            )
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)
        observers = self.observers if provider is None else Observers()  # nobody looks on at a dry run
        # the agent's thread is not held up by what a run needs that begins on another; its own wait for their turn anyway
        with contextlib.nullcontext() if self.thread.is_current() else self._lock:
            run = self.runs.add(prompt, place, background=background)
            run.bus.subscribe(self.tool_log.add)
            belongs_to(run)
            run.bus.subscribe(emit)
            observers.run_added(run)
            coming = StartingRun(
                self, run, prompt, options, can_use_tool, ask_user, session, provider, playing, at_turn
            )
            try:
                task = self.runs.start(run, coming.prepare)
            except BaseException:
                observers.run_ended(run)
                raise
            task.future.add_done_callback(lambda _: observers.run_ended(run))
            return task

    def tell(self, session: Session, notices: Sequence[str]) -> None:
        """Tell each of `notices` with the run that begins, once in this conversation."""
        session.notices += [notice for notice in dict.fromkeys(notices) if notice not in self._told]
        self._told.update(notices)

    @property
    def tool_notices(self) -> Sequence[str]:
        """What is to be said of tools that packages and folders bring."""
        return self._tools.notices

    def forget_tools(self) -> None:
        """The next run's tools are made anew, as the settings stand then."""
        self._tools.forget()

    @property
    def provider(self) -> Provider:
        """The way to the model; connected at first use, and again when the environment's credentials have changed.

        Raises `CellwrightError` API_KEY_MISSING.
        """
        return self._connection.provider(lambda: with_helpers_key(self.environment, self.settings.api_key_helper))

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self.runs.current is not None

    def cancel(self) -> None:
        """Interrupt the run that is going on, if one is. From any thread."""
        if (run := self.runs.current) is not None:
            run.stop()

    def steer(self, text: str, *, how: SteerHow = "steer") -> str:
        """Tell Claude something while a run goes on: with its next step, or ("queue") when it would end. From any thread.

        Gives the id by which `withdraw` takes it back while it waits. Raises `CellwrightError` where no run takes it.
        """
        words = SteeringText(secrets.token_hex(8), text, how)
        self.runs.steer(words)
        return words.id

    def withdraw(self, words_id: str) -> bool:
        """Take back what `steer` was given; False when Claude has it already. From any thread."""
        return self.runs.withdraw(words_id)

    def close(self) -> None:
        """End the runs, close the session, stop the thread."""
        self.runs.end_all(END_TIMEOUT_SECONDS)
        if (session := self.sessions.begun) is not None:
            self.hooks.end_session(session, "other", self.thread, wait=True)
        self.thread.stop()
        self.sessions.close()

    async def until_left_run_ended(self) -> None:
        """Wait for the end of a run whose iteration was left: Python closes the iterator in the loop's next rounds."""
        await self.runs.until_stopping_ended(ROUNDS_UNTIL_CLOSED)

    def refuse_while_running(self) -> None:
        """Raises `CellwrightError` while a run goes on or waits."""
        self.runs.refuse_while_running()
