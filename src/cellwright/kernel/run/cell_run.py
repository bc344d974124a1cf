"""A run as its cell waits for it: the agent works on its thread, this thread works off jobs, an interrupt ends both.

The cell's options also say whether the cell waits at all; its front end, where the run shows itself and asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.thread import Awaited
from cellwright.conversation.runs.kinds import DryRun, RunRequest, shown, unsaved_copy
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunError, RunOptions, options_of, result_of
from cellwright.errors import CellwrightError, ErrorCode, log_fault
from cellwright.events import Notice, RunEnd
from cellwright.features.conversation import Conversation
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.output.cell_output import CellOutput, RenewedOutput, SavedOutput, ViewOutput, WidgetOutput
from cellwright.kernel.output.op_log import OpLog
from cellwright.kernel.output.run_pages import RunPages
from cellwright.kernel.run.interrupts import SECONDS_FOR_CLEAN_UP, Interrupts, needs_pump, pump
from cellwright.kernel.run.ipykernel_api import loses_output
from cellwright.kernel.run.notebook import FrontEnd
from cellwright.kernel.run.questions import READY_TIMEOUT_SECONDS, QuestionMirror, Questions
from cellwright.kernel.widgets.bundle import why_no_widget
from cellwright.terminal.views.terminal_text import Look, columns_of, draws, look_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.agent.prompt import ContextProvider
    from cellwright.agent.structured_output import AnswerType
    from cellwright.terminal.views.plain_view import View

logger = logging.getLogger(__name__)

REQUEST_SECONDS = 0.03
"""The time that the output waits for the request to leave; nobody sees a wait as short as that."""

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class CellSurface(RunSurface, frozen=True, kw_only=True):
    """A cell in which a run shows itself: `output` is what is drawn there."""

    output: CellOutput


def cell_surface(
    shell: InteractiveShell,
    front_end: FrontEnd,
    conversation: Conversation,
    options: MagicOptions,
    mirror: QuestionMirror,
    is_watched: Callable[[], bool],
    log_of: Callable[[Run], OpLog],
    pages: RunPages,
) -> CellSurface:
    """The cell that is running: a widget where one can be shown, else text, else only what is saved.

    `log_of` gives what a run is drawn from, `pages` tells which pages are there: a console is none of them.
    """
    quiet, for_people = options.quiet, options.format == "text"
    widget = for_people and front_end.kernel is not None and not front_end.headless
    notice = why_no_widget() if widget else ""
    in_notebook, widget = widget, widget and not notice
    look = look_of(conversation.in_force.settings, os.environ)
    # a question on stdout would end up among the JSON
    # nobody waits for a run in the background, and no `input()` can ask in its place
    questions = Questions(
        conversation.jobs,
        front_end.allows_input and for_people and not options.background,
        widget,
        conversation.in_force.save_rules,
        answer_seconds=conversation.in_force.settings.ask_user_question_seconds,
        mirror=mirror,
        is_watched=is_watched,
        was_closed=lambda: pages.was_closed(front_end.page),
        look=look,
        seconds_to_get_ready=30.0 if options.background else READY_TIMEOUT_SECONDS,
    )

    def clean_each(texts: Iterable[str]) -> Mapping[str, str]:
        return conversation.redaction.clean_each(texts) if conversation.in_force.settings.redact_secrets else {}

    output: CellOutput
    if widget:
        output = WidgetOutput(
            shell,
            clean_each,
            conversation.thread.loop,
            questions,
            front_end,
            quiet=quiet,
            run=lambda: conversation.runs.current,
            log_of=log_of,
            stop_agent=conversation.features.subagents.stop_one,
            pages=pages,
        )
    elif for_people and front_end.kernel is not None and front_end.headless:
        output = SavedOutput(shell, clean_each, quiet=quiet)
    elif in_notebook:
        once = "" if notice in _notices_shown else notice
        _notices_shown.add(notice)
        output = RenewedOutput(shell, clean_each, conversation.thread.loop, quiet=quiet, notice=once)
    else:
        output = ViewOutput(_view(options, look, in_terminal=front_end.kernel is None))
    somebody = widget or questions.allows_input
    ask_user = questions.can_use_tool if somebody else None
    return CellSurface(output.on_event, questions.can_use_tool, ask_user, output.belongs_to, output=output)


def _view(options: MagicOptions, look: Look, *, in_terminal: bool) -> View:
    # most cells show a widget
    from cellwright.terminal.views.plain_view import AnswerView, JsonLinesView, JsonView, PlainView

    if options.format == "json-lines":
        return JsonLinesView(sys.stdout)
    if options.format == "json":
        return JsonView(sys.stdout)
    if options.quiet:
        return AnswerView(sys.stdout, None)
    if not in_terminal:
        return PlainView(sys.stdout)
    columns = columns_of(sys.stdout, os.environ)
    if not draws(sys.stdout, os.environ, columns):
        return PlainView(sys.stdout, columns if sys.stdout.isatty() else None)
    from cellwright.terminal.views.live_view import live_view  # rich

    return live_view(sys.stdout, look, shares_screen=True)


_notices_shown: set[str] = set()


class Task(Awaited, Protocol[R_co]):
    """The work a cell waits for: a run, or a slash command."""

    def result(self) -> R_co: ...

    def cancel(self) -> None: ...


class CellWork(Struct, Generic[R], frozen=True):
    """Work that a cell waits for once it is started, shown by `output`; `finish` raises what the cell should show."""

    output: CellOutput
    start: Callable[[], Task[R]]
    finish: Callable[[R], None]


class CellWait:
    """A cell's wait for something that the agent's thread does; `output` is open meanwhile.

    Entered before that is started: an interrupt which comes while it starts ends it, too. `kernel` is the IPython kernel,
    None in a terminal. `seconds_for_clean_up`: an interrupt that comes sooner after another is the same one.
    `seconds_for_request` is how long the output waits for the request to leave.
    """

    def __init__(
        self,
        conversation: Conversation,
        output: CellOutput,
        kernel: Any,
        seconds_for_clean_up: float = SECONDS_FOR_CLEAN_UP,
        seconds_for_request: float = REQUEST_SECONDS,
    ) -> None:
        self._jobs = conversation.jobs
        self._output = output
        self._kernel = kernel
        self._task: Task[Any] | None = None
        self._seconds_for_request = seconds_for_request
        self._opening = threading.Lock()
        self._is_open = False
        self._failure: Exception | None = None
        self._interrupts = Interrupts(conversation.thread.loop, self._cancel, seconds_for_clean_up)

    def __enter__(self) -> Self:
        self._interrupts.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._task is not None:
                if not self._task.done:
                    self._task.cancel()
                    self._jobs.work_until_done(self._task)
                self._output.close()
        finally:
            self._interrupts.__exit__(kind, error, traceback)

    async def awaited(self, task: Task[R]) -> R:
        """Wait for the end, leaving this thread's loop free. Raises `KeyboardInterrupt` when interrupted."""
        self._attach(task)
        with _pumping(self._kernel):
            while not task.done:
                try:
                    await self._jobs.work_until_done_async(task)
                except asyncio.CancelledError:
                    # the kernel cancels its cell; the agent still answers its open calls
                    task.cancel()
        return _end_of(task)

    def blocking(self, task: Task[R]) -> R:
        """The same where a cell cannot be awaited."""
        self._attach(task)
        self._jobs.work_until_done(task)
        return _end_of(task)

    def _attach(self, task: Task[Any]) -> None:
        self._task = task
        self._interrupts.watch()  # what came before there was a task to cancel is heard now
        if isinstance(task, Run):
            # two threads at work hinder each other: the request goes first, and its thread gives the front end the widget
            # while the model thinks
            is_cold = "ipywidgets" not in sys.modules
            if not is_cold:
                task.when_sent = functools.partial(contextvars.copy_context().run, self._open_ahead)
            # where the widgets' libraries are not imported yet, that takes the time of the request, in its way
            task.request_sent.wait(0.5 if is_cold else self._seconds_for_request)
        self._open()

    def _open_ahead(self) -> None:
        try:
            self._open()
        except Exception as error:  # noqa: BLE001  whatever it is, the cell raises it
            self._failure = error

    def _open(self) -> None:
        with self._opening:
            if self._failure is not None:
                raise self._failure
            if not self._is_open:
                self._is_open = True
                self._output.open()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def until_end(run: Run, output: CellOutput, finish: Callable[[RunEnd], object]) -> None:
    """Let the run go on when the cell has ended, on the agent's thread; `finish` gets its end, then `output` closes."""
    try:
        await asyncio.wait({asyncio.wrap_future(run.future)})
        finish(run.result())
    except CancelledError:
        pass  # the user wanted it, and the output says so
    except RunError:
        pass  # the end of the run says why
    except CellwrightError as error:
        output.emit(Notice(f"{error.code}: {error.message}", "error"))
    except Exception:  # noqa: BLE001  nobody waits who could raise it: without a word the cell would look as if it were at work
        log_fault(logger, "a run in the background failed")
        output.emit(Notice("This failed because of a bug in Cellwright; its log has the traceback.", "error"))
    finally:
        output.close()


@contextlib.contextmanager
def _pumping(kernel: Any) -> Iterator[None]:
    if kernel is None or not needs_pump(kernel):
        yield
        return
    pumping = asyncio.ensure_future(pump(kernel))
    try:
        yield
    finally:
        pumping.cancel()


def _end_of(task: Task[R]) -> R:
    try:
        return task.result()
    except CancelledError:
        raise KeyboardInterrupt("Stopped. The conversation continues in the next cell.") from None


class PreparedRun(Struct, frozen=True):
    """A cell's question, the place it is shown, and what is done with its end; `finish` raises what the cell should show."""

    request: RunRequest
    surface: CellSurface
    finish: Callable[[RunEnd], None]


def run_options(options: MagicOptions, typed: AnswerType | None = None) -> RunOptions:
    """The magic's options as the conversation takes them; `typed` is what its `schema` names."""
    given = dict(options.run)
    file, files = given.pop("system_prompt_file", None), given.pop("append_system_prompt_file", ())
    if file:
        given["system_prompt"] = _file_text(file)
    if texts := [*given.get("append_system_prompt", ()), *map(_file_text, files)]:
        given["append_system_prompt"] = "\n\n".join(texts)
    if not given.keys().isdisjoint(("agents", "mcp_servers")):
        from cellwright.python_api.ask_options import agents_of, given_servers  # few cells bring some along

        if "agents" in given:
            given["agents"] = agents_of(_agents(given["agents"]))
        if "mcp_servers" in given:
            given["mcp_servers"] = given_servers(given["mcp_servers"], Path.cwd(), os.environ)
    return replace(options_of({**given, "context": options.context}), answer_type=typed)


def _agents(name: str) -> Mapping[str, Any]:
    """The object of agents in a JSON file. Raises CellwrightError INVALID_PARAMETERS."""
    try:
        content = json.loads(_file_text(name))
    except ValueError as error:
        message = f"The file {name!r} is not JSON: {error}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message) from None
    if not isinstance(content, dict):
        message = f"The file {name!r} must hold an object of agents by their names. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return content


def _file_text(name: str) -> str:
    """The text of a file that an option names. Raises CellwrightError INVALID_PARAMETERS where it cannot be read."""
    try:
        return Path(name).expanduser().read_text("utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        message = f"The file {name!r} cannot be read: {why}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message) from None


def runs_in_background(options: MagicOptions, front_end: FrontEnd) -> bool:
    """Return whether the run goes on without its cell. Raises `CellwrightError` if nobody could see or answer it."""
    if not options.background:
        return False
    if front_end.kernel is not None and front_end.headless:
        # the kernel ends with its last cell, and the answer would be cut off
        print("[--background: this notebook is not open in a browser, so the cell waits for the answer.]")
        return False
    if front_end.cell_id is None or options.format != "text" or why_no_widget():
        message = (
            "--background needs a notebook that shows widgets: here you could neither see the run nor answer its "
            "questions. Leave it out, and the prompt is answered while you wait. Nothing was sent."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if loses_output():
        print("[--background needs ipykernel 6, or 7.4 or newer; with this one the cell waits for the answer.]")
        return False
    return True


def dry_run(
    conversation: Conversation,
    shell: Any,
    prompt: str,
    options: MagicOptions,
    typed: AnswerType | None,
    context: tuple[ContextProvider, ...],
) -> PreparedRun:
    """A run that shows what `prompt` would send and sends nothing."""
    # not what most runs need
    from cellwright.terminal.views.plain_view import Unseen

    kind = DryRun()
    request = RunRequest(
        prompt=prompt,
        options=run_options(options),
        context=context,
        kind=kind,
        session=unsaved_copy(conversation.sessions.current),
    )

    def finish(end: RunEnd) -> None:
        result_of(end, ())
        summary = kind.summary(typed)
        print(shown(summary) if options.format == "text" else json.dumps(summary))
        if options.out is not None:
            shell.user_ns[options.out] = summary

    return PreparedRun(request, CellSurface(output=ViewOutput(Unseen())), finish)
