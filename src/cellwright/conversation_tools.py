"""The tools of a conversation: made once a session, since they share what was read."""

from __future__ import annotations

from collections.abc import Callable

from cellwright.agent.tool import Tool
from cellwright.conversation.run_options import RunOptions
from cellwright.conversation.toolset import ToolMaker, Workplace, all_tools
from cellwright.tools.files.file_state import FileState


class ConversationTools:
    """`place` says where tools work that share a memory of files; `new_memory` makes one; `more` are this process's own."""

    def __init__(
        self,
        place: Callable[[FileState], Workplace],
        new_memory: Callable[[], FileState],
        more: ToolMaker | None,
    ) -> None:
        self._place = place
        self._new_memory = new_memory
        self._more = more
        self._made: tuple[Tool, ...] | None = None
        self.notices: list[str] = []
        """What is to be said of tools that others bring."""
        self.file_state = new_memory()

    def forget(self) -> None:
        """The next run's tools are made anew: what was read is forgotten."""
        self._made = None

    def of(self, options: RunOptions) -> tuple[Tool, ...]:
        """The tools of a run: the built-in ones, this process's, and the ones that came with the options."""
        if not options.builtin_tools:
            return options.tools
        if self._made is None:
            self.file_state = self._new_memory()
            self._made, self.notices = all_tools(self._place(self.file_state), self._more)
        return (*self._made, *options.tools)
