"""The conversation of this kernel: one session, folder and set of tools for all its cells."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cellwright.agent.agent_thread import agent_code_running
from cellwright.agent.anthropic_provider import AnthropicProvider
from cellwright.agent.tool import Tool
from cellwright.config.settings import Settings, save_allow_rule
from cellwright.conversation import Conversation, RunOptions, result_of
from cellwright.errors import CellwrightError
from cellwright.events import Event, RunEnd
from cellwright.kernel.cell_face import CellFace, cell_face
from cellwright.kernel.cell_run import CellRun
from cellwright.kernel.front_end import front_end_of
from cellwright.kernel.magic_line import MagicOptions
from cellwright.kernel.python_tool import python_tool
from cellwright.kernel.widgets.bundle import is_built
from cellwright.library import Face, Place

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class NotebookConversation:
    """Runs prompts of cells, one at a time, and shows each in its cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._in_kernel = getattr(shell, "kernel", None) is not None
        face = "a cell of a Jupyter notebook" if self._in_kernel else "an IPython session in a terminal"
        self.conversation = Conversation(cwd=Path.cwd(), face=face, more_tools=self._kernel_tools)
        self._face: CellFace | None = None

    async def run_awaited(self, prompt: str, options: MagicOptions) -> None:
        """Run `prompt` in a cell that is awaited. Raises what the cell should show."""
        events: list[Event] = []
        run = self._prepare(prompt, options, events)
        self._finish(await run.awaited(), options, events)

    def run_blocking(self, prompt: str, options: MagicOptions) -> None:
        """The same in a cell that blocks."""
        events: list[Event] = []
        run = self._prepare(prompt, options, events)
        self._finish(run.blocking(), options, events)

    def place(self, options: MagicOptions) -> Place:
        """This conversation for `cellwright.ask`, which shows its run in the cell that asks."""
        return Place(self.conversation, functools.partial(self._shown, replace(options, format="text")))

    def warm_up(self) -> None:
        """Do ahead what the first prompt would wait for."""
        # what fails here fails again, with its message, when it is needed
        if self._in_kernel and is_built():
            importlib.import_module("cellwright.kernel.widgets.transcript")
        with contextlib.suppress(CellwrightError):
            self.conversation.tools(RunOptions())
            provider = self.conversation.provider
            if isinstance(provider, AnthropicProvider):
                self.conversation.thread.submit(provider.prepare())

    def close(self) -> None:
        self.conversation.close()

    @contextlib.contextmanager
    def _shown(self, options: MagicOptions) -> Iterator[Face]:
        """The face of a run that somebody else starts and waits for."""
        if agent_code_running.get():
            yield Face(lambda _: None, None)  # it will not be started
            return
        self._face = face = self._new_face(options)
        face.output.open()
        try:
            yield Face(face.output.emit, face.can_use_tool)
        finally:
            face.output.close()

    def _kernel_tools(self, _cwd: Path, _settings: Settings) -> Sequence[Tool]:
        jobs = self.conversation.jobs
        return [python_tool(self._shell, jobs, in_kernel=self._in_kernel, on_stuck=self._on_stuck)]

    def _on_stuck(self, tool_use_id: str) -> None:
        if self._face is not None:
            self._face.output.stuck(tool_use_id)

    def _save_rule(self, rule: str) -> None:
        save_allow_rule(self.conversation.settings.project, rule)

    def _new_face(self, options: MagicOptions) -> CellFace:
        return cell_face(self._shell, front_end_of(self._shell), self.conversation, options, self._save_rule)

    def _prepare(self, prompt: str, options: MagicOptions, events: list[Event]) -> CellRun:
        conversation = self.conversation
        if options.new:
            conversation.new_session()
        if options.resume is not None:
            conversation.resume(options.resume)
        self._face = face = self._new_face(options)

        def emit(event: Event) -> None:
            events.append(event)
            face.output.emit(event)

        start = functools.partial(
            conversation.start,
            prompt,
            run_options(options),
            # a result keeps its events; without one they would only take memory
            emit=emit if options.out is not None else face.output.emit,
            can_use_tool=face.can_use_tool,
        )
        return CellRun(conversation, start, face.output, getattr(self._shell, "kernel", None))

    def _finish(self, end: RunEnd, options: MagicOptions, events: Sequence[Event]) -> None:
        result = result_of(end, events)
        if options.out is not None:
            self._shell.user_ns[options.out] = result


def run_options(options: MagicOptions) -> RunOptions:
    """The magic's options as the conversation takes them."""
    return RunOptions(
        model=options.model,
        mode=options.mode,
        max_turns=options.max_turns,
        budget_usd=options.budget,
        effort=options.effort,
        builtin_tools=not options.no_tools,
    )
