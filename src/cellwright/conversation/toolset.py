"""The tools of a conversation, made together because some share what they know of files and folders.

The tools of a conversation: made once a session, since they share what was read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.agent.tool import Tool
from cellwright.config.settings.allowed import tool_is_allowed
from cellwright.config.settings.settings import Settings
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.model.provider import Provider
from cellwright.permissions.policy import JUDGES
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebooks

ToolMaker = Callable[[Path, Settings], Sequence[Tool]]


def never_unsaved(_path: Path) -> bool:
    """Where there is no editor."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What tools need of the place they work in.

    `provider` is the way to the model for tools that ask a small one; it is called when there is something to ask.
    `is_unsaved` says of a file whether it is open in an editor with changes that are not on disk; `open_notebooks` are the
    notebooks that can be worked on where their user sees them.
    """

    cwd: Path
    settings: Settings
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    provider: Callable[[], Provider] | None = None
    is_unsaved: Callable[[Path], bool] = never_unsaved
    open_notebooks: OpenNotebooks = field(default_factory=NothingOpen)
    file_state: FileState | None = None
    """What the model knows of files, where others must know it, too."""


def builtin_tools(place: Workplace) -> tuple[Tool, ...]:
    """The tools that need no kernel, sharing one memory of what was read."""
    from cellwright.tools.code.lint import lint_tool
    from cellwright.tools.code.run_tests import run_tests_tool
    from cellwright.tools.files.read import file_tools
    from cellwright.tools.git.git import git_tool
    from cellwright.tools.notebook.notebook_edit import notebook_file_tools
    from cellwright.tools.planning.ask_user import ask_user_tool
    from cellwright.tools.planning.plan_mode import plan_tools
    from cellwright.tools.planning.todo_write import todo_tools
    from cellwright.tools.search.search_tools import search_tools
    from cellwright.tools.shell.bash import bash_tools
    from cellwright.tools.web.web_fetch import web_tools

    cwd, settings, environ = place.cwd, place.settings, place.environ
    state = place.file_state or FileState(place.is_unsaved)
    roots = (cwd, *settings.additional_directories)
    return (
        *file_tools(state, cwd, place.open_notebooks),
        *search_tools(cwd, environ=environ),
        git_tool(cwd, environ),
        run_tests_tool(cwd, environ),
        lint_tool(cwd, environ, state.keeper),
        *notebook_file_tools(state, cwd, place.open_notebooks),
        *bash_tools(
            cwd, roots, environ=environ, shown_chars=settings.bash_output_max_chars, seconds=settings.command_timeout
        ),
        *todo_tools(environ),
        ask_user_tool(),
        *plan_tools(settings.project, settings.plans_directory),
        *web_tools(
            environ,
            place.provider,
            seconds=settings.web_fetch_timeout,
            most_bytes=settings.max_file_size,
            cache_seconds=settings.cache_ttl,
        ),
    )


def all_tools(place: Workplace, more_tools: ToolMaker | None) -> tuple[tuple[Tool, ...], list[str]]:
    """The built-in tools, this process's own, those that packages and trusted folders bring; and notices for the user."""
    from cellwright.config.tool_plugins import brought_tools

    own = (*builtin_tools(place), *(more_tools(place.cwd, place.settings) if more_tools is not None else ()))
    # what the policy knows by name, it may let run unasked: nobody else gets such a name, there or not
    brought = brought_tools(place.settings.tool_files, [*(tool.name for tool in own), *JUDGES, "Task"])
    tools = (*own, *brought.tools.values())
    # what the administrator forbids Claude is not even told of
    return tuple(tool for tool in tools if tool_is_allowed(tool.name, place.settings)), brought.notices


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
