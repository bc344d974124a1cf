"""The conversation of this kernel: one session, folder and set of tools for all its cells."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellwright.agent.thread import AgentTask, is_agent_code
from cellwright.agent.tool import Tool
from cellwright.config.settings.read import Said, start_folder
from cellwright.config.settings.settings import Settings
from cellwright.conversation.ask import ProcessConversation, RunSurface
from cellwright.conversation.conversation import END_TIMEOUT_SECONDS, Conversation
from cellwright.conversation.runs.run_options import RunOptions, result_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Emit, Event, Notice, RunEnd
from cellwright.kernel.chat.log import ConversationLog
from cellwright.kernel.context.notebook_context import kernel_context
from cellwright.kernel.kernel_checks import kernel_checks
from cellwright.kernel.kernel_tools import kernel_tools
from cellwright.kernel.magic.line import MagicOptions, keep_result, named_type
from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.kernel.namespace.hidden_state import kernel_remarks
from cellwright.kernel.output.cell_output import STUCK
from cellwright.kernel.pages.completion import CodeCompletion
from cellwright.kernel.pages.open_documents import FileNews
from cellwright.kernel.pages.open_notebooks import KernelNotebooks
from cellwright.kernel.pages.pages import Pages
from cellwright.kernel.pages.proposals import Proposals
from cellwright.kernel.pages.undo_requests import UndoRequests
from cellwright.kernel.run.cell_run import CellRun, PreparedRun, dry_run, goes_on_alone, run_options
from cellwright.kernel.run.cell_surface import CellSurface, cell_face
from cellwright.kernel.run.front_end import front_end_of, this_notebook
from cellwright.kernel.run.idle_kernel import work_between_cells
from cellwright.kernel.run.notebook_trust import NotebookTrust
from cellwright.kernel.run.questions import OpenQuestions, all_beside
from cellwright.kernel.run.recorded_run import RecordedRun, SkippedRun
from cellwright.kernel.run.recordings import RunningCell, recorded_runs
from cellwright.kernel.widgets.bundle import is_built
from cellwright.model.anthropic import AnthropicProvider
from cellwright.tools.process.children import child_processes

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.agent.prompt import ContextProvider
    from cellwright.conversation.runs.run_queue import ConversationRun
    from cellwright.kernel.magic.fix import Fix
    from cellwright.kernel.magic.slash_command import CellCommand


_COMMAND = re.compile(r"\s*/[A-Za-z][\w-]*(?:\s|$)")
"""A slash command; what does them is heavy."""


class NotebookConversation:
    """Runs prompts of cells, one at a time, and shows each in its cell."""

    def __init__(
        self,
        shell: InteractiveShell,
        configured: Callable[[], tuple[Said, ...]],
        is_unsaved: Callable[[Path], bool],
        cells: CellLog,
        pages: Pages,
    ) -> None:
        self.shell = shell
        self._kernel: Any = getattr(shell, "kernel", None)
        self._in_kernel = self._kernel is not None
        face = "a cell of a Jupyter notebook" if self._in_kernel else "an IPython session in a terminal"
        self.pages = pages
        self.notebooks = KernelNotebooks(pages, functools.partial(kernel_remarks, shell, cells))
        self.conversation = Conversation(
            cwd=start_folder(os.environ),
            face=face,
            more_tools=self._kernel_tools,
            is_unsaved=is_unsaved,
            open_notebooks=self.notebooks,
        )
        self.conversation.in_force.given = configured
        self._trust = NotebookTrust(self.conversation.environ)
        self.conversation.asking.insert(0, self._trust)
        if self._in_kernel and (offer := work_between_cells(self._kernel, self.conversation.jobs)) is not None:
            self.conversation.jobs.offer = offer
        self.log = ConversationLog(self.conversation.thread, lambda: self.conversation.sessions.begun)
        if self._in_kernel:
            self.conversation.observers.add(self.log)
        self.file_news = FileNews(pages)
        self.conversation.observers.add(self.file_news)
        self.questions = OpenQuestions()
        self.beside = all_beside(self.questions.beside, Proposals(pages, self.conversation.cwd).beside)
        UndoRequests(pages, self.conversation, self.file_news)
        CodeCompletion(shell, self.conversation).serve(pages.serve)
        self.conversation.checks += kernel_checks(self._kernel, pages)
        self.cells = cells
        self.told = kernel_context(shell, cells, self.notebooks)
        self._recordings = recorded_runs(self.conversation, self._notebook, self._trust)
        self._face: CellSurface | None = None
        self._making_tools = threading.Lock()
        self._asked = False

    async def run_awaited(self, prompt: str, options: MagicOptions, more: ContextProvider | None = None) -> None:
        """Run `prompt` in a cell that is awaited; `more` is told with it. Raises what the cell should show."""
        if _COMMAND.match(prompt):
            command = self._command(prompt, options)
            command.show(await command.run.awaited())
            return
        run = self._prepare(prompt, options, more)
        if run.background:
            run.cell.in_background(run.finish)
            return
        with contextlib.suppress(SkippedRun):
            run.finish(await run.cell.awaited())

    def run_blocking(self, prompt: str, options: MagicOptions, more: ContextProvider | None = None) -> None:
        """The same in a cell that blocks."""
        if _COMMAND.match(prompt):
            command = self._command(prompt, options)
            command.show(command.run.blocking())
            return
        run = self._prepare(prompt, options, more)
        if run.background:
            run.cell.in_background(run.finish)
            return
        with contextlib.suppress(SkippedRun):
            run.finish(run.cell.blocking())

    def _command(self, prompt: str, options: MagicOptions) -> CellCommand:
        from cellwright.kernel.magic.slash_command import cell_command  # most cells are prompts

        given = run_options(options)
        ended = self.file_news.tell
        return cell_command(self.conversation, self._kernel, prompt, options, given, self._new_face, ended)

    def fix(self, line: str) -> Fix | None:
        """What the line `fix …` asks Claude; None when nothing has failed: then the user was told so."""
        from cellwright.kernel.magic.fix import NothingToFix, fix_of  # most prompts are others

        try:
            return fix_of(line, self.shell, self.cells, self.notebooks)
        except NothingToFix as nothing:
            print(nothing)
            return None

    def place(self, options: MagicOptions) -> ProcessConversation:
        """This conversation for `cellwright.ask`, which shows its run in the cell that asks."""
        return ProcessConversation(self.conversation, functools.partial(self._shown, replace(options, format="text")))

    def warm_up(self) -> None:
        """Do ahead what the first prompt would wait for."""
        # what fails here fails again, with its message, when it is needed
        with contextlib.suppress(CellwrightError):
            provider = self.conversation.provider
            if isinstance(provider, AnthropicProvider):
                self.conversation.thread.submit(provider.prepare())
            self._make_tools()
        # a run that begins already imports it itself, when its request is on the way
        if self._in_kernel and is_built() and not self._asked:
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

    @contextlib.contextmanager
    def _shown(self, options: MagicOptions) -> Iterator[RunSurface]:
        """The face of a run that somebody else starts and waits for."""
        if is_agent_code():
            yield RunSurface(lambda _: None, None)  # it will not be started
            return
        face = self._new_face(options)

        def at_turn() -> None:
            self._face, self._trust.notebook_asks = face, True

        face.output.open()
        try:
            yield RunSurface(
                face.output.on_event,
                face.can_use_tool,
                face.ask_user,
                at_turn,
                self._cell_name,
                face.output.belongs_to,
            )
        finally:
            face.output.close()

    def _make_tools(self) -> None:
        with self._making_tools:  # made twice, they would not share what was read
            self.conversation.tools(RunOptions())

    def _kernel_tools(self, _cwd: Path, _settings: Settings) -> Sequence[Tool]:
        return kernel_tools(
            self.shell, self.conversation, self.cells, in_kernel=self._in_kernel, on_stuck=self._on_stuck
        )

    def no_cell_at_turn(self) -> None:
        """The run whose turn has come belongs to no cell."""
        self._face, self._trust.notebook_asks = None, False
        self._make_tools()

    def _on_stuck(self, tool_use_id: str) -> None:
        if self._face is not None:
            self._face.output.stuck(tool_use_id)
        self.log.stuck(self.conversation.runs.current, tool_use_id, STUCK)

    def _new_face(self, options: MagicOptions) -> CellSurface:
        conversation, front_end = self.conversation, front_end_of(self.shell)
        save_rules = conversation.in_force.save_rules
        told = this_notebook(front_end, self.shell.user_ns, conversation.environ)
        named = None if options.notebook is None else conversation.cwd / options.notebook
        self.notebooks.cell_runs(front_end, told, named)
        return cell_face(
            self.shell,
            front_end,
            conversation,
            options,
            save_rules,
            self.beside,
            self._is_looked_on,
            self.log.log_of,
        )

    def _is_looked_on(self) -> bool:
        return self.questions.somebody_looks_on()

    def _prepare(self, prompt: str, options: MagicOptions, more: ContextProvider | None) -> PreparedRun:
        self._asked = True
        conversation = self.conversation
        options = replace(options, background=goes_on_alone(options, front_end_of(self.shell)))
        typed = None if options.schema is None else named_type(options.schema, self.shell.user_ns)
        if options.dry_run:
            self._use_session(options)
            told = self._telling(prompt, options, more, dry=True)
            return dry_run(conversation, self.shell, prompt, options, typed, told)
        face = self._new_face(options)
        self._make_tools()
        telling = self._telling(prompt, options, more)
        events: list[Event] = []
        recorded = self._recorded(prompt, options, face)
        # a result keeps its events; without one they would only take memory
        emit, say = (
            to if options.out is None else _both(events, to) for to in (face.output.on_event, face.output.emit)
        )

        def belongs_to(run: ConversationRun) -> None:
            recorded.follow(run, say)
            face.output.belongs_to(run)

        def at_turn() -> None:
            self._use_session(options)
            self._face, self._trust.notebook_asks = face, True

        def start() -> AgentTask[RunEnd]:
            return conversation.start(
                prompt,
                replace(run_options(options, typed), telling=telling),
                emit=emit,
                can_use_tool=face.can_use_tool,
                ask_user=face.ask_user,
                playing=recorded,
                place=self._cell_name,
                background=options.background,
                at_turn=at_turn,
                belongs_to=belongs_to,
            )

        def finish(end: RunEnd) -> None:
            if not options.background:
                self.told.run_ended()
            for notice in recorded.finish():
                if options.background:  # what is printed now could land in another cell
                    face.output.emit(Notice(notice, "warning"))
                else:
                    print(notice)
            keep_result(result_of(end, events, typed), options, self.shell.user_ns)

        return PreparedRun(CellRun(conversation, start, face.output, self._kernel), finish, options.background)

    def _telling(
        self, prompt: str, options: MagicOptions, more: ContextProvider | None, *, dry: bool = False
    ) -> tuple[ContextProvider, ...]:
        told = self.told.with_prompt(prompt, options.context, front_end_of(self.shell).cell_id, dry=dry)
        return told if more is None else (*told, more)

    def _use_session(self, options: MagicOptions) -> None:
        if options.new:
            self.conversation.new_session()
        if options.resume is not None:
            self.conversation.resume(options.resume)

    @property
    def _cell_name(self) -> str:
        """The cell that is running, as its user sees it."""
        history = self.shell.history_manager
        # some IPythons count on when a cell begins, others when it ends: what is in the history has begun
        return f"[{self.shell.execution_count if history is None else len(history.input_hist_raw) - 1}]"

    def _recorded(self, prompt: str, options: MagicOptions, face: CellSurface) -> RecordedRun:
        front_end = front_end_of(self.shell)
        cell = RunningCell(front_end.cell_id, front_end.request, face.ask_user is not None, face.output.keep)
        run = self._recordings.run(prompt, options, cell)
        face.output.describe(run.metadata)
        return run

    def _notebook(self) -> Path | None:
        if (own := self.notebooks.own()) is not None:
            return own.path
        return this_notebook(front_end_of(self.shell), self.shell.user_ns, self.conversation.environ)


def _both(events: list[Event], emit: Emit) -> Emit:
    def both(event: Event) -> None:
        events.append(event)
        emit(event)

    return both
