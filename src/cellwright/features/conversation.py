"""A conversation: one session, the tools it has, and one run at a time.

Every face stands on it: the cell, the panel, `cellwright.ask` and the terminal make a `RunRequest` and a `RunSurface`
and call `start`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.hooks.protocol import HookResult
from cellwright.agent.thread import AgentThread, CallerJobs, is_agent_code
from cellwright.conversation.core import Core, Host
from cellwright.conversation.feature import Observers, checked
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.starting_run import RunTask
from cellwright.conversation.runs.without_a_run import ServedCalls, SideAnswer, ask_beside, compact_session
from cellwright.errors import CellwrightError, ErrorCode, fault
from cellwright.events import ContextCompacted, Emit
from cellwright.features.standard import StandardFeatures
from cellwright.model.provider import Provider
from cellwright.tools.files.atomic_write import recover_changes
from cellwright.tools.shell.background import background_tasks

END_TIMEOUT_SECONDS = 2.0
"""The time runs may take to come to their end when the conversation is closed."""


class Conversation:
    """One session and the means to continue it. Runs are started from any thread and work on the agent's thread.

    `host` says where it runs; `jobs` is where its tools put work for the thread that waits. `features` is what it can do
    besides talking to the model, by name.
    """

    def __init__(
        self,
        host: Host,
        *,
        provider: Provider | None = None,
        thread: AgentThread | None = None,
        jobs: CallerJobs | None = None,
    ) -> None:
        self._core = core = Core(host, provider, thread, jobs, lambda *call: self.features.mcp.call_for_text(*call))
        self.features = StandardFeatures(core)
        self.host = host
        self.cwd, self.checks, self.thread, self.jobs = host.cwd, host.checks, core.thread, core.jobs
        self.choices, self.in_force, self.model = core.choices, core.in_force, core.model
        self.redaction, self.checkpoints, self.sandbox = core.redaction, self.features.checkpoints, core.sandbox
        self.thinking_time, self.observers, self.runs = core.thinking_time, core.observers, core.queue
        self.tools, self.sessions = core.tools, core.sessions
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
        observers = self.observers if request.kind.keeps else Observers()  # nobody looks on at a dry run
        # the agent's thread is not held up by what a run needs that begins on another; its own wait for their turn anyway
        with contextlib.nullcontext() if self.thread.is_current() else self._lock:
            run = self.runs.add(request, surface)
            for feature in self._core.features:
                feature.run_added(run)
            surface.belongs_to(run)
            run.bus.subscribe(surface.emit)
            observers.run_added(run)
            starting = RunTask(self._core, run, request, behind=self.runs.current)
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
        return await compact_session(self._core, options, focus, emit)

    async def ask_beside(self, options: RunOptions, question: str) -> SideAnswer:
        """Ask about the conversation without adding to it. On the agent's thread; raises as `ask_beside`."""
        return await ask_beside(self._core, options, question)

    async def add_folder(self, folder: Path) -> HookResult:
        """Have Claude work in `folder` as well, from its next call on; gives what DirectoryAdded hooks say."""
        with self.in_force.users_change():
            self.choices.folders = tuple(dict.fromkeys((*self.choices.folders, folder)))
        session = self.sessions.current
        self.in_force.refresh(session_has_begun=session.has_begun)
        return await self._core.hooks.fire_folder_added(session, folder)

    def agent(self, options: RunOptions) -> AgentSetup:
        """The agent of runs with these options that belong to no session of this conversation; nobody is asked.

        Raises `CellwrightError` for what is wrong with the options or the credentials.
        """
        return self._core.agent(options, self.model.chosen(options.provider))

    def served_calls(self, options: RunOptions, notify: Callable[[str], None]) -> ServedCalls:
        """The tools that `options` name, for another program to call. Raises as `ServedCalls`."""
        return ServedCalls(self._core, self.features.tool_log, self.features.checkpoints.end_cut_off, options, notify)

    def set_up(self, trigger: str) -> HookResult:
        """Run the Setup and SessionStart hooks without a prompt; gives what they say. Raises as `HooksInForce.set_up`."""
        return self.thread.submit(self._core.hooks.set_up(self.sessions.current, trigger)).future.result()

    def still_at_work(self, end: str, session_id: str = "") -> list[str]:
        """Name what goes on in the background, all or that of one session, and ends with `end`; each in a sentence."""
        agents = [each for each in self.features.subagents.background if not each.task.done()]
        tasks = background_tasks().all()
        commands = [each for each in tasks if not each.run.ended.done() and session_id in ("", each.session_id)]
        return [
            *(f"The agent {each.type} ({each.description}) had not finished: it ends with {end}." for each in agents),
            *(f"`{task.shown_command}` was still running: it ends with {end}." for task in commands),
        ]

    def close(self) -> None:
        """End the runs, close the session, stop the thread."""
        self.runs.end_all(END_TIMEOUT_SECONDS)
        for feature in reversed(self._core.features):  # agents, before the servers that they work with
            if feature.is_open:
                self._end(feature.close())
        if (session := self.sessions.started) is not None:
            self._core.hooks.end_session(session, "other", self.thread, wait=True)
        if self.model.has_programs:
            self._end(self.model.end_programs())
        self.thread.stop()
        self.sessions.close()

    def _end(self, work: Coroutine[Any, Any, None]) -> None:
        """Have `work` done on the agent's thread, unless this is it, which cannot wait for itself."""
        if self.thread.is_current():
            work.close()
        else:
            concurrent.futures.wait([self.thread.submit(work).future], END_TIMEOUT_SECONDS)
