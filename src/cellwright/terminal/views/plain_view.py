"""A run as plain lines: for terminals that cannot be drawn on, for pipes and for programs.

If stdout is read by a person the answer comes as it is written; else stdout carries the answer alone, whole, at the
end, and what happens on the way goes to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol, TextIO

from cellwright.agent.calls.approval import ToolUse
from cellwright.agent.compaction import compacted_line
from cellwright.events import (
    ContextAttached,
    ContextCompacted,
    Event,
    ModeChanged,
    Notice,
    NumbersTraced,
    Retrying,
    RunEnd,
    Steered,
    TextDelta,
    ThinkingDelta,
    TodosChanged,
    ToolEnd,
    ToolStart,
    TurnEnd,
    UserPrompt,
)
from cellwright.telemetry.json_lines import JsonLines, Line, whole_run
from cellwright.telemetry.run_state import CallItem, RunState
from cellwright.terminal.views import run_lines
from cellwright.terminal.views.terminal_text import harmless
from cellwright.terminal.views.wrapped_markdown import WrappedMarkdown
from cellwright.text import visible_line
from cellwright.tools.planning.todos import MARKS


class View(Protocol):
    """The part of the terminal in which a run shows itself. All of it is called on the main thread."""

    def emit(self, event: Event) -> None: ...

    def tick(self) -> None:
        """Some time passed."""
        ...

    def pause(self) -> None:
        """Leave the screen to a question, until the next event."""
        ...

    def close(self) -> None: ...

    def show_draft(self, draft: str) -> None:
        """Show what the user writes meanwhile."""
        ...

    def show_details(self, shown: bool) -> None:
        """Show results and thinking whole from now on, or no longer."""
        ...

    @property
    def card_taken_away(self) -> Callable[[ToolUse], None] | None:
        """Notes that a question left the screen: what came of it is shown whole. None in a view that draws no more of it."""
        ...


class Unseen:
    """A view that shows nothing; the base of those that only write: they have nothing to draw, move or clear."""

    def emit(self, event: Event) -> None:
        pass

    def tick(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def close(self) -> None:
        pass

    def show_draft(self, draft: str) -> None:
        pass

    def show_details(self, shown: bool) -> None:
        pass

    @property
    def card_taken_away(self) -> None:
        return None


class AnswerView(Unseen):
    """The answer alone, when it is whole; `log` is what happened on the way, one line each, unless it is None."""

    def __init__(self, out: TextIO, log: TextIO | None) -> None:
        self._out = out
        self._log = CallLines(log) if log is not None else None

    def emit(self, event: Event) -> None:
        if isinstance(event, RunEnd) and event.text:
            print(harmless(event.text) if self._out.isatty() else event.text, file=self._out, flush=True)
        if self._log is not None:
            self._log.emit(event)


class PlainView(Unseen):
    """The answer as it is written, and a line for each call, on one stream without colours or cursor movements.

    With `columns` the answer is wrapped to them.
    """

    def __init__(self, out: TextIO, columns: int | None = None) -> None:
        self._out = out
        self._wrapped = WrappedMarkdown(columns) if columns is not None else None
        self._lines = CallLines(out)
        self._open_line = False
        self._shown = False
        self._thinking = run_lines.Thinking()

    def emit(self, event: Event) -> None:
        if isinstance(event, TextDelta | ToolStart | TurnEnd | Retrying | RunEnd):
            thought = self._thinking.end()
            if thought is not None and not isinstance(event, Retrying):
                self._end_line()
                print(thought[0], file=self._out, flush=True)
        match event:
            case TextDelta():
                text = harmless(event.text)
                self._write(text if self._wrapped is None else self._wrapped.add(text))
                self._shown = True
            case ThinkingDelta():
                self._thinking.add(event.text)
            case _:
                if not isinstance(event, UserPrompt):
                    self._end_line()
                if isinstance(event, Retrying) and self._shown:
                    print("[the answer starts again]", file=self._out)
                self._shown = self._shown and not isinstance(event, TurnEnd | Retrying)
                self._lines.emit(event)

    def _write(self, text: str) -> None:
        if not text:
            return
        self._out.write(text)
        self._out.flush()
        self._open_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._wrapped is not None:
            self._write(self._wrapped.rest())
        if self._open_line:
            print(file=self._out, flush=True)
            self._open_line = False


class CallLines:
    """A line for each call that ended, each retry, each notice, what changed of the todos and the mode, and the end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._state = RunState()

    def emit(self, event: Event) -> None:  # noqa: C901  one arm for each event
        self._state.take(event)
        match event:
            case ToolEnd():
                self._call_ended(event, self._state.calls[event.tool_use_id])
            case TodosChanged():
                for line in run_lines.todo_lines(self._state, MARKS):
                    self._print(line)
            case ModeChanged():
                self._print(run_lines.mode(event))
            case Steered(state="delivered"):
                self._print(f"You: {visible_line(event.text, 1_000)}")
            case ContextAttached() if run_lines.context_line(event):
                self._print(run_lines.context_line(event))
            case Retrying():
                self._print(run_lines.retry(event))
            case Notice() if self._state.is_first(event):
                self._notice(event)
            case ContextCompacted() if event.state != "failed":  # an error or a notice says why
                self._print(visible_line(compacted_line(event), 1_000))
            case NumbersTraced() if event.numbers:
                self._print(run_lines.numbers(event))
            case RunEnd():
                for notice in run_lines.repeated(self._state):
                    self._notice(notice)
                self._print(run_lines.footer(event, self._state))
            case _:
                pass  # no news for somebody who reads a log

    def _notice(self, notice: Notice) -> None:
        self._print(f"{notice.level}: {visible_line(notice.message, 1_000)}")

    def _call_ended(self, event: ToolEnd, item: CallItem) -> None:
        if run_lines.is_shown_already(event, item):
            return
        title = run_lines.ended_title(item.call, event) if item.call else event.name
        self._print(f"* {title}: {run_lines.outcome(event)}")
        if what := run_lines.complaint(event):
            self._print(f"  {what}")
        for line in run_lines.diff_lines(run_lines.diff_of(event, item)):
            self._print(f"  {line}")

    def _print(self, line: str) -> None:
        print(line, file=self._out, flush=True)


class JsonLinesView(Unseen):
    """JSON lines as things happen."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._projection = JsonLines()

    def emit(self, event: Event) -> None:
        for line in self._projection.lines(event):
            print(json.dumps(line), file=self._out, flush=True)


class JsonView(Unseen):
    """One JSON object when the run is over."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._projection = JsonLines()
        self._lines: list[Line] = []

    def emit(self, event: Event) -> None:
        self._lines += self._projection.lines(event)
        if isinstance(event, RunEnd):
            print(json.dumps(whole_run(self._lines)), file=self._out, flush=True)
