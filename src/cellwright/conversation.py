"""A conversation: one session, the tools it has, and one run at a time. What every face stands on.

The cell, `cellwright.ask` and the terminal build the same thing here: settings are read, the policy and the tools made, the
provider connected, and the run started on the agent's thread.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import secrets
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cellwright.agent.agent import Agent
from cellwright.agent.agent_thread import AgentTask, AgentThread, CallerJobs, is_agent_code
from cellwright.agent.approval import CanUseTool
from cellwright.agent.full_prompt import Prompt
from cellwright.agent.given_hooks import as_hooks, together
from cellwright.agent.prompt import system_blocks
from cellwright.agent.provider import Provider
from cellwright.agent.redaction import Redaction
from cellwright.agent.session import Session, find_sessions, sessions_folder
from cellwright.agent.state_folder import state_folder
from cellwright.agent.steering import Words
from cellwright.agent.tool import Tool
from cellwright.agent.turn_record import NOT_KEPT
from cellwright.agent.users_key import users_key
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.checkpoints.recorded_notebooks import RecordedNotebooks
from cellwright.config.api_key_helper import with_helpers_key
from cellwright.config.hooks_in_force import HooksInForce
from cellwright.config.settings import Settings
from cellwright.config.settings_in_force import SettingsInForce, TrustQuestion
from cellwright.conversation_runs import ConversationRun, Runs, Work
from cellwright.conversation_settings import (
    Asking,
    Playing,
    ask_all,
    effort_of,
    model_of,
    nobody_was_asked,
    policy_of,
)
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Emit, RunEnd, SteerHow
from cellwright.mentions import mentioned_files
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules import grant_problem, parse_rule, restriction_problem
from cellwright.run_options import RunOptions
from cellwright.run_prompt import checked, gathering, with_surroundings
from cellwright.tool_log import ToolLog
from cellwright.toolbox import ToolMaker, Workplace, all_tools, never_unsaved
from cellwright.tools.child_environment import secret_values
from cellwright.tools.child_processes import child_processes
from cellwright.tools.file_state import FileState
from cellwright.tools.open_notebook import NothingOpen, OpenNotebooks

ROUNDS_UNTIL_CLOSED = 3
"""One makes the task that closes an iterator, one begins it; one to spare."""

SECONDS_TO_END = 2.0
"""How long runs may take to come to their end when the conversation is closed."""

CREDENTIAL_NAMES = ("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "CLOUD_ML_", "VERTEX_", "AZURE_", "CELLWRIGHT_")
"""How the names of environment variables start that say where the model is and who asks."""


def _nothing() -> None:
    """What is done at the turn of most runs."""


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
        self.tool_log = ToolLog(key=functools.cache(lambda: users_key(state_folder() / "tool-log-key")))
        self.checkpoints = Checkpoints(
            roots=lambda: (self.cwd, *self.settings.additional_directories),
            enabled=lambda: self.settings.file_checkpointing,
            days=lambda: self.settings.cleanup_period_days,
        )
        self.file_state = FileState(is_unsaved, self.checkpoints)
        self._more_tools = more_tools
        self._is_unsaved = is_unsaved
        self._tool_notices: list[str] = []
        self._tools: tuple[Tool, ...] | None = None
        self._given_provider = provider
        self._provider: Provider | None = None
        self._credentials: dict[str, str] = {}
        self._session: Session | None = None
        self._own_tools: Session | None = None
        self._told: set[str] = set()
        self.runs = Runs(self.thread, self.jobs)
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
        if self._session is None:
            self._session = Session.create(self.cwd, sessions_folder(self.cwd))
        return self._session

    def use_session(self, session: Session, *, because: str = "resume") -> None:
        """Go on with `session`; the one before is closed. What was read is forgotten: files must be read again.

        `because` is what SessionEnd hooks are told.
        """
        self.refuse_while_running()
        if self._session is not None and self._session is not session:
            self.hooks.end_session(self._session, because, self.thread, wait=False)
            self._session.close()
        self._session = session
        self._tools = None

    def new_session(self) -> None:
        """Go on with a session of its own; the one before stays on disk."""
        session = Session.create(self.cwd, sessions_folder(self.cwd))
        if self._session is not None and self._session.encoded:
            session.started_by = "clear"
        self.use_session(session, because="clear")
        self.in_force.ask_again()

    def resume(self, session_id: str) -> None:
        """Go on with the session of this id (or the start of one) that was held in this folder.

        Raises `CellwrightError` SESSION_NOT_FOUND, SESSION_CORRUPTED.
        """
        if session_id and self._session is not None and self._session.id.startswith(session_id):
            return
        found = [path for path in find_sessions(self.cwd) if session_id and path.stem.startswith(session_id)]
        if len(found) != 1:
            what = "matches more than one session" if found else "is no session"
            known = ", ".join(path.stem for path in (found or find_sessions(self.cwd))[:5]) or "none"
            message = f"{session_id!r} {what} of {self.cwd}. The newest here: {known}."
            raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
        self.use_session(Session.load(found[0]))

    def resume_newest(self) -> bool:
        """Go on with the newest session of this folder; False, and a new one, when there is none."""
        found = find_sessions(self.cwd)
        if not found:
            self.new_session()
            return False
        if self._session is None or self._session.path != found[0]:
            self.use_session(Session.load(found[0]))
        return True

    def tools(self, options: RunOptions) -> tuple[Tool, ...]:
        """The tools of a run: the built-in ones, this process's, and the ones that came with the options."""
        if not options.builtin_tools:
            return options.tools
        if self._tools is None:
            self.file_state = FileState(self._is_unsaved, self.checkpoints)
            place = Workplace(
                cwd=self.cwd,
                settings=self.settings,
                environ=ChainMap(self.hooks.exported, self.environment),  # type: ignore[arg-type]  # it is only read
                provider=lambda: self.provider,
                is_unsaved=self._is_unsaved,
                open_notebooks=RecordedNotebooks(self.open_notebooks, lambda: self.checkpoints.turn),
                file_state=self.file_state,
            )
            self._tools, self._tool_notices = all_tools(place, self._more_tools)
        return (*self._tools, *options.tools)

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
        at_turn: Callable[[], object] = _nothing,
    ) -> AgentTask[RunEnd]:
        """Start a run on the agent's thread; `emit`, `can_use_tool` and `ask_user` are called there.

        While another run goes on it waits for its turn; `at_turn` is called when that has come, before the session is
        looked at. `place` says in words where it was asked for; `background`: no thread waits for its end.

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
        with self._lock:
            run = self.runs.add(prompt, place, background=background)
            listen = run.listen(emit)
            begin = functools.partial(
                self._begin, run, prompt, options, listen, can_use_tool, session, provider, playing
            )
            asking = [*self.asking, *(playing.asking if playing is not None else ())]
            prepare = functools.partial(self._prepared, at_turn, begin, asking, ask_user, session, listen)
            return self.runs.start(run, prepare, emit)

    def _prepared(
        self,
        at_turn: Callable[[], object],
        begin: Callable[[], Work],
        asking: Sequence[Asking],
        ask_user: CanUseTool | None,
        session: Session | None,
        emit: Emit,
    ) -> Work:
        """A run whose turn has come, ready to go."""
        at_turn()
        session = session or self.session
        self.in_force.refresh(session_has_begun=bool(session.encoded))
        questions = [question for each in asking if (question := each.question()) is not None]
        if questions and ask_user is not None:
            return functools.partial(self._after_questions, begin, asking, ask_user, session, emit)
        for question in questions:
            self._tell_unasked(question, session)
        return functools.partial(self._held, begin())

    def _begin(
        self,
        run: ConversationRun,
        prompt: Prompt,
        options: RunOptions,
        emit: Emit,
        can_use_tool: CanUseTool | None,
        session: Session | None,
        provider: Provider | None,
        playing: Playing | None,
    ) -> Work:
        """The run, ready to go."""
        turn = playing.turn() if playing is not None else None
        agent = self.agent(options, provider or turn or self.provider, can_use_tool)
        if provider is not None:
            agent = replace(agent, checkpoints=NOT_KEPT)  # a dry run changes nothing
        if turn is not None:
            from cellwright.replay_place import replay_place  # few runs are played

            place = replay_place(self.cwd, self.file_state, self.open_notebooks, self.checkpoints)
            agent = turn.played_by(agent, place)
            run.steering.close("This run plays a recording: what Claude says in it is known already.")
        session = self._session_for(agent, options, session)
        if options.mode is not None:
            session.mode = None  # what the user says now goes before what the session came to
        if provider is None:  # a dry run shows nothing of what it is told
            self._tell(session, self.settings.notices)
        self._tell(session, [problem for rule in options.allow if (problem := grant_problem(parse_rule(rule)))])
        self._tell(session, [problem for rule in options.deny if (problem := restriction_problem(parse_rule(rule)))])
        self._tell(session, self._tool_notices)
        self.tool_log.path = self.settings.tool_log
        listen = self.tool_log.listen(emit)
        full = with_surroundings(prompt, session, agent, self.cwd, self.face, self.settings.language)
        if turn is None:  # what is played again is told nothing new
            tellings = (self.checkpoints.tell_what_was_undone, mentioned_files(self.cwd), *options.telling)
            full = gathering(full, tellings, prompt, agent, session, self.tools(RunOptions()))
        return functools.partial(self.hooks.run, agent, full, session, listen, run.steering)

    def _tell_unasked(self, question: TrustQuestion, session: Session) -> None:
        """Where nobody can be asked the run goes on without, if it can."""
        if question.required:
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, nobody_was_asked(question))
        self._tell(session, [nobody_was_asked(question)])

    async def _after_questions(
        self,
        begin: Callable[[], Work],
        asking: Sequence[Asking],
        ask_user: CanUseTool,
        session: Session,
        emit: Emit,
    ) -> RunEnd:
        """The run, when the user has been asked what has to be asked before."""
        unasked = functools.partial(self._tell_unasked, session=session)
        if await ask_all(asking, ask_user, session, emit, unasked) and not session.encoded:
            self._tools = None  # made when less was known to be allowed
        return await self._held(await asyncio.to_thread(begin))  # a key helper may take its time

    async def _held(self, work: Work) -> RunEnd:
        """A run cannot loosen the settings that it runs under."""
        self.in_force.run_begins()
        try:
            return await work()
        finally:
            self.in_force.run_ends(goes_on=child_processes().running)

    def _session_for(self, agent: Agent, options: RunOptions, given: Session | None) -> Session:
        """The session, or a fork of it when the options change the tools: a session's tools stay what they were.

        When a run without such options follows, the usual tools are back, in a fork again.
        """
        session = given or self.session
        tools = agent.tool_params
        changed = bool(options.tools) or not options.builtin_tools
        as_before = not session.encoded or _names(json.loads(session.tools)) == _names(tools)
        if not as_before and (changed or self._own_tools is session):
            fork = session.fork(tools=tools)
            fork.notices.append(f"Other tools than before: this goes on in a fork of the session, {fork.id}.")
            if given is None:
                session.close()
                self._session = fork
            session = fork
        if given is None:
            self._own_tools = session if changed else None
        return session

    def _tell(self, session: Session, notices: Sequence[str]) -> None:
        """Tell each of `notices` with the run that begins, once in this conversation."""
        session.notices += [notice for notice in dict.fromkeys(notices) if notice not in self._told]
        self._told.update(notices)

    @property
    def provider(self) -> Provider:
        """The way to the model; connected at first use, and again when the environment's credentials have changed.

        Raises `CellwrightError` API_KEY_MISSING.
        """
        if self._given_provider is not None:
            return self._given_provider
        environment = with_helpers_key(self.environment, self.settings.api_key_helper)
        credentials = {name: value for name, value in environment.items() if name.startswith(CREDENTIAL_NAMES)}
        if self._provider is None or self._credentials != credentials:
            from cellwright.agent.anthropic_provider import connect  # httpx2 is not needed before there is a prompt

            self._provider, self._credentials = connect(environment), credentials
        return self._provider

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self.runs.current is not None

    def cancel(self) -> None:
        """Interrupt the run that is going on, if one is. From any thread."""
        if (run := self.runs.current) is not None and run.task is not None:
            run.task.cancel()

    def steer(self, text: str, *, how: SteerHow = "steer") -> str:
        """Tell Claude something while a run goes on: with its next step, or ("queue") when it would end. From any thread.

        Gives the id by which `withdraw` takes it back while it waits. Raises `CellwrightError` where no run takes it.
        """
        words = Words(secrets.token_hex(8), text, how)
        self.runs.steer(words)
        return words.id

    def withdraw(self, words_id: str) -> bool:
        """Take back what `steer` was given; False when Claude has it already. From any thread."""
        return self.runs.withdraw(words_id)

    def close(self) -> None:
        """End the runs, close the session, stop the thread."""
        self.runs.end_all(SECONDS_TO_END)
        if self._session is not None:
            self.hooks.end_session(self._session, "other", self.thread, wait=True)
        self.thread.stop()
        if self._session is not None:
            self._session.close()
            self._session = None

    async def until_left_run_ended(self) -> None:
        """Wait for the end of a run whose iteration was left: Python closes the iterator in the loop's next rounds."""
        for _ in range(ROUNDS_UNTIL_CLOSED):
            await asyncio.sleep(0)
        if (run := self.runs.current) is not None and run.task is not None and run.task.stopping:
            await asyncio.wait([asyncio.wrap_future(run.task.future)])

    def refuse_while_running(self) -> None:
        """Raises `CellwrightError` while a run goes on or waits."""
        self.runs.refuse_while_running()


def _names(tools: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(tool["name"]) for tool in tools}
