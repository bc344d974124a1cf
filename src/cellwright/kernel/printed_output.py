"""A run as plain text on stdout: in terminal IPython, and in a notebook whose widget was not built."""

from __future__ import annotations

import sys

from cellwright.events import Event, Notice, Retrying, RunEnd, TextDelta, ToolEnd, ToolProgress, ToolStart, TurnEnd
from cellwright.kernel.cell_output import STUCK
from cellwright.kernel.safe_markdown import visible_controls


class PrintedOutput:
    """Prints the answer as it comes, and a line for each tool; `notice` is printed first."""

    def __init__(self, *, quiet: bool, notice: str = "") -> None:
        self._quiet = quiet
        self._notice = notice
        self._in_line = False

    def open(self) -> None:
        if self._notice:
            self._line(self._notice)

    def emit(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._write(event.text)
            case Notice(level="warning" | "error"):
                self._line(event.message)
            case TurnEnd():
                self._end_line()
            case Retrying():
                self._line(
                    f"[{event.message} Trying again in {event.wait_seconds:.0f} s; what was said so far is void.]"
                )
            case _ if not self._quiet:
                self._tool_line(event)
            case _:
                pass  # what a quiet cell does not show

    def stuck(self, tool_use_id: str) -> None:
        self._line(STUCK)

    def close(self) -> None:
        self._end_line()

    def _tool_line(self, event: Event) -> None:
        match event:
            case ToolStart():
                for call in event.calls:
                    self._line(f"→ {call.name}: {call.title}")
            case ToolProgress(text=text) if text:
                self._write(text)
            case ToolEnd():
                reason = f": {event.error['message']}" if event.error else ""
                self._line(f"  {'✓' if event.status == 'success' else '✗'} {event.name} {event.status}{reason}")
            case RunEnd(cost_usd=cost) if cost is not None:
                self._line(f"[${cost:.4f}, {event.duration_ms / 1000:.1f} s]")
            case _:
                pass  # nothing to print

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(f"{text}\n")

    def _end_line(self) -> None:
        if self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(visible_controls(text))
        sys.stdout.flush()
        self._in_line = not text.endswith("\n")
