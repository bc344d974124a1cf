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
from cellwright.terminal.views.terminal_text import harmless, width_of
from cellwright.text import lazy_pattern, visible_line
from cellwright.tools.planning.todos import MARKS

_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})")
_RULE = lazy_pattern(r"\s*([-*_=])(?:\s*\1){2,}\s*")
_MARKER = lazy_pattern(r"\s*(?:(?:[-+*]|\d{1,9}[.)]|>|#{1,6})\s+(?:\[[ xX]\]\s+)?)*")
_PROSE = lazy_pattern(r"(?:[^\s|`~\-*_=+#>\d\[]|\[[^\sxX]|\[[ xX][^\]]|`[^`]|\*{1,2}[^\s*]|\d+[^\s\d.)])")
_CELL_END = lazy_pattern(r"(?<!\\)\|")

_DELIMITER = lazy_pattern(r"\s*:?-+:?\s*")


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
    def card_taken_away(self) -> Callable[[ToolUse, bool], None] | None:
        """Notes that a question left the screen, and whether it was folded. None in a view that draws no more of it."""
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


class WrappedMarkdown:
    """Wraps Markdown to `columns`: `add` takes text as it comes and returns text to print; `rest` returns what is left."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._pending = ""
        self._fence = ""
        self._table: list[str] = []
        self._flows = False
        self._column = 0
        self._indent = ""

    def add(self, text: str) -> str:
        self._pending += text
        out = ""
        while (end := self._pending.find("\n")) >= 0:
            line, self._pending = self._pending[:end], self._pending[end + 1 :]
            out += self._line(line)
        return out + self._begun()

    def rest(self) -> str:
        """Return the end of the text, without a line's end that was not written."""
        line, self._pending = self._pending, ""
        out = self._line(line).removesuffix("\n") if line or self._flows else self._end_table()
        self._fence = ""
        return out

    def _line(self, line: str) -> str:
        if self._flows:
            self._flows = False
            return self._words(line) + "\n"
        fence = _FENCE.match(line)
        if self._fence or fence:
            if not self._fence and fence:
                self._fence = fence[1]
            elif fence and fence[1].startswith(self._fence) and not line[fence.end() :].strip():
                self._fence = ""
            return self._end_table() + line + "\n"
        if line.lstrip().startswith("|"):
            self._table.append(line)
            return ""
        before = self._end_table()
        if _RULE.fullmatch(line):
            return f"{before}{line.strip()[: self._columns]}\n"
        return before + self._start(line) + "\n"

    def _begun(self) -> str:
        """Return the whole words of a line that is still being written, once it is known to be prose."""
        if self._fence or not self._pending:
            return ""
        before = ""
        if not self._flows:
            marker = _MARKER.match(self._pending)
            if not _PROSE.match(self._pending, marker.end() if marker else 0):
                return ""
            before = self._end_table()
        end = len(self._pending.rstrip())
        # what comes next may belong to the last word: it waits unless it would still fit then
        cut = max(self._pending.rfind(" ", 0, end), self._pending.rfind("\t", 0, end))
        # what is still missing of a word is seldom longer than 20 columns
        if (self._column if self._flows else 0) + width_of(self._pending[:end]) + 20 <= self._columns:
            cut = end
        marker = _MARKER.match(self._pending)
        if cut <= 0 or (not self._flows and marker and cut < marker.end()):
            return before
        words, self._pending = self._pending[:cut], self._pending[cut:]
        out = self._words(words) if self._flows else self._start(words)
        self._flows = True
        return before + out

    def _start(self, line: str) -> str:
        marker = _MARKER.match(line)
        head = marker[0] if marker else ""
        # the lines of a quotation stay marked; in a narrow terminal deep lists leave room for words
        indent = "".join(character if character == ">" else " " for character in head)
        self._indent = indent if len(indent) <= self._columns // 2 else "  "
        self._column = len(head)
        return head + self._words(line[len(head) :])

    def _words(self, text: str) -> str:
        out = []
        at = 0
        while at < len(text):
            start = at + len(text[at:]) - len(text[at:].lstrip())
            end = next((index for index in range(start, len(text)) if text[index].isspace()), len(text))
            space, word = text[at:start], text[start:end]
            width = width_of(word)
            if word and space and self._column + len(space) + width > self._columns:
                out.append("\n" + self._indent + word)
                self._column = len(self._indent) + width
            elif word:
                out.append(space + word)
                self._column += len(space) + width
            at = end
        return "".join(out)

    def _end_table(self) -> str:
        lines, self._table = self._table, []
        rows = [_cells(line) for line in lines]
        if len(rows) < 2 or not all(map(_DELIMITER.fullmatch, rows[1])):
            return "".join(self._start(line) + "\n" for line in lines)
        head, delimiters, *body = rows
        body = [[*row, *[""] * len(head)][: len(head)] for row in body]
        widths = [max(map(width_of, column)) for column in zip(head, *body, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) > self._columns:
            return "\n".join(self._row_block(head, row) for row in body)
        is_right = [cell.strip().endswith(":") and not cell.strip().startswith(":") for cell in delimiters]
        is_right += [False] * len(head)
        out = ""
        for row in [head, ["-" * width for width in widths], *body]:
            line = ""
            for cell, width, ends_right in zip(row, widths, is_right, strict=False):
                space = " " * (width - width_of(cell))
                line += f"  {space}{cell}" if ends_right else f"  {cell}{space}"
            out += line[2:].rstrip() + "\n"
        return out

    def _row_block(self, head: list[str], row: list[str]) -> str:
        out = ""
        for name, cell in zip(head, row, strict=True):
            if not cell:
                continue
            self._indent, self._column = "  ", 0
            out += self._words(f"{name}: {cell}" if name else cell) + "\n"
        return out


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(inner)]
