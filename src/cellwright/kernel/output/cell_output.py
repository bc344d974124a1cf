"""The outputs of a run in a notebook: live while it works, and then what the notebook keeps of it.

What Claude's code displays is an ordinary output of the cell, where it was displayed: so the answer is in parts, one
above each display and one below the last.

What is saved never holds a widget of ours: a widget in a saved notebook shows an error in the next kernel. So each part is
replaced, under its display id, by the transcript as data when the run is over, however it ended: our extension draws it
with what has streamed it, and everybody else the Markdown beside it. Pages that such an update does not reach get it by
`run_pages.py`; they know its places by the run's id in the outputs' metadata.

A run shows itself on stdout, by the terminal's views, in terminal IPython and for programs. Where a notebook can show no
widget of ours, what would be saved is renewed while the run goes on. A publisher goes on publishing into its one cell,
whatever the kernel runs later.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import logging
import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, json

from cellwright.agent.prompt import SteeringText
from cellwright.conversation.runs.run import Run
from cellwright.errors import CellwrightError
from cellwright.events import Event, Notice, Steered, ToolEnd
from cellwright.kernel.output.code_displays import CodeDisplay, CodeDisplays, kept_displays
from cellwright.kernel.output.op_log import OpLog
from cellwright.kernel.output.protocol import (
    AckMessage,
    AnswerMessage,
    BrowserMessage,
    HelloMessage,
    KeptMessage,
    ReadyMessage,
    Restart,
    SavedCellOutput,
    SavedMessage,
    Steer,
    Stop,
    StopAgent,
    WithdrawMessage,
    read_message,
)
from cellwright.kernel.output.run_pages import LaterPages, OpSender, RedrawThrottle, RunPages
from cellwright.kernel.output.saved_markdown import WORKING, SavedTranscript
from cellwright.kernel.output.saved_ops import TRANSCRIPT, VERSION, CleanEach, cleaned, saved_transcripts
from cellwright.kernel.output.transcript_ops import QUIET_OPS
from cellwright.kernel.pages.comm import knows_secret
from cellwright.kernel.run.interrupts import interrupt_main_thread, needs_pump
from cellwright.kernel.run.notebook import FrontEnd
from cellwright.kernel.run.questions import READY_TIMEOUT_SECONDS, Questions
from cellwright.sessions.provenance import FIELD, NUMBERS

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.widgets.transcript import TranscriptWidget
    from cellwright.terminal.views.plain_view import View


def cell_publisher(shell: InteractiveShell) -> Any:
    """A display publisher of the cell that is running, for use from any thread and after the cell has ended.

    ipykernel 6 has one parent for all that is published in the process, and that is the cell that runs then.
    """
    shared: Any = shell.display_pub
    own = type(shared)(parent=shell, session=shared.session, pub_socket=shared.pub_socket)
    own.topic = shared.topic
    kernel: Any = shell.kernel  # type: ignore[attr-defined]  # only a kernel's shell has cells
    own.set_parent(kernel.get_parent("shell"))
    return own


logger = logging.getLogger(__name__)

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

CELL_LEAVES_OUT = frozenset({"display"})
"""The operations that no cell shows: what code displays is an output beside it."""

STUCK = "The code does not react to the interrupt. Restarting the kernel ends it; variables are lost."


class CellOutput(Protocol):
    """The output of one run. `open` is called in the cell's context, on its thread or the agent's; `on_event`, `emit` and
    `stuck` on the agent's loop.

    `close` is called where the run is waited for: on the cell's thread, or in the background on the agent's.
    """

    def open(self) -> None: ...

    def on_event(self, event: Event) -> None:
        """An event of the run that is shown."""
        ...

    def emit(self, event: Event) -> None:
        """Say something here alone: it is no event of the run, or there is none."""
        ...

    def stuck(self, tool_use_id: str) -> None:
        """The code of this call does not react to an interrupt; the run's log says so."""
        ...

    def close(self) -> None: ...

    def tells_error(self) -> bool:
        """Return whether the cell's output says why the run ended, and the cell need not say it again."""
        ...

    def belongs_to(self, run: Run) -> None:
        """The run that is shown; called once, before its first event."""
        ...

    def describe(self, metadata: Callable[[], Mapping[str, Any]]) -> None:
        """Set what the saved output's metadata shall say, when it is saved."""
        ...

    def keep(self, outputs: Sequence[Mapping[str, Any]]) -> None:
        """The run does not take place: the cell is to hold `outputs`, as it did before."""
        ...


class _Shown(Struct, eq=False):
    """One output of the cell: a part of the answer, or what code has displayed."""

    display_id: str
    data: Mapping[str, Any]
    metadata: Mapping[str, Any] = {}
    is_part: bool = False
    live: Mapping[str, Any] = {}
    """The mimebundle that shows this part while it comes."""


class SavedOutput:
    """Displays that say that Claude is working, then what came of it. What nobody watches needs no more.

    `clean_each` finds secrets in the texts that are kept.
    """

    def __init__(self, shell: InteractiveShell, clean_each: CleanEach, *, quiet: bool) -> None:
        # where a process has one parent for all, a page's message is that parent while it is handled: what the agent's
        # thread publishes then would get lost, so the cell has a publisher of its own; one that captures output stays
        shared, kernel = shell.display_pub, getattr(shell, "kernel", None)
        has_one_parent = kernel is not None and needs_pump(kernel) and hasattr(shared, "pub_socket")
        self._publisher: Any = cell_publisher(shell) if has_one_parent else shared
        self._clean_each = clean_each
        self._quiet = quiet
        self._saved = SavedTranscript(quiet=quiet)
        self._displays = CodeDisplays()
        self._shown: list[_Shown] = []
        self._earlier: list[Mapping[str, Any]] = []
        self._instead: dict[str, Any] = {}
        self._metadata: Callable[[], Mapping[str, Any]] = dict
        self._run_id = ""
        """The name of the run in the outputs that pages are to find again; "" where none has to."""
        self._context = contextvars.copy_context()

    def open(self) -> None:
        self._context = contextvars.copy_context()
        self._open_part()

    def belongs_to(self, run: Run) -> None:
        pass  # nobody can say anything here

    def describe(self, metadata: Callable[[], Mapping[str, Any]]) -> None:
        self._metadata = metadata

    def keep(self, outputs: Sequence[Mapping[str, Any]]) -> None:
        self._earlier = [output for output in outputs if isinstance(output.get("data"), Mapping)]
        if not self._shown:
            for output in self._earlier:
                self._publisher.publish(data=dict(output["data"]), metadata=dict(output.get("metadata", {})))

    def instead(self, data: Mapping[str, Any]) -> None:
        """Hold `data` (a mimebundle) in the cell when it is closed, in place of what was shown, which was no run."""
        self._instead = dict(data)

    def on_event(self, event: Event) -> None:
        self.emit(event)

    def emit(self, event: Event) -> None:
        self._take_event(event)

    def stuck(self, tool_use_id: str) -> None:
        logger.warning("%s: %s", tool_use_id, STUCK)

    def close(self) -> None:
        self._keep_in_cell()

    def tells_error(self) -> bool:
        return False  # programs that execute notebooks look for an output of the type "error"

    def _take_event(self, event: Event) -> None:
        self._saved.emit(event)
        for shown in self._displays.take(event):
            self._display(shown)
        # what follows stands below what the call has displayed
        if isinstance(event, ToolEnd) and self._shown and not self._shown[-1].is_part:
            self._begin_part()

    def _display(self, shown: CodeDisplay) -> None:
        """Show what Claude's code displays as the output of the cell that it is."""
        if not self._shown:
            return  # nothing is shown where nothing is open
        ids = [each.display_id for each in self._shown]
        number = ids.index(shown.display_id) if shown.display_id in ids else len(ids)
        place = self._placed(shown.metadata, number)
        self._shown[number : number + 1] = [_Shown(shown.display_id, shown.data, place)]
        self._publish(shown.display_id, shown.data, place, update=number < len(ids))

    def _begin_part(self) -> None:
        self._saved.state.begin_part()
        self._open_part()

    @property
    def _parts(self) -> int:
        """The number of parts that there are."""
        return sum(each.is_part for each in self._shown)

    def _open_part(self) -> None:
        """Show that Claude is working, below all else."""
        data = {"text/markdown": WORKING, "text/plain": "Claude is working…"}
        self._show_part(data)

    def _show_part(self, data: Mapping[str, Any]) -> None:
        place = self._placed({}, len(self._shown))
        part = _Shown(f"claude-{uuid.uuid4().hex}", data, place, is_part=True, live=data)
        self._shown.append(part)
        self._publish(part.display_id, data, place, update=False)

    def _placed(self, metadata: Mapping[str, Any], number: int) -> dict[str, Any]:
        """`metadata` with the place of an output: the run, and its number among the run's outputs."""
        if not self._run_id:
            return dict(metadata)
        return {**metadata, FIELD: {**metadata.get(FIELD, {}), "run": self._run_id, "output": number}}

    def _show_as_saved(self) -> None:
        """Show each part as it would be saved now."""
        shown = [each for each in self._shown if each.is_part]
        for part, texts in zip(shown, self._saved.parts(), strict=False):
            data: dict[str, Any] = {**texts}
            if part is shown[-1]:
                working = "\n\n".join(filter(None, (texts["text/markdown"], WORKING)))
                data = {"text/markdown": working, "text/plain": "Claude is working…"}
            self._show_instead(part, data)

    def _show_instead(self, part: _Shown, data: Mapping[str, Any]) -> None:
        if part.data != data:
            part.data = data
            self._publish(part.display_id, data, part.metadata, update=True)

    def _keep_in_cell(self) -> list[_Shown]:
        """Replace what is shown by the outputs that the cell holds from now on, and return these."""
        if self._shown and not self._shown[-1].is_part:  # the run was cut off in a call
            self._saved.state.begin_part()
            self._show_part({"text/plain": ""})
        if not self._keeps_answer:
            return self._keep_others()
        kept = self._kept_parts()
        displays = [each.data for each in self._shown if not each.is_part]
        pictures = iter(kept_displays(displays, lambda text: self._clean_each([text]).get(text, text)))
        for number, shown in enumerate(self._shown):
            before = shown.data, shown.metadata
            if shown.is_part:
                shown.data, shown.metadata = kept.pop(0)
            else:
                shown.data = next(pictures)
            shown.metadata = self._placed(shown.metadata, number)
            if (shown.data, shown.metadata) != before:
                self._publish(shown.display_id, shown.data, shown.metadata, update=True)
        return self._shown

    @property
    def _keeps_answer(self) -> bool:
        """True where the cell holds what came of the run: something was shown, and nothing else stands in its place."""
        return bool(self._shown) and not (self._earlier or self._instead)

    def _keep_others(self) -> list[_Shown]:
        """The same where something else than an answer is to stand in the cell."""
        others = self._earlier or [{"data": self._instead or {"text/plain": ""}}]
        kept = [_Shown("", dict(each["data"]), dict(each.get("metadata", {}))) for each in others]
        for shown, other in zip(self._shown, kept, strict=False):
            other.display_id = shown.display_id
        for other in kept:
            if other.display_id:
                self._publish(other.display_id, other.data, other.metadata, update=True)
            else:
                self._publisher.publish(data=dict(other.data), metadata=dict(other.metadata))
        return kept

    def _kept_parts(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The mimebundle of each part and its metadata; where the answer came from stands in the first one."""
        state = self._saved.state
        transcripts = saved_transcripts(state, self._parts, self._clean_each, quiet=self._quiet)
        parts = cleaned(self._saved.parts(), self._clean_each)
        bundles = [{TRANSCRIPT: transcript, **texts} for transcript, texts in zip(transcripts, parts, strict=True)]
        if self._run_id and state.replayed:  # the same answer, so the same bytes
            self._run_id = hashlib.sha256(json.encode(bundles)).hexdigest()[:16]
        metadata = dict(self._metadata())
        if FIELD in metadata and state.numbers is not None and state.numbers.record is not None:
            metadata[FIELD] = {**metadata[FIELD], NUMBERS: state.numbers.record}
        return [(bundle, {} if n else metadata) for n, bundle in enumerate(bundles)]

    def _publish(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None, *, update: bool
    ) -> None:
        # events come on the agent's thread: what is published belongs to the cell that was running
        self._context.copy().run(
            self._publisher.publish,
            data=dict(data),
            metadata=dict(metadata or {}),
            transient={"display_id": display_id},
            update=update,
        )


class RenewedOutput(SavedOutput):
    """The answer as it would be saved, shown anew while it comes, for notebooks in which no widget of ours is drawn.

    `notice` says once why that is so. `loop` is the agent's: it renews what is shown.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        clean_each: CleanEach,
        loop: asyncio.AbstractEventLoop,
        *,
        quiet: bool,
        notice: str,
    ) -> None:
        super().__init__(shell, clean_each, quiet=quiet)
        self._notice = notice
        self._renewal = RedrawThrottle(loop, self._show_as_saved)

    def open(self) -> None:
        if self._notice:
            print(self._notice)
        super().open()

    def tells_error(self) -> bool:
        return self._keeps_answer and self._saved.tells_error

    def emit(self, event: Event) -> None:
        super().emit(event)
        self._renewal.soon()

    def close(self) -> None:
        self._renewal.stop()
        super().close()


class WidgetOutput(SavedOutput):
    """The transcript widget while the run lasts, and its answers to `questions`.

    A run is drawn from its log, which `log_of` knows and others read as well. `run` gives the run that goes on, where the
    output belongs to none. Stop cancels it; where the main thread waits for it,
    the kernel's interrupt reaches it in `input()` as well. `stop_agent` ends one agent that works for Claude.
    `pages` tells who else shows the run.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        clean_each: CleanEach,
        loop: asyncio.AbstractEventLoop,
        questions: Questions,
        front_end: FrontEnd,
        *,
        quiet: bool,
        run: Callable[[], Run | None],
        log_of: Callable[[Run], OpLog],
        stop_agent: Callable[[str], None],
        pages: RunPages,
    ) -> None:
        super().__init__(shell, clean_each, quiet=quiet)
        self._shell = shell
        self._cell_id = front_end.cell_id
        self._on_main_thread = threading.current_thread() is threading.main_thread()
        self._run = run
        self._loop = loop
        self._questions = questions
        self._log_of = log_of
        self._stop_agent = stop_agent
        self._log = OpLog()
        self._sender = OpSender(self._log, CELL_LEAVES_OUT | (QUIET_OPS if quiet else frozenset()))
        self._later_pages = LaterPages(front_end.page, self._sender, pages, loop)
        self._widget: TranscriptWidget | None = None
        self._count: int | None = None
        self._secrets: dict[str, str] = {}
        self._restart_offered = False
        self._closed = False
        # VS Code shows widgets only where it finds their scripts, and updates in any case
        self._renewal = RedrawThrottle(loop, self._renew, READY_TIMEOUT_SECONDS) if front_end.is_vscode else None

    def belongs_to(self, run: Run) -> None:
        self._run = lambda: run
        self._log = self._log_of(run)
        self._sender.follow(self._log)
        if run.background:
            self._publisher = cell_publisher(self._shell)

    def open(self) -> None:
        # ipywidgets: imported ahead, in the background
        from cellwright.kernel.widgets.transcript import TranscriptWidget

        self._widget = TranscriptWidget(self._take)
        self._run_id = self._widget.run
        # the shell's own count is the next cell's by now in some versions of IPython
        running = getattr(self._shell.displayhook, "exec_result", None)
        self._count = getattr(running, "execution_count", None)
        super().open()
        self._sender.attach(self._widget.send)

    def _open_part(self) -> None:
        assert self._widget is not None
        part = self._widget
        if self._parts:
            part = self._context.copy().run(type(part), lambda *_: None, of=part)
        live = {"version": VERSION, "run": part.run, "part": part.part, "count": self._count}
        texts = {"text/markdown": WORKING, "text/plain": "Claude is working…"}
        self._show_part({TRANSCRIPT: live, WIDGET_VIEW: part.view_data, **texts})
        self._later_pages.begin(self._widget, self._saved_message(self._shown))

    def _begin_part(self) -> None:
        self._log.add({"op": "part", "part": self._parts}, only=self._sender)
        super()._begin_part()

    def on_event(self, event: Event) -> None:
        self._take_event(event)

    def emit(self, event: Event) -> None:
        self._log.on_event(event, only=self._sender)
        self._take_event(event)

    def _take_event(self, event: Event) -> None:
        super()._take_event(event)
        if self._renewal is not None and not self._questions.ready.is_set():
            self._renewal.soon()

    def _renew(self) -> None:
        if not self._questions.ready.is_set():
            self._show_as_saved()

    def _show_live(self) -> None:
        """The widget has come after all: have it show what it was to show."""
        if self._renewal is not None and not self._closed:
            for part in self._shown:
                if part.is_part:
                    self._show_instead(part, part.live)

    def stuck(self, tool_use_id: str) -> None:
        self._restart_offered = True

    def tells_error(self) -> bool:
        return self._keeps_answer and self._saved.tells_error

    def close(self) -> None:
        self._closed = True
        if self._renewal is not None:
            self._renewal.stop()
        self._sender.close()
        outputs = self._keep_in_cell()
        # a front end that names no cell may be one that shows text alone, and no updates of it
        if self._cell_id is None and not self._questions.ready.is_set() and not self._earlier:
            print(self._instead.get("text/plain") or self._saved.plain())
        if self._widget is not None:
            self._later_pages.end(self._widget, self._saved_message(outputs))
            self._widget.keep_for_later_pages()

    def _saved_message(self, outputs: Sequence[_Shown]) -> SavedMessage:
        shown: list[SavedCellOutput] = [{"data": dict(each.data), "metadata": dict(each.metadata)} for each in outputs]
        return {
            "type": "saved",
            "run": "" if self._widget is None else self._widget.run,
            "cell": self._cell_id,
            "count": self._count,
            "writer": "",
            "outputs": shown,
        }

    def _take(self, widget: TranscriptWidget, content: object, page: str) -> None:
        """A message from the browser, on the thread of the subshell that it was sent to."""
        message = read_message(content)
        if message is None:
            logger.warning("not a message of the transcript protocol: %.200r", content)
        elif isinstance(message, HelloMessage):
            # the widget's loader says it before any other script can find the widget: the first one counts
            self._secrets.setdefault(page, message.secret)
        elif knows_secret(content, self._secrets.get(page, "")):
            self._do(widget, message, page)
        else:
            logger.warning("a message without its page's secret was not heard: another script sent it")

    def _do(self, widget: TranscriptWidget, message: BrowserMessage, page: str) -> None:
        match message:
            case ReadyMessage(have):
                self._later_pages.ready(widget, page, have)
                self._on_loop(self._get_ready)
            case KeptMessage(writer):
                self._later_pages.kept(widget, page, writer)
            case AnswerMessage() | Stop() | StopAgent() | Restart() | Steer() | WithdrawMessage() if self._closed:
                pass  # it crossed the end; what runs now is another cell
            case AnswerMessage() as answer:
                self._on_loop(lambda: self._questions.take(answer))
                acknowledgement: AckMessage = {"type": "ack", "question": answer.question}
                widget.send(acknowledgement)
            case Stop():
                self._stop()
            case StopAgent(agent_id):
                self._on_loop(lambda: self._stop_agent(agent_id))
            case Steer() as words:
                self._on_loop(lambda: self._steer(words))
            case WithdrawMessage(words_id):
                self._on_loop(lambda: self._withdraw(words_id))
            case Restart() if self._restart_offered:
                # the main thread is out of reach, so nothing that ends a process in good order can run
                os._exit(1)
            case _:
                logger.warning("nobody was offered this: %.200r", message)

    def _get_ready(self) -> None:
        self._questions.ready.set()
        if self._renewal is not None:
            self._renewal.now(self._show_live)

    def _stop(self) -> None:
        run = self._run()
        if self._on_main_thread and not (run is not None and run.background):
            interrupt_main_thread()
        elif run is not None and run.task is not None:
            run.task.cancel()

    def _steer(self, words: Steer) -> None:
        try:
            if (run := self._run()) is not None:
                run.steering.add(SteeringText(words.id, words.text, words.how))
        except CellwrightError as error:
            self.emit(Steered(words.id, words.text, "withdrawn", words.how))
            self.emit(Notice(error.message, "warning"))

    def _withdraw(self, words_id: str) -> None:
        if (run := self._run()) is not None:
            run.steering.withdraw(words_id)

    def _on_loop(self, call: Callable[[], object]) -> None:
        # the loop is closed when the extension was unloaded while a page still shows the widget
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


class ViewOutput:
    """The output that `view` makes of the events."""

    def __init__(self, view: View) -> None:
        self._view = view

    def open(self) -> None:
        pass  # text begins with its first event

    def on_event(self, event: Event) -> None:
        self._view.emit(event)

    def emit(self, event: Event) -> None:
        self._view.emit(event)

    def stuck(self, tool_use_id: str) -> None:
        print(STUCK)

    def tells_error(self) -> bool:
        return False

    def close(self) -> None:
        self._view.close()

    def belongs_to(self, run: Run) -> None:
        pass  # nobody can say anything here

    def describe(self, metadata: Callable[[], Mapping[str, Any]]) -> None:
        pass  # text has none

    def keep(self, outputs: Sequence[Mapping[str, Any]]) -> None:
        print("Skipped: the cell keeps the answer it held.")
