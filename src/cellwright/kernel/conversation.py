"""The conversation of this kernel: one session, folder and set of tools for all its cells."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from cellwright.agent.thread import CallerJobs, is_agent_code
from cellwright.agent.tool import Tool
from cellwright.config.settings.settings_files import start_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.core import Host
from cellwright.conversation.kernel_copies import KernelParts
from cellwright.conversation.runs.kinds import Recorded, RunRequest, TrustCheck
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions, result_of
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import Emit, Event, Notice, RunEnd
from cellwright.features.conversation import END_TIMEOUT_SECONDS, Conversation
from cellwright.kernel.chat.completions import CodeCompletion, kernel_completions
from cellwright.kernel.chat.connections import Connections
from cellwright.kernel.chat.conversation_log import ConversationLog
from cellwright.kernel.kernel_tools import kernel_tools
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.magic.magics import telling_once
from cellwright.kernel.magic.options import keep_result, named_type
from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.kernel.namespace.hidden_state import kernel_remarks
from cellwright.kernel.namespace.namespace import has_name, live_definitions
from cellwright.kernel.notebook_context import kernel_context, mentioned_cells
from cellwright.kernel.output.cell_output import STUCK
from cellwright.kernel.pages.changes import FileNews, Proposals, UndoRequests
from cellwright.kernel.pages.comm import PageError
from cellwright.kernel.pages.open_notebooks import KernelNotebooks
from cellwright.kernel.pages.pages import Pages
from cellwright.kernel.run.cell_run import (
    CellSurface,
    CellWait,
    CellWork,
    PreparedRun,
    cell_surface,
    dry_run,
    run_options,
    runs_in_background,
    until_end,
)
from cellwright.kernel.run.ipykernel_api import work_between_cells
from cellwright.kernel.run.notebook import NotebookSessions, NotebookTrust, front_end_of, this_notebook
from cellwright.kernel.run.questions import OpenQuestions, mirror_everywhere
from cellwright.kernel.run.recorded_run import RecordedRun, SkippedRun
from cellwright.kernel.run.replay_decision import RunningCell, recorded_runs
from cellwright.kernel.widgets.bundle import why_no_widget
from cellwright.markdown.safe_markdown import prepare
from cellwright.model.credentials import is_scripted
from cellwright.redaction.redaction import Redaction, secret_values
from cellwright.telemetry.log_file import RunLog, log_to_file
from cellwright.text import lazy_pattern, visible_line
from cellwright.tools.process.child_processes import child_processes

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.agent.prompt import ContextProvider
    from cellwright.conversation.kernel_copies import KernelCode, KernelVariables
    from cellwright.conversation.runs.run import Run
    from cellwright.doctor.check import Check
    from cellwright.kernel.branches.kernel_branches import KernelBranches
    from cellwright.kernel.execute.preview_kernel import KernelOfPreview
    from cellwright.kernel.magic.cell_prompt import PagePrompt
    from cellwright.kernel.magic.fix import Fix
    from cellwright.kernel.magic.options import Claude


_COMMAND = lazy_pattern(r"\s*(?:/[A-Za-z][\w-]*(?::[\w-]+)*(?:\s|$)|!)")
"""A slash command, a skill's call, or `!` and a command of the user's own; what tells them apart is heavy."""


class NotebookConversation:
    """Runs prompts of cells, one at a time, and shows each in its cell. `config` is what `%config Claude` sets."""

    def __init__(
        self,
        shell: InteractiveShell,
        config: Claude,
        is_unsaved: Callable[[Path], bool],
        cells: CellLog,
        pages: Pages,
    ) -> None:
        self.shell = shell
        self.cells = cells
        self.pages = pages
        self.is_unsaved = is_unsaved
        self._config = config
        self._kernel: Any = getattr(shell, "kernel", None)
        self._in_kernel = self._kernel is not None
        self.notebooks = KernelNotebooks(pages, functools.partial(kernel_remarks, shell, cells), self._provenance)
        self._jobs = CallerJobs(work_between_cells(self._kernel) if self._in_kernel else None)
        self._snapshots: KernelBranches | None = None
        kernel_parts = None
        if self._in_kernel:
            fork = self._forked_once if sys.platform == "linux" else None
            kernel_parts = KernelParts(self._reruns, fork, self._undone_variables, self._preview_kernel)
        self.conversation = Conversation(
            Host(
                cwd=start_folder(os.environ),
                interface="a cell of a Jupyter notebook" if self._in_kernel else "an IPython session in a terminal",
                inline_settings=config.inline_settings,
                more_tools=self._kernel_tools,
                is_unsaved=is_unsaved,
                open_notebooks=self.notebooks,
                live_definitions=live_definitions(shell, start_folder(os.environ)),
                has_name=has_name(shell),
                checks=self._checks,
                notebook=self._notebook,
                kernel=kernel_parts,
            ),
            jobs=self._jobs,
        )
        self.conversation.thinking_time.add(_import_late_modules)
        self._trust = NotebookTrust(os.environ)
        self.log = ConversationLog(self.conversation.thread, lambda: self.conversation.sessions.started)
        if self._in_kernel:
            # before the log: panels read the name when they hear of the end
            self.conversation.observers.add(
                NotebookSessions(lambda: self.conversation.sessions.started, self._notebook_of_session)
            )
            self.conversation.observers.add(self.log)
        self.file_news = FileNews(pages)
        self.conversation.observers.add(self.file_news)
        self.panels = Connections()
        self.questions = OpenQuestions()
        self.mirror = mirror_everywhere(self.questions.mirror, Proposals(pages, self.conversation.cwd).mirror)
        self.undo = UndoRequests(pages, self.conversation, self.file_news)
        CodeCompletion(shell, self.conversation).serve(pages.serve)
        pages.serve("complete", kernel_completions(shell, self.notebooks, self.conversation).complete)
        pages.serve("stale_numbers", self._stale_numbers)
        self.kernel_context = kernel_context(shell, cells, self.notebooks)
        self._recordings = recorded_runs(self.conversation, self._notebook, self._trust)
        self._has_prompted = False
        self._has_key = False
        """A key was there when it was looked for: it is not looked for again before each prompt."""

    async def run_awaited(self, prompt: str, options: MagicOptions, fix: Fix | PagePrompt | None = None) -> None:
        """Run `prompt`, the title of `fix` if there is one, in a cell that is awaited. Raises what the cell should show."""
        if (work := self._work_of(prompt, options, fix)) is None:
            return
        with contextlib.suppress(SkippedRun), telling_once(work.output.tells_error):
            with CellWait(self.conversation, work.output, self._kernel) as wait:
                end = await wait.awaited(work.start())
            work.finish(end)

    def run_blocking(self, prompt: str, options: MagicOptions, fix: Fix | PagePrompt | None = None) -> None:
        """The same in a cell that blocks."""
        if (work := self._work_of(prompt, options, fix)) is None:
            return
        with contextlib.suppress(SkippedRun), telling_once(work.output.tells_error):
            with CellWait(self.conversation, work.output, self._kernel) as wait:
                end = wait.blocking(work.start())
            work.finish(end)

    def _work_of(self, prompt: str, options: MagicOptions, fix: Fix | PagePrompt | None) -> CellWork[Any] | None:
        """Build what the cell waits for, a slash command or a run; None for a run that goes on without its cell."""
        if fix is None and _COMMAND.match(prompt):
            from cellwright.commands.registry import is_answered_here  # most cells are prompts

            if is_answered_here(prompt, self.conversation.features.skills):
                from cellwright.kernel.magic.slash_command import cell_command

                command = cell_command(self.conversation, prompt, options, self._new_surface, self.file_news.notify)
                return CellWork(command.output, command.start, command.show)
        prepared = self._prepared(prompt, options, fix)
        if prepared.request.background:
            self._start_in_background(prepared)
            return None
        start = functools.partial(self.conversation.start, prepared.request, prepared.surface)
        return CellWork(prepared.surface.output, start, prepared.finish)

    def _start_in_background(self, prepared: PreparedRun) -> None:
        output = prepared.surface.output
        run = self.conversation.start(prepared.request, prepared.surface)
        output.open()
        # in a copy of this cell's context: what is published belongs to this cell, whatever the kernel does then
        self.conversation.thread.submit(until_end(run, output, prepared.finish))

    def fix(self, line: str) -> Fix | None:
        """Build what the line `fix …` asks Claude; None when nothing has failed: then the user was told so."""
        from cellwright.kernel.magic.fix import NothingToFix, fix_of  # most prompts are others

        self._cell_runs()  # right after loading no page may have said yet what it shows
        try:
            return fix_of(line, self.shell, self.cells, self.notebooks)
        except NothingToFix as nothing:
            print(nothing)
            return None

    def enter_key(self) -> None:
        """Ask for a key in the running cell, and keep it. Raises `CellwrightError` where that cannot be."""
        from cellwright.kernel.magic.demo import end_script  # few enter one
        from cellwright.kernel.magic.sign_in import enter_key

        end_script()
        self._has_key = False
        enter_key(self.conversation, front_end_of(self.shell), self.pages.was_closed)

    def start_demo(self) -> None:
        """Set up the demo, or the scripted model in it. Raises `CellwrightError`."""
        from cellwright.kernel.magic.demo import start_demo  # as above

        start_demo(self.conversation)
        self._has_key = False

    def _offer_to_enter_key(self, prompt: str, options: MagicOptions) -> None:
        if self._has_key:
            return
        # most kernels have one from the first
        from cellwright.kernel.magic.sign_in import lacks_key, offer_to_enter_key, refuse_key

        refuse_key(self.conversation, options.run.get("provider"), prompt, "delete it from this cell")
        if is_scripted(self.conversation.in_force.environment) or lacks_key(self.conversation, options):
            from cellwright.kernel.magic.demo import choose_model_in_demo, tell_in_cell  # as above

            choose_model_in_demo(self.conversation)
            tell_in_cell(self.conversation)
        environ = self.conversation.in_force.environ
        offer_to_enter_key(self.conversation, options, front_end_of(self.shell), environ, self.pages)
        self._has_key = not lacks_key(self.conversation, options)

    @contextlib.contextmanager
    def surface(self) -> Iterator[RunSurface]:
        """The running cell as it shows a run that its code asks for (`cellwright.ask`)."""
        if is_agent_code():
            yield RunSurface()  # it will not be started
            return
        surface = self._new_surface(structs.replace(self._config.options(), format="text"))
        surface.output.open()
        try:
            yield surface
        finally:
            surface.output.close()

    def warm_up(self) -> None:
        """Do ahead what the first prompt would wait for."""
        # what fails here fails again, with its message, when it is needed
        with contextlib.suppress(CellwrightError):
            if (preparing := self.conversation.model.prepare()) is not None:
                self.conversation.thread.submit(preparing)
            self.conversation.tools.of(RunOptions())
        # a run that begins already imports it itself, when its request is on the way
        if self._in_kernel and not why_no_widget() and not self._has_prompted:
            importlib.import_module("cellwright.kernel.widgets.transcript")

    def refuse_agent_code(self) -> None:
        """Raises `CellwrightError` where the code that calls is Claude's own: its run cannot end before it does."""
        if is_agent_code():
            message = "Code that Claude runs cannot unload Cellwright. Unload it from a cell of your own."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)

    def end_runs(self) -> None:
        """End what goes on, as the process does: calls are answered, the transcript is flushed, cells keep what there is."""
        self.conversation.runs.end_all(END_TIMEOUT_SECONDS)
        self.conversation.thread.stop()

    def close(self) -> None:
        """End the session, the agent's thread and what commands have left running."""
        self.conversation.close()
        child_processes().stop()

    async def _stale_numbers(self, _page: object, _params: Mapping[str, Any]) -> dict[str, Any]:
        """Say which numbers of answers that no cell shows are stale; see docs/protocol/notebook.md."""
        try:
            return {"answers": await self.conversation.features.numbers.stale()}
        except ToolError as error:  # the notebook's page goes away
            raise PageError("failed", str(error)) from error

    def _kernel_tools(self, in_force: SettingsInForce) -> Sequence[Tool]:
        features = self.conversation.features
        return kernel_tools(
            self.shell,
            self._jobs,
            self.notebooks,
            self.cells,
            in_force,
            in_kernel=self._in_kernel,
            on_stuck=self._on_stuck,
            own_cell=lambda: front_end_of(self.shell).cell_id,
            branches=features.branches,
            before_code=None if features.variables is None else features.variables.before_code,
        )

    def _checks(self) -> Sequence[Check]:
        from cellwright.kernel.run.kernel_checks import kernel_checks  # few ask

        return kernel_checks(self._kernel, self.pages)

    def _reruns(self) -> KernelCode:
        from cellwright.kernel.branches.reruns import KernelReruns  # few answers are tested

        return KernelReruns(
            self.conversation, self.conversation.features.branches, self.shell, self.cells, self.notebooks
        )

    def _undone_variables(self) -> KernelVariables:
        from cellwright.kernel.branches.undo import UndoneInKernel  # few kernels are forked

        return UndoneInKernel(self.shell.user_ns, self.cells, self._forked_once(), self._jobs)

    def _preview_kernel(self) -> KernelOfPreview:
        from cellwright.kernel.cells.notebook_run import Runner  # few turns are previews
        from cellwright.kernel.execute.preview_kernel import KernelOfPreview

        runner = Runner(
            *(self.shell, self._jobs, self.notebooks, self.cells, self.conversation.cwd),
            in_kernel=self._in_kernel,
            own_cell=lambda: front_end_of(self.shell).cell_id,
        )
        branches, variables = self.conversation.features.branches, self.conversation.features.variables
        assert branches is not None
        return KernelOfPreview(
            self._fork(),
            runner,
            setting=lambda: branches.setting,
            seconds=self.conversation.in_force.settings.python_timeout,
            before_code=None if variables is None else variables.before_code,
            redacts=self.conversation.in_force.settings.redact_secrets,
        )

    def _forked_once(self) -> KernelBranches:
        """The snapshots of a turn: branches and undo share them."""
        if self._snapshots is None:
            self._snapshots = self._fork()
        return self._snapshots

    def _fork(self) -> KernelBranches:
        from cellwright.kernel.branches.kernel_branches import KernelBranches  # few kernels are forked

        def secrets() -> Sequence[str | bytes]:
            session_key = getattr(getattr(self._kernel, "session", None), "key", b"")
            return (*self.conversation.model.keys.values(), session_key)

        # the thread that waits for Claude stands still in its jobs, and so does the kernel's own between two cells
        return KernelBranches(
            self.shell,
            on_main=self._jobs.call,
            cell=self._place_of_snapshot,
            secrets=secrets,
            order=lambda: self.cells.order,
        )

    def _place_of_snapshot(self) -> str:
        if self.origin == "[0]":
            return ""
        return f"{'after' if self._jobs.in_background else 'before'} cell {self.origin}"

    def _on_stuck(self, tool_use_id: str) -> None:
        run = self.conversation.runs.current
        # offered before it is shown: who clicks at once is heard
        if run is not None and isinstance(run.surface, CellSurface):
            run.surface.output.stuck(tool_use_id)
        self.log.stuck(run, tool_use_id, STUCK)

    def _cell_runs(self, named: Path | None = None) -> None:
        """Have the notebooks know which one the cell that is running stands in; `named` is what its user says."""
        front_end = front_end_of(self.shell)
        document = this_notebook(front_end, self.shell.user_ns, self.conversation.in_force.environ)
        self.notebooks.cell_runs(front_end, document, named)

    def _new_surface(self, options: MagicOptions) -> CellSurface:
        conversation, front_end = self.conversation, front_end_of(self.shell)
        self._cell_runs(None if options.notebook is None else conversation.cwd / options.notebook)
        return cell_surface(
            self.shell,
            front_end,
            conversation,
            options,
            self.mirror,
            lambda: self.panels.is_watched,
            self.log.log_of,
            self.pages,
        )

    def _provenance(self) -> dict[str, str] | None:
        """Describe the action that changes a cell now, for the cell's metadata; None if no action does."""
        run, session = self.conversation.runs.current, self.conversation.sessions.started
        if run is None or session is None or run.cell_action is None:
            return None
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return {"asked": visible_line(run.text, 200), "at": at, "session": session.id}

    def _prepared(self, prompt: str, options: MagicOptions, fix: Fix | PagePrompt | None) -> PreparedRun:
        self._has_prompted = True
        options = structs.replace(options, background=runs_in_background(options, front_end_of(self.shell)))
        typed = None if options.schema is None else named_type(options.schema, self.shell.user_ns)
        if options.dry_run:
            if options.new:
                self.conversation.sessions.start_new()
            if options.resume is not None:
                self.conversation.sessions.resume(options.resume)
            context = self._context(prompt, options, fix, dry=True)
            return dry_run(self.conversation, self.shell, prompt, options, typed, context)
        self._offer_to_enter_key(prompt, options)
        surface = self._new_surface(options)
        context = self._context(prompt, options, fix)
        recorded = self._recorded(prompt, options, surface)
        # a result keeps its events; without one they would only take memory
        events: list[Event] = []
        output = surface.output
        emit, say = (to if options.out is None else _both(events, to) for to in (output.on_event, output.emit))

        def belongs_to(run: Run) -> None:
            recorded.follow(run, say)
            output.belongs_to(run)

        request = RunRequest(
            prompt=prompt,
            options=run_options(options, typed),
            context=context,
            origin=self.origin,
            background=options.background,
            new_session=options.new,
            resume=options.resume,
            kind=Recorded(recorded),
            trust_checks=self.trust_checks,
            cell_action=None if fix is None else fix.action,
        )

        def finish(end: RunEnd) -> None:
            if not options.background:
                self.kernel_context.run_ended()
            for notice in recorded.finish():
                if options.background:  # what is printed now could land in another cell
                    surface.output.emit(Notice(notice, "warning"))
                else:
                    print(notice)
            keep_result(result_of(end, events, typed), options, self.shell.user_ns)

        return PreparedRun(request, structs.replace(surface, emit=emit, belongs_to=belongs_to), finish)

    def _context(
        self, prompt: str, options: MagicOptions, fix: Fix | PagePrompt | None, *, dry: bool = False
    ) -> tuple[ContextProvider, ...]:
        providers = self.kernel_context.with_prompt(prompt, options.context, front_end_of(self.shell).cell_id, dry=dry)
        if fix is None:
            return providers
        return (fix.provide_context, mentioned_cells(self.notebooks, fix.prompt.instructions), *providers)

    @property
    def trust_checks(self) -> tuple[TrustCheck, ...]:
        """The question whether the notebook may ask Claude."""
        return (self._trust,)

    @property
    def origin(self) -> str:
        """The cell that is running, as its user sees it."""
        history = self.shell.history_manager
        # some IPythons count on when a cell begins, others when it ends: what is in the history has begun
        return f"[{self.shell.execution_count if history is None else len(history.input_hist_raw) - 1}]"

    def _recorded(self, prompt: str, options: MagicOptions, surface: CellSurface) -> RecordedRun:
        front_end = front_end_of(self.shell)
        cell = RunningCell(front_end.cell_id, front_end.request, surface.ask_user is not None, surface.output.keep)
        run = self._recordings.run(prompt, options, cell)
        surface.output.describe(run.metadata)
        return run

    def _notebook_of_session(self) -> Path | None:
        own = self.notebooks.own()
        return None if own is None else own.path

    def _notebook(self) -> Path | None:
        if (own := self.notebooks.own()) is not None:
            return own.path
        return this_notebook(front_end_of(self.shell), self.shell.user_ns, self.conversation.in_force.environ)


def _import_late_modules() -> None:
    """Import what the first code that Claude runs needs, and the end of the first cell."""
    for name in ("execute.captured_output", "execute.code_run", "execute.redirect", "execute.traceback"):
        importlib.import_module(f"cellwright.kernel.{name}")

    prepare()


def _both(events: list[Event], emit: Emit) -> Emit:
    def both(event: Event) -> None:
        events.append(event)
        emit(event)

    return both


def keep_log(conversation: Conversation) -> Callable[[], None]:
    """Log to the file from now on; gives how to stop that."""
    redaction = Redaction(lambda: secret_values(conversation.in_force.environment))
    stop = log_to_file(lambda text: redaction.clean(text).text)
    # on the agent's thread: after so long a run's first request has left, and it waits for the answer
    conversation.observers.add(RunLog(lambda log: asyncio.get_running_loop().call_later(0.05, log)))
    return stop
