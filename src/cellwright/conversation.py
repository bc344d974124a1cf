"""A conversation: one session, the tools it has, and one run at a time. What every face stands on.

The cell, `cellwright.ask` and the terminal build the same thing here: settings are read, the policy and the tools made, the
provider connected, and the run started on the agent's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cellwright.agent.agent import Agent, Prompt
from cellwright.agent.agent_thread import AgentTask, AgentThread, CallerJobs, agent_code_running
from cellwright.agent.approval import CanUseTool
from cellwright.agent.long_results import output_folder
from cellwright.agent.prompt import environment_text, system_blocks
from cellwright.agent.provider import Provider
from cellwright.agent.session import Session, find_sessions, sessions_folder
from cellwright.agent.tool import Tool
from cellwright.config.settings import load_settings
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Emit, Event, RunEnd
from cellwright.permissions.modes import check_bypass_allowed, host_facts
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules import grant_problem, parse_rule
from cellwright.run_options import RunOptions
from cellwright.toolbox import ToolMaker, builtin_tools

DEFAULT_MODEL = "claude-opus-5-5"

ROUNDS_UNTIL_CLOSED = 3
"""One makes the task that closes an iterator, one begins it; one to spare."""

CREDENTIAL_NAMES = ("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "CLOUD_ML_", "VERTEX_", "AZURE_", "CELLWRIGHT_")
"""How the names of environment variables start that say where the model is and who asks."""


class Conversation:
    """One session and the means to go on with it. Runs are started from any thread and work on the agent's thread.

    `face` is how Claude is told where the user is. `more_tools` makes the tools that this process adds to the built-in
    ones (the kernel's `Python`); `jobs` is where such tools put work for the thread that waits.
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
    ) -> None:
        self.cwd = cwd
        self.face = face
        self.environ = os.environ if environ is None else environ
        self.thread = thread or AgentThread()
        self.jobs = CallerJobs()
        self.settings = load_settings(cwd, self.environ)
        self._more_tools = more_tools
        self._tools: tuple[Tool, ...] | None = None
        self._given_provider = provider
        self._provider: Provider | None = None
        self._credentials: dict[str, str] = {}
        self._session: Session | None = None
        self._own_tools: Session | None = None
        self._told: set[str] = set()
        self._running: AgentTask[RunEnd] | None = None
        self._lock = threading.Lock()

    @property
    def session(self) -> Session:
        """The session that the next run goes on with; a new one, kept on disk, when there is none yet."""
        if self._session is None:
            self._session = Session.create(self.cwd, sessions_folder(self.cwd))
        return self._session

    def use_session(self, session: Session) -> None:
        """Go on with `session`; the one before is closed. What was read is forgotten: files must be read again."""
        self._refuse_while_running()
        if self._session is not None and self._session is not session:
            self._session.close()
        self._session = session
        self._tools = None

    def new_session(self) -> None:
        """Go on with a session of its own; the one before stays on disk."""
        self.use_session(Session.create(self.cwd, sessions_folder(self.cwd)))

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
            more = self._more_tools(self.cwd, self.settings) if self._more_tools is not None else ()
            self._tools = (*builtin_tools(self.cwd, self.settings), *more)
        return (*self._tools, *options.tools)

    def policy(self, options: RunOptions) -> PermissionPolicy:
        """The policy of a run: the settings', and the rules and the mode of the options.

        Raises `CellwrightError` for a mode that is refused here, and for a malformed rule.
        """
        settings = self.settings
        mode = options.mode or settings.default_mode
        if mode == "bypassPermissions":
            check_bypass_allowed(host_facts(self.environ))
        return PermissionPolicy(
            mode=mode,
            deny=(*settings.deny, *options.deny),
            ask=settings.ask,
            allow=(*settings.allow, *options.allow),
            roots=(self.cwd, *settings.additional_directories),
            cwd=self.cwd,
            # long outputs of commands are read from where Bash keeps them
            readable=(output_folder(),),
        )

    def agent(self, options: RunOptions, provider: Provider, can_use_tool: CanUseTool | None) -> Agent:
        """The agent of a run."""
        defaults = {
            name: value
            for name in ("max_turns", "budget_usd", "effort", "max_tokens", "max_parallel_tools", "tool_timeout")
            if (value := getattr(options, name)) is not None
        }
        return Agent(
            provider=provider,
            model=options.model or self.environ.get("ANTHROPIC_MODEL") or DEFAULT_MODEL,
            system=system_blocks(),
            tools=self.tools(options),
            policy=self.policy(options),
            can_use_tool=can_use_tool,
            **defaults,
        )

    def start(
        self,
        prompt: Prompt,
        options: RunOptions,
        *,
        emit: Emit,
        can_use_tool: CanUseTool | None = None,
        session: Session | None = None,
        provider: Provider | None = None,
        as_played: Callable[[Agent], Agent] | None = None,
    ) -> AgentTask[RunEnd]:
        """Start a run on the agent's thread; `emit` and `can_use_tool` are called there.

        `session` and `provider` stand in for the conversation's own for this run; `as_played` makes of the agent the one
        that plays a recording. Raises `CellwrightError` when a run is going on, when the caller is code that the agent
        itself runs, or when the prompt is empty.
        """
        prompt = _checked(prompt)
        if agent_code_running.get():
            message = (
                "Code that Claude runs cannot ask Claude: the run would wait for itself. Ask from a cell of your own."
            )
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)
        with self._lock:
            self._refuse_while_running()
            agent = self.agent(options, provider or self.provider, can_use_tool)
            if as_played is not None:
                agent = as_played(agent)
            session = self._session_for(agent, options, session)
            if not session.encoded:
                # one that has begun keeps the tools it has: those denied since then are refused when they are called
                agent = replace(agent, tools=_offered(agent))
            if options.mode is not None:
                session.mode = None  # what the user says now goes before what the session came to
            self._tell_useless_rules(options, session)
            self._running = self.thread.submit(agent.run(self._with_environment(prompt, session), session, emit))
            return self._running

    def _session_for(self, agent: Agent, options: RunOptions, given: Session | None) -> Session:
        """The session, or a fork of it when the options change the tools: a session's tools stay what they were.

        When a run without such options follows, the usual tools are back, in a fork again.
        """
        session = given or self.session
        tools = [tool.to_param() for tool in _offered(agent)]
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

    def _tell_useless_rules(self, options: RunOptions, session: Session) -> None:
        problems = [problem for rule in options.allow if (problem := grant_problem(parse_rule(rule)))]
        session.notices += [problem for problem in problems if problem not in self._told]
        self._told.update(problems)

    @property
    def provider(self) -> Provider:
        """The way to the model; connected at first use, and again when the environment's credentials have changed.

        Raises `CellwrightError` API_KEY_MISSING.
        """
        if self._given_provider is not None:
            return self._given_provider
        credentials = {name: value for name, value in self.environ.items() if name.startswith(CREDENTIAL_NAMES)}
        if self._provider is None or self._credentials != credentials:
            from cellwright.agent.anthropic_provider import connect  # httpx2 is not needed before there is a prompt

            self._provider, self._credentials = connect(self.environ), credentials
        return self._provider

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._running is not None and not self._running.done

    def cancel(self) -> None:
        """Interrupt the run that is going on, if one is. From any thread."""
        if self._running is not None and not self._running.done:
            self._running.cancel()

    def close(self) -> None:
        """End a run that is going on, close the session, stop the thread."""
        self.cancel()
        self.thread.stop()
        if self._session is not None:
            self._session.close()
            self._session = None

    async def until_left_run_ended(self) -> None:
        """Wait for the end of a run whose iteration was left: Python closes the iterator in the loop's next rounds."""
        for _ in range(ROUNDS_UNTIL_CLOSED):
            await asyncio.sleep(0)
        if self._running is not None and self._running.stopping:
            await asyncio.wait([asyncio.wrap_future(self._running.future)])

    def _refuse_while_running(self) -> None:
        if self.is_running:
            message = "Claude is still at work in this conversation. Wait for the answer, or interrupt it first."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message, recoverable=True)

    def _with_environment(self, prompt: Prompt, session: Session) -> Prompt:
        if session.encoded:
            return prompt
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)
        return [{"type": "text", "text": environment_text(self.cwd, self.face)}, *blocks]


def _checked(prompt: Prompt) -> Prompt:
    """The prompt without empty texts: the API refuses them, and would refuse each later request of the session for them."""
    blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
    kept = [block for block in blocks if block.get("type") != "text" or str(block.get("text", "")).strip()]
    if not kept:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "The prompt is empty. Nothing was sent.")
    return prompt if len(kept) == len(blocks) else kept


def _offered(agent: Agent) -> list[Tool]:
    """The tools that Claude is told about: what a rule denies as a whole would only cost tokens."""
    return [tool for tool in agent.tools if not agent.policy.hides(tool.name)]


def _names(tools: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(tool["name"]) for tool in tools}


async def stream_events(
    conversation: Conversation, start: Callable[[Emit], AgentTask[RunEnd]]
) -> AsyncGenerator[Event]:
    """The events of the run that `start(emit)` starts, on the caller's loop; leaving the iteration cancels the run.

    Work that the run's tools have for this thread is done between the events.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    def emit(event: Event) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    task = start(emit)
    task.future.add_done_callback(lambda _: loop.call_soon_threadsafe(events.put_nowait, None))
    jobs = asyncio.create_task(conversation.jobs.work_until_done_async(task))
    try:
        while (event := await events.get()) is not None:
            yield event
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, CellwrightError):
            await asyncio.wrap_future(task.future)
        await jobs
