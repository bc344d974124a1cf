"""A run on stdout, by the terminal's views: in terminal IPython, for programs, and where the widget was not built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.conversation.run_queue import ConversationRun
from cellwright.events import Event
from cellwright.kernel.output.cell_output import STUCK

if TYPE_CHECKING:
    from cellwright.terminal.plain_view import View


class ViewOutput:
    """What `view` makes of the events; `notice` is said first."""

    def __init__(self, view: View, notice: str = "") -> None:
        self._view = view
        self._notice = notice

    def open(self) -> None:
        if self._notice:
            print(self._notice)

    def emit(self, event: Event) -> None:
        self._view.emit(event)

    def stuck(self, tool_use_id: str) -> None:
        print(STUCK)

    def close(self) -> None:
        self._view.close()

    def belongs_to(self, run: ConversationRun) -> None:
        pass  # nobody can say anything here

    def describe(self, metadata: Callable[[], Mapping[str, Any]]) -> None:
        pass  # text has none

    def keep(self, outputs: Sequence[Mapping[str, Any]]) -> None:
        print("Skipped: the cell keeps the answer it held.")
